"""Times calls that take turns, and gives medians."""

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
    """How many calls take about `seconds`."""
    calls = 1
    while seconds_of(call, calls, clock) < seconds:
        calls *= 2
    return calls


def medians(ways, repetitions):
    """The median of what each way returns, by name; the ways take turns."""
    found = {name: [] for name in ways}
    for _ in range(repetitions):
        for name, way in ways.items():
            found[name].append(way())
    return {name: statistics.median(each) for name, each in found.items()}


def ns_per_call(call, seconds):
    """Makes a function that measures nanoseconds of the thread's processor time per call."""
    calls = calls_for(call, seconds, time.thread_time)
    return lambda: seconds_of(call, calls, time.thread_time) * 1e9 / calls


def medians_ns(calls, repetitions, seconds):
    """Medians of the thread's processor time of each call, by name."""
    return medians({name: ns_per_call(call, seconds) for name, call in calls.items()}, repetitions)


def median_call_ns(call, calls):
    """The median of the thread's processor time of single calls."""
    return medians({"": lambda: seconds_of(call, 1, time.thread_time) * 1e9}, calls)[""]


def per_second(call, seconds, block=1, wait=None):
    """How often `call` can be made per second of wall time. After each block of calls, `wait`
    returns once what they began is done."""
    begin, made = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(block):
            call()
        made += block
        if wait is not None:
            wait()
    return made / (time.perf_counter() - begin)


def program_ns(program, name, seconds):
    """Runs one benchmark of reprise-bench once and returns its time."""
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
