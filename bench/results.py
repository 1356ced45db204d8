"""Medians of a run of reprise-bench."""

import statistics

US, MS = 1e3, 1e6


class Results:
    """Medians by name, in nanoseconds, and counters."""

    def __init__(self, report):
        self.context = report["context"]
        units = {"ns": 1.0, "us": US, "ms": MS, "s": 1e9}
        cpu, real, self._counters, self.repetitions = {}, {}, {}, {}
        self._runs = {}
        for run in report["benchmarks"]:
            if run.get("run_type") != "iteration" or run.get("error_occurred"):
                continue
            name = run["run_name"]
            cpu.setdefault(name, []).append(run["cpu_time"] * units[run["time_unit"]])
            real.setdefault(name, []).append(run["real_time"] * units[run["time_unit"]])
            self._counters[name] = run
            self._runs.setdefault(name, []).append(run)
        # One thread's own time disturbs less where the machine has other things to do. What uses
        # several threads is judged by the clock on the wall.
        self._time = {name: statistics.median(real[name] if name.endswith("_tbb") else cpu[name])
                      for name in cpu}
        self._wall = {name: statistics.median(times) for name, times in real.items()}
        self.least_repetitions = min((len(times) for times in cpu.values()), default=0)

    @staticmethod
    def name(subject, implementation, log=None):
        return "/".join([subject, implementation] + ([] if log is None else [str(log)]))

    def has(self, name):
        return name in self._time

    def ns(self, name):
        return self._time[name]

    def wall_ns(self, name):
        return self._wall[name]

    def counter(self, name, counter):
        return self._counters[name][counter]

    def median_counter(self, name, counter):
        return statistics.median(run[counter] for run in self._runs[name])

    def per_item(self, name):
        return self.ns(name) / self.counter(name, "items")

    def ratio(self, subject, log=None, implementation="reprise"):
        """Times faster than the textbook, or nothing if one of them was not run."""
        names = [self.name(subject, i, log) for i in ("textbook", implementation)]
        if not all(self.has(name) for name in names):
            return None
        return self.ns(names[0]) / self.ns(names[1])

    def logs(self, subject):
        """Sizes that a subject was measured at."""
        found = {int(name.rsplit("/", 1)[1]) for name in self._time
                 if name.startswith(subject + "/") and name.rsplit("/", 1)[1].isdigit()}
        return sorted(found)
