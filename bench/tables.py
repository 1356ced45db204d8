"""The tables made of a run of reprise-bench."""

from results import MS, US

# What the project aims at: times faster than the textbook in the same run.
TARGETS = [
    ("W1/cycle", 16, 5.0),
    ("W1/cycle", 20, 10.0),
    ("W1/cycle", 23, 10.0),
    ("W2/append76", None, 3.0),
    ("W2/cycle76", None, 5.0),
    ("W2/append56k", None, 6.0),
    ("W2/gather56k", None, 1.3),
    ("W4/record", 20, 3.0),
    ("W4/get5000", 20, 4.0),
    ("W4/get5000", 23, 6.0),
]
# The curves that Chen and Wang published for their 169 points, through Python.
PUBLISHED_GET_US = 800.0
PUBLISHED_RECORD_US = 700.0
MOST_GROWTH = 2.0

# The loads of W3 (pace 0: flat out) and W3P, each with one learner, and what the project aims at:
# times more appends and learner cycles, and how many times lower the append latency's 99.9th
# percentile is. Nothing where there is no aim.
LOADS = [
    # actors, pace in steps/s, appends, cycles, p99.9
    (1, 0, None, None, None),
    (2, 0, 2.5, 8.0, None),
    (4, 0, None, None, None),
    (8, 0, 2.0, 5.0, None),
    (16, 0, 2.0, 5.0, None),
    (4, 50_000, None, 5.0, 20.0),
    (4, 1_000_000, None, 5.0, 20.0),
]
PICTURED_LOAD = (4, 1_000_000)  # Whose latencies are drawn.
MOST_APPEND_P999_US = 5.0
MOST_OVERHEAD_BYTES = 32.0


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |",
             "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def digits(value):
    """Three digits, and no exponent."""
    if value >= 100:
        return "{:,.0f}".format(value)
    return "{:.1f}".format(value) if value >= 10 else "{:.2f}".format(value)


def times(ratio):
    return "not measured" if ratio is None else digits(ratio) + "x"


def size(log):
    return "" if log is None else "2^{}".format(log)


def machine_section(results):
    context = results.context
    return "\n".join([
        "- Machine: {}".format(context.get("machine", "unknown")),
        "- Date: {}".format(context["date"][:10]),
        "- Compiler: {}; benchmark preset, no -march".format(context.get("compiler", "unknown")),
        "- Sources: {}".format(context.get("revision", "unknown")),
        "- Medians of {} interleaved repetitions; load average before the run {:.1f}".format(
            results.least_repetitions, (context.get("load_avg") or [float("nan")])[0]),
    ])


def load_name(actors, pace):
    return "W3P, {} actors, {:,} steps/s".format(actors, pace) if pace else "W3, {} actor{}".format(
        actors, "" if actors == 1 else "s")


def load_counter(results, implementation, actors, pace, counter):
    """Nothing if that load was not run."""
    name = "W3/{}/{}/{}/min_time:3.000/real_time".format(implementation, actors, pace)
    return results.median_counter(name, counter) if results.has(name) else None


def load_ratio(results, actors, pace, counter):
    """reprise over textbook, or nothing if one of them was not run."""
    ours, theirs = (load_counter(results, implementation, actors, pace, counter)
                    for implementation in ("reprise", "textbook"))
    return None if ours is None or theirs is None else ours / theirs


def load_targets(results):
    rows = []
    for actors, pace, appends, cycles, p999 in LOADS:
        latency = load_ratio(results, actors, pace, "append_p999_ns")
        for what, target, measured in (
                ("appends", appends, load_ratio(results, actors, pace, "appends_per_second")),
                ("learner cycles", cycles,
                 load_ratio(results, actors, pace, "batches_per_second")),
                ("append p99.9, times lower", p999, latency and 1 / latency)):
            if target is not None:
                met = "" if measured is None else ("yes" if measured >= target else "no")
                rows.append(["{}: {}".format(load_name(actors, pace), what),
                             "at least {:g}x".format(target), times(measured), met])
        if p999 is not None:
            ns = load_counter(results, "reprise", actors, pace, "append_p999_ns")
            rows.append(["{}: append p99.9".format(load_name(actors, pace)),
                         "below {:g} us".format(MOST_APPEND_P999_US),
                         "not measured" if ns is None else digits(ns / US) + " us",
                         "" if ns is None else ("yes" if ns / US < MOST_APPEND_P999_US else "no")])
    return rows


def target_section(results):
    rows = []
    for subject, log, target in TARGETS:
        ratio = results.ratio(subject, log)
        met = "" if ratio is None else ("yes" if ratio >= target else "no")
        rows.append(["`{}`{}".format(subject, " at " + size(log) if log else ""),
                     "at least {:g}x".format(target), times(ratio), met])
    ends = [results.name("W1/cycle", "reprise", log) for log in (16, 23)]
    if all(results.has(name) for name in ends):
        growth = results.ns(ends[1]) / results.ns(ends[0])
        rows.append(["growth of `W1/cycle` from 2^16 to 2^23", "at most {:g}x".format(MOST_GROWTH),
                     times(growth), "yes" if growth <= MOST_GROWTH else "no"])
    name = "W4/points/reprise/iterations:1"
    if results.has(name):
        for what, counter, most in (("get5000", "slowest_get_us", PUBLISHED_GET_US),
                                    ("record", "slowest_record_us", PUBLISHED_RECORD_US)):
            slowest = results.counter(name, counter)
            rows.append(["`W4/{}`, slowest of 169 points".format(what),
                         "below {:g} us".format(most), digits(slowest) + " us",
                         "yes" if slowest < most else "no"])
    name = results.name("W2/append76", "reprise")
    if results.has(name):
        extra = overhead(results, name)
        rows.append(["bytes per 76-byte step beyond the fields",
                     "at most {:g}".format(MOST_OVERHEAD_BYTES), digits(extra),
                     "yes" if extra <= MOST_OVERHEAD_BYTES else "no"])
    rows += load_targets(results)
    return table(["measure", "target", "measured", "met"], rows)


def comparison(results, subjects, unit, scale):
    """One row per subject and size; `scale` turns a name into the figure shown."""
    rows = []
    for subject, title in subjects:
        for log in results.logs(subject) or [None]:
            names = [results.name(subject, i, log) for i in ("textbook", "reprise")]
            if all(results.has(name) for name in names):
                rows.append([title, size(log)] + [digits(scale(name)) for name in names] +
                            [times(results.ratio(subject, log))])
    return table(["", "N", "textbook, " + unit, "reprise, " + unit, "faster"], rows)


def w1_section(results):
    whole = comparison(results, [("W1/cycle", "cycle: draw 512, update 512"),
                                 ("W1/draw", "draw 512 alone")],
                       "us", lambda name: results.ns(name) / US)
    parts = comparison(results, [("W1/tree_update", "update"), ("W1/tree_draw", "draw"),
                                 ("W1/tree_append", "append"), ("W1/weigh", "power alone")],
                       "ns/item", results.per_item)
    return "\n\n".join([
        "Through `Sampler::sample` without gathering and `update_priorities`, time per batch:",
        whole, "The trees alone, time per item:", parts])


def w2_section(results):
    def per_second(name):
        return 1e9 / results.per_item(name) / 1e6

    def batches(name):
        return 1e9 / results.ns(name)

    appends = comparison(results, [("W2/append76", "append, 76 B"),
                                   ("W2/append56k", "append, 56 KB")], "M steps/s", per_second)
    draws = comparison(results, [("W2/sample76", "sample and gather, 76 B"),
                                 ("W2/cycle76", "the same and update, 76 B"),
                                 ("W2/gather56k", "sample and gather, 56 KB")],
                       "batches/s", batches)
    parts = [appends, draws]
    name = results.name("W2/gather56k", "reprise_tbb")
    if results.has(name):
        textbook = results.wall_ns(results.name("W2/gather56k", "textbook"))
        parts.append("With the gather shared out by oneTBB, by the clock on the wall: {} batches/s, "
                     "{} the textbook's.".format(digits(1e9 / results.wall_ns(name)),
                                                 times(textbook / results.wall_ns(name))))
    return "\n\n".join(parts)


SELECTORS = [
    ("proportional", "`Proportional`"),
    ("uniform", "`Uniform`"),
    ("rank_based", "`RankBased`"),
    ("recency", "`Recency`"),
    ("loss_adjusted", "`LossAdjusted`"),
    ("mixture", "`Mixture`"),
    ("fifo", "`Fifo`"),
    ("lifo", "`Lifo`"),
    ("min_heap", "`MinHeap`"),
    ("max_heap", "`MaxHeap`"),
    ("without_replacement", "`Proportional`, `Draws::WithoutReplacement`"),
    ("epoch", "`Uniform`, `Draws::Epoch`"),
    ("max_times_sampled", "`Proportional`, `max_times_sampled`"),
]
REMOVERS = [
    ("fifo", "`Fifo`"),
    ("second_chance", "`SecondChance`"),
    ("least_recently_sampled", "`LeastRecentlySampled`"),
    ("least_frequently_sampled", "`LeastFrequentlySampled`"),
    ("lowest_priority", "`LowestPriority`"),
]


def beside_plainest(results, strategies, measures, header):
    """A row for each strategy and size; figures beside those of the first strategy."""
    rows = []
    for log in results.logs(measures[0][0]):
        for strategy, title in strategies:
            row = [title, size(log)]
            for subject, figure, unit in measures:
                names = [results.name(subject, who, log) for who in (strategy, strategies[0][0])]
                if not all(results.has(name) for name in names):
                    return "Not measured."
                row += ["{} {}".format(digits(figure(names[0])), unit),
                        times(results.ns(names[0]) / results.ns(names[1]))]
            rows.append(row)
    return table(header, rows)


def strategies_section(results):
    cycle = ("select/cycle", lambda name: results.ns(name) / US, "us")
    append = ("select/append", results.per_item, "ns")
    selectors = beside_plainest(
        results, SELECTORS, [cycle, append],
        ["selector", "N", "draw 512, update 512", "beside the first", "append", "beside the first"])
    removers = beside_plainest(
        results, REMOVERS, [("remove/append", results.per_item, "ns")],
        ["remover", "N", "append, and 32 drawn per 512 appended", "beside the first"])
    return selectors + "\n\n" + removers


USED_UP = [
    # limit, shards, what was measured, and the same without a limit
    ("1", 1, "once/1_shard", "no_limit/1_shard"),
    ("3", 1, "3_times/1_shard", "no_limit_of_3/1_shard"),
    ("1", 4, "once/4_shards", "no_limit/4_shards"),
    ("3", 4, "3_times/4_shards", "no_limit/4_shards"),
]


def exhausted_section(results):
    """Buffers in which every item is drawn as often as it may be."""
    rows = []
    for limit, shards, limited, free in USED_UP:
        row = [limit, str(shards)]
        for half in ("append", "draw"):
            names = ["exhausted/{}/{}/100000/manual_time".format(half, who)
                     for who in (limited, free)]
            if not all(results.has(name) for name in names):
                return "Not measured."
            mine, other = (results.wall_ns(name) for name in names)
            row += ["{} us".format(digits(mine / US)), times(mine / other)]
        drawn = results.median_counter("exhausted/draw/{}/100000/manual_time".format(limited),
                                       "drawn")
        rows.append(row + ["{:.2f}".format(drawn * int(limit))])
    return table(["max_times_sampled", "shards", "512 commits", "beside no limit", "sample(512)",
                  "beside no limit", "drawn per step"], rows)


def short(ns):
    """A time with its unit."""
    if ns < US:
        return digits(ns) + " ns"
    return digits(ns / US) + " us" if ns < MS else digits(ns / MS) + " ms"


def segment_tree_sections(results):
    """The tree alone; ranges scaled at once; and the cycle of a decaying buffer."""
    def against(subject, implementations):
        return [["2^{}".format(log)] + [short(results.ns(results.name(subject, one, log)))
                                        for one in implementations]
                for log in results.logs(subject)
                if all(results.has(results.name(subject, one, log)) for one in implementations)]

    alone = comparison(results, [("segment_tree/assign512", "assign 512"),
                                 ("segment_tree/find512", "prefix search of 512"),
                                 ("segment_tree/sum512", "sum of a range")],
                       "ns/item", results.per_item)
    scaled = table(["leaves of the range", "textbook, leaf by leaf", "lazy textbook", "reprise"],
                   against("segment_tree/scale", ("textbook", "textbook_lazy", "reprise")))
    decaying = table(["N", "lazy textbook", "reprise"],
                     against("segment_tree/decay_cycle", ("textbook_lazy", "reprise")))
    return {"segment tree": alone, "scaled ranges": scaled, "decaying": decaying}


def w4_section(results):
    return comparison(results, [("W4/record", "100 records"),
                                ("W4/get5000", "5000 windows of 8 steps")], "us",
                      lambda name: results.ns(name) / US)


def limits_section(results):
    rows = []

    def add(name, title, figure):
        if results.has(name):
            rows.append([title, figure(name)])

    def copied(name):
        return "{} GB/s".format(digits(1.0 / results.per_item(name)))

    def each(name):
        return "{} ns".format(digits(results.per_item(name)))

    def batches(name):
        return "{} batches/s".format(digits(1e9 / results.ns(name)))

    add("limit/memcpy/14", "memcpy of 16 KiB, in cache", copied)
    add("limit/memcpy/26", "memcpy of 64 MiB", copied)
    add("limit/random_lines/26", "random 64-byte line, prefetched, in 64 MiB", each)
    add("limit/random_lines/30", "random 64-byte line, prefetched, in 1 GiB", each)
    add("limit/line_transfer", "a cache line to another thread and back, half of it", each)
    add("limit/gather76", "copy of 512 random rows of 76 bytes among 2^20", batches)
    add("limit/gather56k", "copy of 512 random rows of 56,460 bytes among 20,000", batches)
    return table(["limit", "measured"], rows)


LEAST_OF_DD = 0.7
MOST_INCREMENTAL = 0.05
MOST_SLOWER_BESIDE_SAVE = 0.1
MOST_APPEND_P999_BESIDE_SAVE_US = 20.0


def checkpoint_section(results):
    """Saves and loads of 1 GiB beside dd, and what others feel of a save."""
    def name(what):
        return "checkpoint/{}/30/iterations:1/manual_time".format(what)

    needed = [what + where for where in ("_ram", "_disk")
              for what in ("save", "incremental", "load")]
    needed += [what + where + "_dd" for where in ("_ram", "_disk") for what in ("save", "load")]
    needed += ["load_ram_read", "load_disk_read"]
    needed += [what + "_beside_" + which for what in ("frames", "steps")
               for which in ("nothing", "saves", "paced_saves")]
    if not all(results.has(name(what)) for what in needed):
        return "Not measured."

    def ms(what):
        return results.wall_ns(name(what)) / MS

    def yes(met):
        return "yes" if met else "no"

    rows = []
    for where, title in (("_ram", "RAM disk"), ("_disk", "disk")):
        for what in ("save", "load"):
            share = ms(what + where + "_dd") / ms(what + where)
            rows.append(["{}, {}".format(what, title), digits(ms(what + where)) + " ms",
                         "dd and fsync: {} ms".format(digits(ms(what + where + "_dd"))),
                         "at least {:g}x dd's speed".format(LEAST_OF_DD), times(share),
                         yes(share >= LEAST_OF_DD)])
        share = ms("incremental" + where) / ms("save" + where)
        rows.append(["save after 1% is new, " + title, digits(ms("incremental" + where)) + " ms",
                     "the whole: {} ms".format(digits(ms("save" + where))),
                     "at most {:.0%}".format(MOST_INCREMENTAL), "{:.1%}".format(share),
                     yes(share <= MOST_INCREMENTAL)])
    for what, title in (("frames", "frames"), ("steps", "steps of 32 bytes")):
        def counted(which, counter, what=what):
            return results.median_counter(name(what + "_beside_" + which), counter)

        for saves, beside_what in (("saves", "saves"), ("paced_saves", "saves at 100 MB/s")):
            # The mean of cycles: a save at a pace rests most of the time, which a median would hide.
            for counter, call in (("append_p50_ns", "append, median"),
                                  ("cycle_mean_ns", "sample and update of 512, mean")):
                alone, beside = counted("nothing", counter), counted(saves, counter)
                rows.append(["{}: {}, beside {}".format(title, call, beside_what),
                             short(beside), "alone: " + short(alone),
                             "at most {:.0%} more".format(MOST_SLOWER_BESIDE_SAVE),
                             "{:+.1%}".format(beside / alone - 1.0),
                             yes(beside <= (1.0 + MOST_SLOWER_BESIDE_SAVE) * alone)])
            beside = counted(saves, "append_p999_ns")
            rows.append(["{}: append, p99.9, beside {}".format(title, beside_what), short(beside),
                         "alone: " + short(counted("nothing", "append_p999_ns")),
                         "below {:g} us".format(MOST_APPEND_P999_BESIDE_SAVE_US), "",
                         yes(beside < MOST_APPEND_P999_BESIDE_SAVE_US * US)])
    reads = "Reading the same files with dd and forgetting them: {} ms from the RAM disk, {} ms from " \
            "the disk.".format(digits(ms("load_ram_read")), digits(ms("load_disk_read")))
    return "\n\n".join([table(["", "measured", "beside", "target", "ratio", "met"], rows), reads])


SHARDS = 4  # By default.


def scaling_section(results):
    """What a step and a cycle cost, and the numbers of threads at which each resource is full."""
    needed = ["shard/ingest/256", "shard/ingest/1", "shard/draw", "shard/cycle", "W2/append76/reprise",
              "W2/cycle76/reprise", "limit/line_transfer", "limit/memcpy/26"]
    if not all(results.has(name) for name in needed):
        return "Not measured."
    ingest = results.per_item("shard/ingest/256")
    own = results.per_item("W2/append76/reprise") - ingest
    draw = results.ns("shard/draw")
    update = results.ns("shard/cycle") - draw
    cycle = results.ns("W2/cycle76/reprise")
    transfer = results.per_item("limit/line_transfer")
    size_of_step = results.counter("W2/append76/reprise", "bytes_per_step")
    memory = 1.0 / results.per_item("limit/memcpy/26")  # Bytes per nanosecond.

    def ns(value):
        return digits(value) + " ns"

    costs = table(["cost", "measured"], [
        ["a step in its writer (76 B)", ns(own)],
        ["a step under the lock, ingest and eviction, in runs of 256, at most", ns(ingest)],
        ["the same, one step at a time", ns(results.per_item("shard/ingest/1"))],
        ["a shard held by a batch of 512 for its draws, at most", ns(draw)],
        ["a shard held by a batch of 512 for its update, at most", ns(update)],
        ["a learner's whole cycle (76 B)", ns(cycle)],
        ["a cache line from one core to another", ns(transfer)],
        ["memory written per step", digits(size_of_step) + " B"],
    ])
    bounds = table(["resource", "full at", "from"], [
        ["locks, by steps", "{} actors".format(digits(SHARDS * own / ingest)),
         "shards * step in its writer / step under the lock"],
        ["locks, by batches", "{} learners".format(digits(cycle / (draw + update))),
         "cycle / (held for draws + held for update)"],
        ["memory bandwidth", "{} actors".format(digits(memory * own / size_of_step)),
         "memcpy of 64 MiB * step in its writer / bytes per step"],
        ["bells", "never: {} of an actor's time".format(
            "{:.2%}".format(2 * transfer / cycle)),
         "2 line transfers per answer / one answer per cycle"],
    ])
    return costs + "\n\n" + bounds


def overhead(results, name):
    return results.counter(name, "bytes_per_step") - results.counter(name, "field_bytes")


def memory_section(results):
    rows = []
    for subject, title in (("W2/append76", "76 B"), ("W2/append56k", "56 KB")):
        for implementation in ("textbook", "reprise"):
            name = results.name(subject, implementation)
            if results.has(name):
                rows.append(["{}, {}".format(title, implementation),
                             digits(results.counter(name, "field_bytes")),
                             digits(results.counter(name, "bytes_per_step")),
                             digits(overhead(results, name))])
    return table(["", "fields, bytes", "all, bytes per step", "beyond the fields"], rows)


def load_section(results):
    """W3 and W3P: one row per load that both were measured at."""
    rows = []
    for actors, pace, *_ in LOADS:
        if load_ratio(results, actors, pace, "appends_per_second") is None:
            continue

        def both(first, second, scales):
            return ["{} / {}".format(*(digits(load_counter(results, i, actors, pace, counter) / scale)
                                     for counter, scale in zip((first, second), scales)))
                    for i in ("textbook", "reprise")]

        rows.append([
            load_name(actors, pace),
            *both("appends_per_second", "batches_per_second", (1e6, 1)),
            " / ".join(times(load_ratio(results, actors, pace, counter))
                       for counter in ("appends_per_second", "batches_per_second")),
            *both("append_p99_ns", "append_p999_ns", (US, US)),
        ])
    return table(["load", "textbook: M appends/s / batches/s", "reprise", "faster",
                  "textbook: append p99 / p99.9, us", "reprise"], rows)


def sections(results):
    return {"machine": machine_section(results), "targets": target_section(results),
            "W1": w1_section(results), "W2": w2_section(results), "W3": load_section(results),
            "W4": w4_section(results), "strategies": strategies_section(results),
            "used up": exhausted_section(results), "checkpoints": checkpoint_section(results),
            **segment_tree_sections(results), "limits": limits_section(results),
            "scaling": scaling_section(results), "memory": memory_section(results)}
