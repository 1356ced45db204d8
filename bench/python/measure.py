"""Times of calls, in nanoseconds of the measuring thread's processor time."""

import gc
import json
import os
import statistics
import subprocess
import tempfile
import time

gc.disable()  # As timeit does: nothing here makes cycles.


def timed_ns(call, calls):
    begin = time.thread_time_ns()
    for _ in range(calls):
        call()
    return time.thread_time_ns() - begin


def calls_for(call, seconds):
    """How many calls take about that long."""
    calls = 1
    while timed_ns(call, calls) < seconds * 1e9:
        calls *= 2
    return calls


def medians_ns(subjects, repetitions, seconds):
    """Of each call by name; they take turns."""
    calls = {name: calls_for(call, seconds) for name, call in subjects.items()}
    times = {name: [] for name in subjects}
    for _ in range(repetitions):
        for name, call in subjects.items():
            times[name].append(timed_ns(call, calls[name]) / calls[name])
    return {name: statistics.median(each) for name, each in times.items()}


def median_of_calls_ns(call, calls):
    """Of single calls."""
    return statistics.median(timed_ns(call, 1) for _ in range(calls))


def program_ns(program, names, seconds):
    """Times of these benchmarks of reprise-bench, each run once."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [
            program,
            f"--benchmark_filter=^({'|'.join(names)})$",
            f"--benchmark_min_time={seconds}",
            f"--benchmark_out={out}",
            "--benchmark_out_format=json",
        ]
        subprocess.run(command, check=True, capture_output=True)
        with open(out, encoding="utf-8") as file:
            runs = json.load(file)["benchmarks"]
    if any(run["time_unit"] != "ns" for run in runs):
        raise ValueError(f"{program} reports other units than nanoseconds")
    return {run["name"]: run["cpu_time"] for run in runs}
