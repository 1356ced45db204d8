"""Times calls that take turns, and computes medians."""

import json
import os
import statistics
import subprocess
import tempfile
import time


def seconds_of(call, calls, clock):
    begin = clock()
    for _ in range(calls):
        call()
    return clock() - begin


def calls_for(call, seconds, clock):
    """Returns a number of calls, a power of two, that take at least `seconds` and about half to
    four times as long."""
    calls = 1
    while seconds_of(call, calls, clock) < seconds:
        calls *= 2
    return calls


def medians(ways, repetitions):
    """Calls the functions `ways` (by name) in turn, and returns by name the median of what each
    returned."""
    figures = {name: [] for name in ways}
    for _ in range(repetitions):
        for name, way in ways.items():
            figures[name].append(way())
    return {name: statistics.median(each) for name, each in figures.items()}


def ns_per_call(call, seconds):
    """Returns a function that measures the thread's processor time per call, in nanoseconds."""
    calls = calls_for(call, seconds, time.thread_time)
    return lambda: seconds_of(call, calls, time.thread_time) * 1e9 / calls


def medians_ns(calls, repetitions, seconds):
    """Returns the medians of the thread's processor time per call in nanoseconds, by name."""
    return medians({name: ns_per_call(call, seconds) for name, call in calls.items()}, repetitions)


def median_call_ns(call, calls):
    """Returns the median of the thread's processor time of a single call, in nanoseconds."""
    return medians({"": lambda: seconds_of(call, 1, time.thread_time) * 1e9}, calls)[""]


def per_second(call, seconds, block=1, wait=None):
    """Returns how many calls of `call` are made per second of wall time. After each block of calls,
    `wait` (if given) returns once the work that these calls began is done."""
    begin, made = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(block):
            call()
        made += block
        if wait is not None:
            wait()
    return made / (time.perf_counter() - begin)


def program_ns(program, name, seconds):
    """Runs one benchmark of reprise-bench once and returns its processor time in nanoseconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [
            program,
            f"--benchmark_filter=^{name}$",
            f"--benchmark_min_time={seconds}",
            f"--benchmark_out={out}",
            "--benchmark_out_format=json",
        ]
        subprocess.run(command, check=True, capture_output=True)
        with open(out, encoding="utf-8") as file:
            (run,) = json.load(file)["benchmarks"]
    if run["time_unit"] != "ns":
        raise ValueError(f"{program} reports other units than nanoseconds")
    return run["cpu_time"]
