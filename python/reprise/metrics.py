"""Counters of a buffer for Prometheus.

    from prometheus_client import start_http_server
    from reprise.metrics import watch

    watch(replay)                # Also several buffers: watch(online, name="online")
    start_http_server(9100)

For TensorBoard `numbers` gives the same values by name:

    for name, value in reprise.metrics.numbers(replay).items():
        writer.add_scalar(f"replay/{name}", value, step)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import reprise

__all__ = ["numbers", "unwatch", "watch"]

_COUNTERS = (
    *("committed_steps", "evicted_steps", "sampled_items", "sampled_batches"),
    *("applied_updates", "stale_updates", "dead_guest_steps", "cut_episodes"),
    "ever_outdated_items",
)
# Metrics of each kind of wait: name, whether it only increases, and name in `stats()`.
_WAITS = (
    ("waits", True, "waits"),
    ("wait_timeouts", True, "timeouts"),
    ("wait_stops", True, "stops"),
    ("wait_seconds", True, "total"),
    ("wait_longest_seconds", False, "longest"),
    ("waiting_now", False, "waiting_now"),
    ("waiting_for_seconds", False, "waiting_for"),
)


def numbers(replay: reprise.ReplayBuffer) -> dict[str, float]:
    """The numbers of `stats()` by their names; a number of a dict of waits has a name such as
    "writers_for_chunk/total".

    Locks each shard briefly, so call it about once a second, not with each step.
    """
    by_name: dict[str, float] = {}
    for name, value in replay.stats().items():
        if isinstance(value, dict):
            by_name |= {f"{name}/{part}": float(number) for part, number in value.items()}
        elif isinstance(value, (int, float)):
            by_name[name] = float(value)
    return by_name


class _Collector:
    """The collector of all buffers of a registry. One collector has them all, because Prometheus
    wants each metric once, with the labels of all buffers."""

    def __init__(self) -> None:
        self.buffers: dict[str, reprise.ReplayBuffer] = {}

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily as Counter
        from prometheus_client.core import GaugeMetricFamily as Gauge

        about = "See ReplayBuffer.stats of reprise."
        stats = {name: replay.stats() for name, replay in list(self.buffers.items())}
        # An example of each metric: a buffer over a cluster has metrics that others lack.
        examples = {metric: value for of_one in stats.values() for metric, value in of_one.items()}
        for metric, example in examples.items():
            if isinstance(example, (int, float)):
                kind = Counter if metric in _COUNTERS else Gauge
                family = kind(f"reprise_{metric}", about, labels=["buffer"])
                for buffer, of_one in stats.items():
                    if metric in of_one:
                        family.add_metric([buffer], of_one[metric])
                yield family
        for metric, grows, part in _WAITS:
            kind = Counter if grows else Gauge
            family = kind(f"reprise_{metric}", about, labels=["buffer", "what"])
            for buffer, of_one in stats.items():
                for kind_of_wait, waits in of_one.items():
                    if isinstance(waits, dict):
                        family.add_metric([buffer, kind_of_wait], waits[part])
            yield family


_collectors: WeakKeyDictionary[Any, _Collector] = WeakKeyDictionary()


def _collector(registry: Any) -> _Collector:
    import prometheus_client

    registry = prometheus_client.REGISTRY if registry is None else registry
    if registry not in _collectors:
        collector = _Collector()
        registry.register(collector)
        _collectors[registry] = collector
    return _collectors[registry]


def watch(replay: reprise.ReplayBuffer, *, name: str = "replay", registry: Any = None) -> None:
    """Gives the buffer's counters to prometheus_client, which reads them at each scrape.

    name: the value of the label "buffer"; a second buffer of the same name takes the first one's
    place. registry: prometheus_client's own by default. The buffer is kept alive until `unwatch`.

    Each number of `stats()` is a metric, such as reprise_items: counters, with "_total" at the end,
    are committed_steps, evicted_steps, sampled_items, sampled_batches, applied_updates,
    stale_updates, dead_guest_steps, cut_episodes and ever_outdated_items. Waits have the label
    "what": waits, wait_timeouts, wait_stops, wait_seconds, wait_longest_seconds, waiting_now,
    waiting_for_seconds.
    """
    if not callable(getattr(replay, "stats", None)):
        raise TypeError(f"watch: replay is {replay!r}; allowed: a buffer")
    if not isinstance(name, str):
        raise TypeError(f"watch: name is {name!r}; allowed: a str")
    _collector(registry).buffers[name] = replay


def unwatch(name: str = "replay", *, registry: Any = None) -> None:
    """Ends `watch`. KeyError for a name that is not watched."""
    del _collector(registry).buffers[name]
