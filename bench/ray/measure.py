"""Measures replay over Ray, and writes its part of docs/performance.md. bench/ray/run starts it."""

import functools
import itertools
import statistics
import sys
from importlib import metadata

import numpy as np
import ray
import rivals
from harness import report, timing
from harness.tables import Targets, digits, table

SHARDS = 4
RIVALS = ("rllib_episodes", "rllib_batches", "torchrl")
SUBJECTS = (*RIVALS, "reprise", "frames", "writers")


def options(add):
    add("--only", nargs="+", choices=SUBJECTS, default=SUBJECTS, help="of these")
    add("--seconds", type=float, default=2.0, help="of each repetition")
    add("--rows", type=int, default=100_000, help="in all shards together")


def rate(call, arguments):
    """Calls per second, the median of the repetitions."""
    call()
    rates = [timing.per_second(call, arguments.seconds) for _ in range(arguments.repetitions)]
    return statistics.median(rates)


def samples_per_second(make, arguments):
    """Samples per second of batches of small rows, with updates."""
    subject = make(arguments.rows, SHARDS)
    random = np.random.default_rng(3).random((64, rivals.BATCH), np.float32)
    priorities = itertools.cycle(random)
    try:
        return rivals.BATCH * rate(lambda: subject.cycle(next(priorities)), arguments)
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

    rates = {}
    results = report.facts(arguments) | {
        "versions": {name: metadata.version(name) for name in ("ray", "torch", "torchrl")},
        "shards": SHARDS,
        "batch": rivals.BATCH,
        "rows": arguments.rows,
        "samples_per_second": rates,
    }
    makers = {
        "rllib_episodes": functools.partial(rivals.RLlib, rivals.Episodes),
        "rllib_batches": functools.partial(rivals.RLlib, rivals.Batches),
        "torchrl": rivals.TorchRL,
        "reprise": getattr(ours, "Rows", None),
    }
    calls_per_second = functools.partial(rate, arguments=arguments)

    def both_ways(what, figures):
        """Measures first with shared memory, then by calls of Ray alone."""
        results[what] = figures(arguments, calls_per_second)
        with ours.only_calls_of_ray():
            results[f"{what}_by_ray"] = figures(arguments, calls_per_second)

    for name in arguments.only:
        print(f"Measuring {name}", file=sys.stderr, flush=True)
        # "local" starts a new cluster, even if another cluster runs on this machine.
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
                both_ways("frames", ours.frames)
            else:
                results["writers"] = ours.writers(arguments)
            if name == "reprise":
                both_ways("costs", ours.costs)
        finally:
            ray.shutdown()
    # RLlib has two buffers; the faster one is compared.
    rllib_rates = [rates[name] for name in ("rllib_episodes", "rllib_batches") if name in rates]
    if rllib_rates:
        rates["rllib"] = max(rllib_rates)
    return results


def targets(results):
    found = Targets()
    rates = results["samples_per_second"]
    for name, title in (("rllib", "RLlib's scheme"), ("torchrl", "torchrl's `RayReplayBuffer`")):
        if name in rates and "reprise" in rates:
            what = f"batches of {results['batch']} small rows with updates, beside {title}"
            found.at_least(what, 10, rates["reprise"] / rates[name])
    if "frames" in results:
        speed = results["frames"]["gb_per_second"]
        what = "unique frames into batches, prefetched"
        found.add(what, "at least 1 GB/s", f"{digits(speed)} GB/s", speed >= 1.0)
    if "writers" in results:
        writers = results["writers"]
        steps = writers["steps_per_second"]
        what = "small steps appended from two processes, per second"
        found.add(what, "at least 300,000", f"{steps:,.0f}", steps >= 300e3)
        what = (
            f"one append of {writers['environments']} environments at "
            f"{writers['paced_steps_per_second']:,.0f} steps per second, p99.9"
        )
        found.below(what, 100, writers["append_p999"] * 1e6, "us")
    return found.table()


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
    return table(["", "samples/s", "batches/s"], rows)


def cost_paragraphs(results):
    """Returns paragraphs on what replay over Ray costs: a batch's processor time, beside the same
    in one process, the rate of frames by calls of Ray, and the slowest appends. Empty if costs were
    not measured."""
    if "costs" not in results:
        return []

    def us(seconds):
        return f"{digits(seconds * 1e6)} us"

    rows = [
        [title, us(results[name]["learner_batch"]), us(results[name]["shard_batch"])]
        for name, title in (
            ("costs", "shards on the learner's node"),
            ("costs_by_ray", "shards on other nodes, by calls of Ray"),
        )
    ]
    rows.append(["the same cycle in one process", us(results["costs"]["in_process_batch"]), ""])
    parts = [
        "Processor time of a batch, all on one machine:",
        table(["", "learner's process", "four shards in all"], rows),
    ]
    if "frames_by_ray" in results:
        by_ray = results["frames_by_ray"]["gb_per_second"]
        parts.append(f"Frames by calls of Ray come at {digits(by_ray)} GB/s.")
    if "writers" in results:
        parts.append(
            "Writers that append as fast as they can wait for the shards: the p99.9 of their appends is "
            f"{us(results['writers']['append_p999_flat_out'])}. Between paced appends a loop of 20 us that "
            f"calls nothing takes {us(results['writers']['loop_p999'])} at the p99.9: so long others have "
            "the processors."
        )
    return parts


def sections(results):
    facts = report.facts_list(
        results,
        ", ".join(f"{name} {one}" for name, one in results["versions"].items()),
        f"{results['shards']} shards with {results['rows']:,} rows in all, on one machine",
    )
    return {
        "Ray": "\n\n".join(
            [facts, targets(results), comparison(results), *cost_paragraphs(results)]
        )
    }


def main():
    quick = {"seconds": 0.5, "rows": 8_000}
    arguments = report.parse(__doc__, "ray/bench.json", options, quick=quick)
    report.run(arguments, measure, sections)


if __name__ == "__main__":
    main()
