"""Makes the sections of docs/performance.md from a run of reprise-bench."""

from harness.results import NotMeasured
from harness.tables import MS, US, Targets, digits, short, size, table, times

# Prefix of the names of benchmarks that were run again without AVX-512.
WITHOUT_AVX512 = "without_avx512/"

# The project's targets: (subject, base-2 logarithm of N, how many times faster than the textbook
# reprise has to be at least).
TARGETS = [
    ("W1/cycle", 16, 5.0),
    ("W1/cycle", 20, 10.0),
    ("W1/cycle", 23, 10.0),
    (WITHOUT_AVX512 + "W1/cycle", 16, 4.5),
    (WITHOUT_AVX512 + "W1/cycle", 20, 8.5),
    (WITHOUT_AVX512 + "W1/cycle", 23, 9.5),
    ("W2/append76", None, 3.0),
    ("W2/cycle76", None, 5.0),
    ("W2/append56k", None, 6.0),
    ("W2/gather56k", None, 1.3),
    ("W4/record", 20, 3.0),
    ("W4/get5000", 20, 4.0),
    ("W4/get5000", 23, 6.0),
]
# The slowest of Chen and Wang's 169 points as they published it, in microseconds, through Python.
PUBLISHED_US = {"get5000": 800.0, "record": 700.0}
MAX_GROWTH = 2.0  # Of the time of W1/cycle from 2^16 items to 2^23.

# The loads of W3 (pace 0: as fast as they can) and W3P, each with one learner. Their targets are
# how many times more appends and learner cycles reprise makes than the textbook, and how many times
# lower the 99.9th percentile of append latency is; None: no target.
LOADS = [
    # actors, pace in steps/s, targets for appends, cycles, p99.9
    (1, 0, None, None, None),
    (2, 0, 2.5, 8.0, None),
    (4, 0, None, None, None),
    (8, 0, 2.0, 5.0, None),
    (16, 0, 2.0, 5.0, None),
    (4, 50_000, None, 5.0, 20.0),
    (4, 1_000_000, None, 5.0, 20.0),
]
MAX_APPEND_P999_US = 5.0
MAX_OVERHEAD_BYTES = 32.0
SHARDS = 4  # The library's default.


def machine_section(results):
    context = results.context
    load = (context.get("load_avg") or [float("nan")])[0]
    return f"""
- Machine: {context.get("machine", "unknown")}
- Date: {context["date"][:10]}
- Compiler: {context.get("compiler", "unknown")}; benchmark preset, no -march
- Sources: {context.get("revision", "unknown")}
- Medians of {results.least_repetitions} interleaved repetitions; load average before the run {load:.1f}
"""


def load_name(actors, pace):
    if pace:
        return f"W3P, {actors} actors, {pace:,} steps/s"
    return f"W3, {actors} actor{'' if actors == 1 else 's'}"


def load_counter(results, implementation, actors, pace, counter):
    """Returns a counter of one load, or None if the load was not run."""
    name = f"W3/{implementation}/{actors}/{pace}/min_time:3.000/real_time"
    return results.counter(name, counter) if results.has(name) else None


def load_ratio(results, actors, pace, counter):
    """Returns the ratio of reprise's counter to the textbook's, or None if either was not run."""
    ours, theirs = (
        load_counter(results, who, actors, pace, counter) for who in ("reprise", "textbook")
    )
    return None if ours is None or theirs is None else ours / theirs


def target_section(results):
    targets = Targets()
    for subject, log, least in TARGETS:
        where = f" at {size(log)}" if log else ""
        name = subject.removeprefix(WITHOUT_AVX512)
        what = f"`{name}`{where}" + (", without AVX-512" if name != subject else "")
        targets.at_least(what, least, results.ratio(subject, log))
    small, large = "W1/cycle/reprise/16", "W1/cycle/reprise/23"
    if results.has(small, large):
        growth = results.ns(large) / results.ns(small)
        what = "growth of `W1/cycle` from 2^16 to 2^23"
        targets.add(what, f"at most {MAX_GROWTH:g}x", times(growth), growth <= MAX_GROWTH)
    points = "W4/points/reprise/iterations:1"
    for what, most in PUBLISHED_US.items() if results.has(points) else ():
        slowest = results.counter(points, f"slowest_{what.removesuffix('5000')}_us")
        targets.below(f"`W4/{what}`, slowest of 169 points", most, slowest, "us")
    if results.has("W2/append76/reprise"):
        extra, most = overhead(results, "W2/append76/reprise"), MAX_OVERHEAD_BYTES
        what = "bytes per 76-byte step beyond the fields"
        targets.add(what, f"at most {most:g}", digits(extra), extra <= most)
    for actors, pace, appends, cycles, p999 in LOADS:
        name = load_name(actors, pace)

        def ratio(counter):
            return load_ratio(results, actors, pace, counter)

        if appends is not None:
            targets.at_least(f"{name}: appends", appends, ratio("appends_per_second"))
        if cycles is not None:
            targets.at_least(f"{name}: learner cycles", cycles, ratio("batches_per_second"))
        if p999 is not None:
            latency = ratio("append_p999_ns")
            targets.at_least(f"{name}: append p99.9, times lower", p999, latency and 1 / latency)
            ns = load_counter(results, "reprise", actors, pace, "append_p999_ns")
            targets.below(f"{name}: append p99.9", MAX_APPEND_P999_US, ns and ns / US, "us")
    return targets.table()


def comparison(results, subjects, unit, scale):
    """A table with a row per subject and size; scale(name) is the figure shown for a benchmark."""
    rows = []
    for subject, title in subjects.items():
        for log in results.logs(subject) or [None]:
            names = [results.name(subject, who, log) for who in ("textbook", "reprise")]
            if results.has(*names):
                figures = [digits(scale(name)) for name in names]
                rows.append([title, size(log), *figures, times(results.ratio(subject, log))])
    return table(["", "N", "textbook, " + unit, "reprise, " + unit, "faster"], rows)


def w1_section(results):
    whole = {"W1/cycle": "cycle: draw 512, update 512", "W1/draw": "draw 512 alone"}
    trees = {f"W1/tree_{call}": call for call in ("update", "draw", "append")}
    trees["W1/weigh"] = "power alone"
    us = "us", lambda name: results.ns(name) / US
    return "\n\n".join(
        [
            "Through `Sampler::sample` without gathering and `update_priorities`, time per batch:",
            comparison(results, whole, *us),
            "The trees alone, time per item:",
            comparison(results, trees, "ns/item", results.per_item),
            "Without AVX-512, in a run of its own, time per batch and per item:",
            *[
                comparison(
                    results, {WITHOUT_AVX512 + name: what for name, what in some.items()}, *how
                )
                for some, *how in ((whole, *us), (trees, "ns/item", results.per_item))
            ],
        ]
    )


def w2_section(results):
    appends = {"W2/append76": "append, 76 B", "W2/append56k": "append, 56 KB"}
    draws = {
        "W2/sample76": "sample and gather, 76 B",
        "W2/cycle76": "the same and update, 76 B",
        "W2/gather56k": "sample and gather, 56 KB",
    }
    parts = [
        comparison(results, appends, "M steps/s", lambda name: 1e3 / results.per_item(name)),
        comparison(results, draws, "batches/s", lambda name: 1e9 / results.ns(name)),
    ]
    shared_out, textbook = "W2/gather56k/reprise_tbb", "W2/gather56k/textbook"
    if results.has(shared_out, textbook):
        ns = results.wall_ns(shared_out)
        parts.append(
            "With the gather shared out by oneTBB, by the clock on the wall: "
            f"{digits(1e9 / ns)} batches/s, {times(results.wall_ns(textbook) / ns)} the textbook's."
        )
    return "\n\n".join(parts)


def types(names):
    return {name: f"`{name.title().replace('_', '')}`" for name in names.split()}


SELECTORS = types(
    "proportional uniform rank_based recency loss_adjusted mixture fifo lifo min_heap max_heap"
) | {
    "without_replacement": "`Proportional`, `Draws::WithoutReplacement`",
    "epoch": "`Uniform`, `Draws::Epoch`",
    "max_times_sampled": "`Proportional`, `max_times_sampled`",
}
REMOVERS = types(
    "fifo second_chance least_recently_sampled least_frequently_sampled lowest_priority"
)


def relative_to_first(results, strategies, measures, header):
    """A table with a row per strategy and size: its figures, each with its ratio to the figure of
    the first strategy."""
    first, rows = next(iter(strategies)), []
    for log in results.logs(measures[0][0]):
        for strategy, title in strategies.items():
            row = [title, size(log)]
            for subject, figure, unit in measures:
                name, plainest = (results.name(subject, who, log) for who in (strategy, first))
                row.append(f"{digits(figure(name))} {unit}")
                row.append(times(results.ns(name) / results.ns(plainest)))
            rows.append(row)
    return table(header, rows)


def strategies_section(results):
    cycle = ("select/cycle", lambda name: results.ns(name) / US, "us")
    append = ("select/append", results.per_item, "ns")
    after_draws = ("remove/append", results.per_item, "ns")
    beside = "beside the first"
    selectors = ["selector", "N", "draw 512, update 512", beside, "append", beside]
    removers = ["remover", "N", "append, and 32 drawn per 512 appended", beside]
    return "\n\n".join(
        [
            relative_to_first(results, SELECTORS, [cycle, append], selectors),
            relative_to_first(results, REMOVERS, [after_draws], removers),
        ]
    )


LIMITED = [
    # limit, shards, benchmark with the limit, comparable benchmark without it
    (1, 1, "once/1_shard", "no_limit/1_shard"),
    (3, 1, "3_times/1_shard", "no_limit_of_3/1_shard"),
    (1, 4, "once/4_shards", "no_limit/4_shards"),
    (3, 4, "3_times/4_shards", "no_limit/4_shards"),
]


def exhausted_section(results):
    """A table of buffers in which every item is drawn as often as the limit allows."""
    header = ["max_times_sampled", "shards"]
    header += ["512 commits", "beside no limit", "sample(512)", "beside no limit", "drawn per step"]
    rows = []
    for limit, shards, limited, free in LIMITED:
        row = [str(limit), str(shards)]
        for half in ("append", "draw"):
            names = [f"exhausted/{half}/{who}/100000/manual_time" for who in (limited, free)]
            mine, other = (results.wall_ns(name) for name in names)
            row += [f"{digits(mine / US)} us", times(mine / other)]
        rows.append(row + [f"{results.counter(names[0], 'drawn') * limit:.2f}"])
    return table(header, rows)


def segment_tree_sections(results):
    """The tables of the tree's points, of changes of ranges, and of cycles with decay."""

    def each(subject, header, *implementations):
        rows = []
        for log in results.logs(subject):
            names = [results.name(subject, who, log) for who in implementations]
            if results.has(*names):
                rows.append([size(log), *(short(results.ns(name)) for name in names)])
        return table(header, rows)

    calls = {
        "segment_tree/assign512": "assign 512",
        "segment_tree/find512": "prefix search of 512",
        "segment_tree/sum512": "sum of a range",
    }
    return {
        "segment tree": comparison(results, calls, "ns/item", results.per_item),
        "scaled ranges": each(
            "segment_tree/scale",
            ["leaves of the range", "textbook, leaf by leaf", "lazy textbook", "reprise"],
            *("textbook", "textbook_lazy", "reprise"),
        ),
        "decaying": each(
            "segment_tree/decay_cycle",
            ["N", "lazy textbook", "reprise"],
            "textbook_lazy",
            "reprise",
        ),
    }


def w4_section(results):
    subjects = {"W4/record": "100 records", "W4/get5000": "5000 windows of 8 steps"}
    return comparison(results, subjects, "us", lambda name: results.ns(name) / US)


def limits_section(results):
    def copied(name):
        return f"{digits(1.0 / results.per_item(name))} GB/s"

    def each(name):
        return f"{digits(results.per_item(name))} ns"

    def batches(name):
        return f"{digits(1e9 / results.ns(name))} batches/s"

    limits = [
        ("memcpy/14", "memcpy of 16 KiB, in cache", copied),
        ("memcpy/26", "memcpy of 64 MiB", copied),
        ("random_lines/26", "random 64-byte line, prefetched, in 64 MiB", each),
        ("random_lines/30", "random 64-byte line, prefetched, in 1 GiB", each),
        ("line_transfer", "a cache line to another thread and back, half of it", each),
        ("gather76", "copy of 512 random rows of 76 bytes among 2^20", batches),
        ("gather56k", "copy of 512 random rows of 56,460 bytes among 20,000", batches),
    ]
    measured = [(f"limit/{name}", title, figure) for name, title, figure in limits]
    rows = [[title, figure(name)] for name, title, figure in measured if results.has(name)]
    return table(["limit", "measured"], rows) + "\n\n" + bare_tree_table(results)


def bare_tree_table(results):
    """A table of the bare tree's time for a batch, and which share of the library's times that
    is."""
    rows = []
    for before, instructions in (("", "all"), (WITHOUT_AVX512, "without AVX-512")):
        for log in results.logs(before + "W1/limit/bare_tree"):
            subjects = [f"{before}W1/{call}" for call in ("cycle", "tree_draw", "tree_update")]
            names = [results.name(subject, "reprise", log) for subject in subjects]
            if results.has(*names):
                bare = results.ns(results.name(before + "W1/limit", "bare_tree", log))
                cycle, draw, update = map(results.ns, names)
                row = [instructions, size(log), digits(bare / US)]
                for ours in (cycle, draw + update):
                    row += [digits(ours / US), f"{bare / ours:.0%}"]
                rows.append(row)
    header = ["instructions", "N", "bare tree, us", "`W1/cycle`, us", "share"]
    return table(header + ["trees alone, us", "share"], rows)


MIN_SHARE_OF_DD = 0.7  # Of the speed of dd, for a save and for a load.
MAX_INCREMENTAL = 0.05  # Time of a save after 1% of the steps are new, beside a whole save's.
MAX_SLOWER_BESIDE_SAVE = 0.1
MAX_APPEND_P999_BESIDE_SAVE_US = 20.0


def checkpoint_section(results):
    """The table of saves and loads of 1 GiB, compared with dd, and of calls while a save runs."""

    def name(what):
        return f"checkpoint/{what}/30/iterations:1/manual_time"

    def ms(what):
        return results.wall_ns(name(what)) / MS

    rows = []

    def add(what, measured, beside, target, ratio, met):
        rows.append([what, measured, beside, target, ratio, "yes" if met else "no"])

    for where, title in (("ram", "RAM disk"), ("disk", "disk")):
        for what in ("save", "load"):
            ours, dd = ms(f"{what}_{where}"), ms(f"{what}_{where}_dd")
            share, target = dd / ours, f"at least {MIN_SHARE_OF_DD:g}x dd's speed"
            theirs = f"dd and fsync: {digits(dd)} ms"
            met = share >= MIN_SHARE_OF_DD
            add(f"{what}, {title}", f"{digits(ours)} ms", theirs, target, times(share), met)
        part, whole = ms(f"incremental_{where}"), ms(f"save_{where}")
        add(
            f"save after 1% is new, {title}",
            f"{digits(part)} ms",
            f"the whole: {digits(whole)} ms",
            f"at most {MAX_INCREMENTAL:.0%}",
            f"{part / whole:.1%}",
            part / whole <= MAX_INCREMENTAL,
        )
    for what, title in (("frames", "frames"), ("steps", "steps of 32 bytes")):
        for saves, saving in (("saves", "saves"), ("paced_saves", "saves at 100 MB/s")):
            # A cycle is judged by its mean: a paced save rests most of the time, which hides it
            # from medians.
            for counter, call in (
                ("append_p50_ns", "append, median"),
                ("cycle_mean_ns", "sample and update of 512, mean"),
                ("append_p999_ns", "append, p99.9"),
            ):
                alone, beside = (
                    results.counter(name(f"{what}_beside_{which}"), counter)
                    for which in ("nothing", saves)
                )
                if counter == "append_p999_ns":
                    target, ratio = f"below {MAX_APPEND_P999_BESIDE_SAVE_US:g} us", ""
                    met = beside < MAX_APPEND_P999_BESIDE_SAVE_US * US
                else:
                    target = f"at most {MAX_SLOWER_BESIDE_SAVE:.0%} more"
                    ratio = f"{beside / alone - 1.0:+.1%}"
                    met = beside <= (1.0 + MAX_SLOWER_BESIDE_SAVE) * alone
                measured, unsaved = short(beside), "alone: " + short(alone)
                add(f"{title}: {call}, beside {saving}", measured, unsaved, target, ratio, met)
    return "\n\n".join(
        [
            table(["", "measured", "beside", "target", "ratio", "met"], rows),
            f"Reading the same files with dd and forgetting them: {digits(ms('load_ram_read'))} ms "
            f"from the RAM disk, {digits(ms('load_disk_read'))} ms from the disk.",
        ]
    )


def scaling_section(results):
    """The costs of a step and of a cycle, and how many threads it takes to exhaust each
    resource."""
    append, cycle = "W2/append76/reprise", "W2/cycle76/reprise"
    ingest = results.per_item("shard/ingest/256")
    own = results.per_item(append) - ingest
    draw = results.ns("shard/draw")
    held = results.ns("shard/cycle")
    cycle_ns = results.ns(cycle)
    transfer = results.per_item("limit/line_transfer")
    step_bytes = results.counter(append, "bytes_per_step")
    memory = 1.0 / results.per_item("limit/memcpy/26")  # Bytes per nanosecond.
    costs = {
        "a step in its writer (76 B)": own,
        "a step under the lock, ingest and eviction, in runs of 256, at most": ingest,
        "the same, one step at a time": results.per_item("shard/ingest/1"),
        "a shard held by a batch of 512 for its draws, at most": draw,
        "a shard held by a batch of 512 for its update, at most": held - draw,
        "a learner's whole cycle (76 B)": cycle_ns,
        "a cache line from one core to another": transfer,
    }
    rows = [[cost, f"{digits(ns)} ns"] for cost, ns in costs.items()]
    rows.append(["memory written per step", f"{digits(step_bytes)} B"])
    by_steps, by_batches = digits(SHARDS * own / ingest), digits(cycle_ns / held)
    by_memory, by_bells = digits(memory * own / step_bytes), 2 * transfer / cycle_ns
    step, copied = "step in its writer", "memcpy of 64 MiB"
    bounds = [
        ["locks, by steps", f"{by_steps} actors", f"shards * {step} / step under the lock"],
        [
            "locks, by batches",
            f"{by_batches} learners",
            "cycle / (held for draws + held for update)",
        ],
        ["memory bandwidth", f"{by_memory} actors", f"{copied} * {step} / bytes per step"],
        [
            "bells",
            f"never: {by_bells:.2%} of an actor's time",
            "2 line transfers per answer / one answer per cycle",
        ],
    ]
    return (
        table(["cost", "measured"], rows) + "\n\n" + table(["resource", "full at", "from"], bounds)
    )


def overhead(results, name):
    return results.counter(name, "bytes_per_step") - results.counter(name, "field_bytes")


def memory_section(results):
    rows = []
    for subject, title in (("W2/append76", "76 B"), ("W2/append56k", "56 KB")):
        for who in ("textbook", "reprise"):
            name = results.name(subject, who)
            if results.has(name):
                counters = (results.counter(name, c) for c in ("field_bytes", "bytes_per_step"))
                figures = [*counters, overhead(results, name)]
                rows.append([f"{title}, {who}", *map(digits, figures)])
    return table(["", "fields, bytes", "all, bytes per step", "beyond the fields"], rows)


def load_section(results):
    """A table of W3 and W3P, with a row for each load that was run for both implementations."""
    rates, latencies = ("appends_per_second", "batches_per_second"), (
        "append_p99_ns",
        "append_p999_ns",
    )
    rows = []
    for load in [(actors, pace) for actors, pace, *_ in LOADS]:
        if load_ratio(results, *load, rates[0]) is None:
            continue

        def both(counters, *scales):
            return [
                " / ".join(
                    digits(load_counter(results, who, *load, counter) / scale)
                    for counter, scale in zip(counters, scales)
                )
                for who in ("textbook", "reprise")
            ]

        faster = " / ".join(times(load_ratio(results, *load, counter)) for counter in rates)
        rows.append([load_name(*load), *both(rates, 1e6, 1), faster, *both(latencies, US, US)])
    header = ["load", "textbook: M appends/s / batches/s", "reprise", "faster"]
    return table(header + ["textbook: append p99 / p99.9, us", "reprise"], rows)


def if_measured(section, results):
    try:
        return section(results)
    except NotMeasured:
        return "Not measured."


def sections(results):
    return {
        "machine": machine_section(results),
        "targets": target_section(results),
        "W1": w1_section(results),
        "W2": w2_section(results),
        "W3": load_section(results),
        "W4": w4_section(results),
        "strategies": if_measured(strategies_section, results),
        "used up": if_measured(exhausted_section, results),
        "checkpoints": if_measured(checkpoint_section, results),
        **segment_tree_sections(results),
        "limits": limits_section(results),
        "scaling": if_measured(scaling_section, results),
        "memory": memory_section(results),
    }
