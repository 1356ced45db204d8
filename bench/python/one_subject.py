"""Measures one subject of rivals.py in this process, for bench/python/beside. Reads one command per
line (the name of a measure, or `check`), and answers each with a line of JSON."""

import functools
import gc
import json
import resource
import sys
import time

import numpy as np
import rivals
from harness.timing import calls_for, seconds_of
from setups import ALPHA, BATCHES, Setup

gc.disable()  # As timeit does, so that no garbage collection falls into a measurement.


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def numbers(observations):
    """Returns the step number in the first bytes of each observation, or of its newest frame."""
    newest = observations[:, -1] if observations.ndim > 2 else observations
    rows = np.ascontiguousarray(newest).reshape(len(newest), -1)[:, :4]
    return np.ascontiguousarray(rows).view(np.uint32)[:, 0].astype(int)


def check(subject):
    """Raises AssertionError unless batches hold the stored steps, and, once priorities are raised,
    the raised items are drawn as often as their priorities say."""
    n, setup = BATCHES[-1], subject.setup
    drawn = subject.sample(n)
    obs, actions, after, _ = (
        None if part is None else np.array(part) for part in subject.read(drawn)
    )
    assert obs.shape == after.shape == (n, *setup.shape) and obs.dtype == np.uint8, obs.shape
    now = numbers(obs)
    # Not all, because a ring that stores each observation once lacks the next one of its newest
    # step.
    assert np.mean(now == actions.reshape(n)) > 0.98, "actions of other steps"
    assert np.mean(now + 1 == numbers(after)) > 0.98, "next observations of other steps"
    if setup.frames:
        assert np.mean(numbers(obs[:, :1]) + 3 == now) > 0.98, "stacks of other frames"
    if not subject.prioritized:
        return
    high = 10.0  # Far above the priorities of the other items, which are at most 1.
    subject.update(drawn, subject.to_native(np.full(n, high, np.float32)))
    for _ in range(8):
        subject.sample(n)  # These batches may have been drawn before the update.
    raised, hits, batches = set(now.tolist()), 0, 20
    for _ in range(batches):
        obs, _, _, weights = subject.read(subject.sample(n))
        is_raised = np.array([number in raised for number in numbers(np.asarray(obs)).tolist()])
        hits += is_raised.sum()
        if weights is not None:
            weights = np.asarray(weights)
            assert weights.shape == (n,) and 0 < weights.min() and weights.max() < 1.0001, "weights"
            assert weights[is_raised].max() <= weights[~is_raised].min(), "weights of the raised"
    # Other items have the subject's first priority, or random priorities in [0, 1), whose weights
    # have the mean 1 / (1 + ALPHA).
    rest = subject.first_priority or 1.0 / (1.0 + ALPHA)
    weight = len(raised) * high**ALPHA
    expected = weight / (weight + (setup.size - len(raised)) * rest)
    share = hits / (batches * n)
    # A batch may hold an item twice, and subjects draw in different ways, hence the wide bound.
    assert abs(share - expected) < 0.08, f"drawn {share:.2f} of the time, not {expected:.2f}"


def main():
    name, setup, seconds = json.loads(sys.argv[1])
    setup = Setup(**setup)
    make = rivals.SUBJECTS[name]
    # The first calls import modules and compile functions. That memory must not count, so tiny
    # buffers are made and closed before.
    for environments in {1, setup.environments}:
        tiny = make(Setup(BATCHES[-1] * environments, setup.frames, environments))
        tiny.append()
        tiny.close()
        del tiny
    gc.collect()
    before = resident_bytes()
    subject = make(setup)
    gc.collect()
    cycles = {f"cycle/{n}": functools.partial(subject.cycle, n) for n in BATCHES}
    calls, counts = {"append": subject.append} | cycles, {}
    print(json.dumps({"bytes": (resident_bytes() - before) / setup.size}), flush=True)
    for line in sys.stdin:
        if line.strip() == "check":
            check(make(Setup(4096, setup.frames)))
            print("{}", flush=True)
            continue
        call = calls[line.strip()]
        if call not in counts:
            call()  # The first call may compile functions.
            counts[call] = calls_for(call, seconds, time.perf_counter)
        ns = seconds_of(call, counts[call], time.perf_counter) / counts[call] * 1e9
        print(json.dumps({"ns": ns}), flush=True)
    subject.close()


main()
