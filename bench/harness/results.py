"""Medians of the benchmarks of a run of reprise-bench."""

import statistics

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


class NotMeasured(Exception):
    """Raised if a figure is needed that the run did not measure."""


class Results:
    """Medians of each benchmark's time, in nanoseconds, and of its counters."""

    def __init__(self, report):
        self.context = report["context"]
        self._runs = {}
        for run in report["benchmarks"]:
            if run.get("run_type") == "iteration" and not run.get("error_occurred"):
                self._runs.setdefault(run["run_name"], []).append(run)
        self.least_repetitions = min(map(len, self._runs.values()), default=0)

    @staticmethod
    def name(subject, implementation, log=None):
        return "/".join([subject, implementation] + ([] if log is None else [str(log)]))

    def has(self, *names):
        return all(name in self._runs for name in names)

    def _runs_of(self, name):
        if name not in self._runs:
            raise NotMeasured(name)
        return self._runs[name]

    def _median_time(self, name, clock):
        runs = self._runs_of(name)
        return statistics.median(run[clock] * UNITS[run["time_unit"]] for run in runs)

    def ns(self, name):
        # Other work of the machine changes a thread's processor time less than the wall clock. Only
        # a benchmark of several threads (its name ends with _tbb) has to be judged by the wall
        # clock.
        return self._median_time(name, "real_time" if name.endswith("_tbb") else "cpu_time")

    def wall_ns(self, name):
        return self._median_time(name, "real_time")

    def counter(self, name, counter):
        return statistics.median(run[counter] for run in self._runs_of(name))

    def per_item(self, name):
        return self.ns(name) / self.counter(name, "items")

    def ratio(self, subject, log=None):
        """Returns how many times faster than the textbook reprise is; None if either was not
        measured."""
        names = [self.name(subject, who, log) for who in ("textbook", "reprise")]
        return self.ns(names[0]) / self.ns(names[1]) if self.has(*names) else None

    def logs(self, subject):
        """Returns the base-2 logarithms of the sizes at which a subject was measured."""
        names = [name for name in self._runs if name.startswith(subject + "/")]
        return sorted({int(log) for name in names if (log := name.rsplit("/", 1)[1]).isdigit()})
