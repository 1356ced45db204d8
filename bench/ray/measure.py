"""Measures replay over Ray; bench/ray/run starts it."""

import argparse
import datetime
import functools
import json
import os
import sys
import time
from importlib import metadata

import numpy as np
import ray

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import page
import rivals
import tables

SHARDS = 4
RIVALS = ("rllib_episodes", "rllib_batches", "torchrl")
SUBJECTS = (*RIVALS, "reprise", "frames", "writers")
TARGETS = {"times": 10.0, "frames": 1.0, "writers": 300e3, "append_p999": 100e-6}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description="Measures replay over Ray, and writes its part of docs/performance.md.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--json", default=os.path.join(page.ROOT, "build", "ray", "bench.json"), help="the results"
    )
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=SUBJECTS, help="of these")
    parser.add_argument("--repetitions", type=int, default=5, help="of each; medians are reported")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each repetition")
    parser.add_argument("--rows", type=int, default=100_000, help="in all shards together")
    parser.add_argument("--page", default=page.DEFAULT_PAGE, help="the page to write into")
    parser.add_argument("--reuse", action="store_true", help="measure nothing: read the JSON file")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes; the page is left as it is"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repetitions, arguments.seconds, arguments.rows = 1, 0.5, 8_000
    return arguments


def rate(call, arguments):
    """Calls per second, the median of the repetitions."""
    call()
    found = []
    for _ in range(arguments.repetitions):
        calls, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < arguments.seconds:
            call()
            calls += 1
        found.append(calls / (time.perf_counter() - begin))
    return float(np.median(found))


def samples_per_second(make, arguments):
    """Of batches of small rows with updates."""
    subject = make(arguments.rows, SHARDS)
    priorities = list(np.random.default_rng(3).random((64, rivals.BATCH), np.float32))
    turn = iter(range(1 << 60))
    try:
        return rivals.BATCH * rate(lambda: subject.cycle(priorities[next(turn) % 64]), arguments)
    finally:
        subject.close()


def measure(arguments):
    try:
        import ours
    except ImportError as error:
        if not set(arguments.only) <= set(RIVALS):
            raise
        print(f"Without reprise.ray: {error}", file=sys.stderr)
        ours = None

    results = {
        "machine": page.machine(),
        "revision": page.revision(),
        "date": datetime.date.today().isoformat(),
        "versions": {name: metadata.version(name) for name in ("ray", "torch", "torchrl")},
        "load": os.getloadavg()[0],
        "shards": SHARDS,
        "batch": rivals.BATCH,
        "rows": arguments.rows,
        "quick": arguments.quick,
        "samples_per_second": {},
    }
    makers = {
        "rllib_episodes": rivals.rllib_episodes,
        "rllib_batches": rivals.rllib_batches,
        "torchrl": rivals.TorchRL,
        "reprise": getattr(ours, "Rows", None),
    }
    rates = results["samples_per_second"]
    of_calls = functools.partial(rate, arguments=arguments)
    for name in arguments.only:
        print(f"Measuring {name}", file=sys.stderr, flush=True)
        # "local": another cluster of this machine is not joined.
        ray.init(
            "local",
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=1 << 30,
            log_to_driver=False,
        )
        try:
            if name in makers:
                rates[name] = samples_per_second(makers[name], arguments)
            elif name == "frames":
                results["frames"] = ours.frames(arguments, of_calls)
                with ours.only_calls_of_ray():
                    results["frames_by_ray"] = ours.frames(arguments, of_calls)
            else:
                results["writers"] = ours.writers(arguments)
            if name == "reprise":
                results["costs"] = ours.costs(arguments, of_calls)
                with ours.only_calls_of_ray():
                    results["costs_by_ray"] = ours.costs(arguments, of_calls)
        finally:
            ray.shutdown()
    # The faster of RLlib's two buffers stands for it.
    theirs = [rates[name] for name in ("rllib_episodes", "rllib_batches") if name in rates]
    if theirs:
        rates["rllib"] = max(theirs)
    return results


def targets(results):
    rows = []

    def add(what, target, measured, met):
        rows.append([what, target, measured, "yes" if met else "no"])

    rates = results["samples_per_second"]
    for name, title in (("rllib", "RLlib's scheme"), ("torchrl", "torchrl's `RayReplayBuffer`")):
        if name in rates and "reprise" in rates:
            ratio = rates["reprise"] / rates[name]
            least = TARGETS["times"]
            what = f"batches of {results['batch']} small rows with updates, beside {title}"
            add(what, f"at least {least:.0f}x", tables.times(ratio), ratio >= least)
    if "frames" in results:
        value, least = results["frames"]["gb_per_second"], TARGETS["frames"]
        what = "unique frames into batches, prefetched"
        add(what, f"at least {least:.0f} GB/s", f"{tables.digits(value)} GB/s", value >= least)
    if "writers" in results:
        steps, late = (results["writers"][key] for key in ("steps_per_second", "append_p999"))
        add(
            "small steps appended from two processes, per second",
            f"at least {TARGETS['writers']:,.0f}",
            f"{steps:,.0f}",
            steps >= TARGETS["writers"],
        )
        most = TARGETS["append_p999"]
        add(
            f"one append of {results['writers']['environments']} environments at "
            f"{results['writers']['paced_steps_per_second']:,.0f} steps per second, p99.9",
            f"below {most * 1e6:.0f} us",
            f"{tables.digits(late * 1e6)} us",
            late < most,
        )
    return tables.table(["measure", "target", "measured", "met"], rows)


def comparison(results):
    titles = {
        "reprise": "`reprise.ray`, prefetched",
        "rllib_batches": "RLlib's scheme, `PrioritizedReplayBuffer` of its old API stack",
        "rllib_episodes": "RLlib's scheme, `PrioritizedEpisodeReplayBuffer` of its new API stack",
        "torchrl": "torchrl's `RayReplayBuffer`",
    }
    rates = results["samples_per_second"]
    rows = [
        [title, f"{rates[name]:,.0f}", f"{rates[name] / results['batch']:,.0f}"]
        for name, title in titles.items()
        if name in rates
    ]
    return tables.table(["", "samples/s", "batches/s"], rows)


def section(results):
    versions = ", ".join(f"{name} {one}" for name, one in results["versions"].items())
    facts = [
        f"- Machine: {results['machine']}",
        f"- Date: {results['date']}; {versions}",
        f"- Sources: {results['revision']}",
        f"- {results['shards']} shards with {results['rows']:,} rows in all, on one machine; load "
        f"average before the run {results['load']:.1f}",
    ]
    parts = ["\n".join(facts), targets(results), comparison(results)]
    parts += costs_told(results)
    return "\n\n".join(parts)


def costs_told(results):
    """Processor time beyond the cycle of one process."""
    if "costs" not in results:
        return []
    rows = []
    for name, title in (
        ("costs", "shards on the learner's node"),
        ("costs_by_ray", "shards on other nodes, by calls of Ray"),
    ):
        learner, shards = (results[name][f"{who}_batch"] * 1e6 for who in ("learner", "shard"))
        rows.append([title, f"{tables.digits(learner)} us", f"{tables.digits(shards)} us"])
    alone = f"{tables.digits(results['costs']['in_process_batch'] * 1e6)} us"
    rows.append(["the same cycle in one process", alone, ""])
    parts = [
        "Processor time of a batch, all on one machine:",
        tables.table(["", "learner's process", "four shards in all"], rows),
    ]
    if "frames_by_ray" in results:
        by_ray = results["frames_by_ray"]["gb_per_second"]
        parts.append(f"Frames by calls of Ray come at {tables.digits(by_ray)} GB/s.")
    if "writers" in results:
        late = results["writers"]["append_p999_flat_out"] * 1e6
        parts.append(
            "Writers that append as fast as they can wait for the shards: the p99.9 of their appends is "
            f"{tables.digits(late)} us."
        )
    return parts


def main():
    arguments = parse_arguments()
    if arguments.reuse:
        with open(arguments.json, encoding="utf-8") as file:
            results = json.load(file)
    else:
        results = measure(arguments)
        os.makedirs(os.path.dirname(os.path.abspath(arguments.json)), exist_ok=True)
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
    if results["quick"]:
        print(section(results))
        return
    with open(arguments.page, encoding="utf-8") as file:
        text = file.read()
    text = page.replace_section(text, "Ray", section(results))
    with open(arguments.page, "w", encoding="utf-8") as file:
        file.write(text)
    print("Wrote", os.path.relpath(arguments.page))


if __name__ == "__main__":
    main()
