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
    """The numbers of `stats()` by their names, those of waits as "writers_for_chunk/total", in
    seconds.

    Locks each shard briefly, so call it about once a second, not with each step.
    """
    made: dict[str, float] = {}
    for name, value in replay.stats().items():
        if isinstance(value, dict):
            made |= {f"{name}/{part}": float(number) for part, number in value.items()}
        elif isinstance(value, (int, float)):
            made[name] = float(value)
    return made


class _Collector:
    """The collector of all buffers of a registry, because a metric is reported once, with all
    labels."""

    def __init__(self) -> None:
        self.buffers: dict[str, reprise.ReplayBuffer] = {}

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily as Counter
        from prometheus_client.core import GaugeMetricFamily as Gauge

        about = "See ReplayBuffer.stats of reprise."
        stats = {name: replay.stats() for name, replay in list(self.buffers.items())}
        # A buffer over a cluster has numbers that others lack.
        shape = {metric: value for found in stats.values() for metric, value in found.items()}
        for metric, value in shape.items():
            if isinstance(value, (int, float)):
                kind = Counter if metric in _COUNTERS else Gauge
                family = kind(f"reprise_{metric}", about, labels=["buffer"])
                for name, found in stats.items():
                    if metric in found:
                        family.add_metric([name], found[metric])
                yield family
        for metric, grows, part in _WAITS:
            kind = Counter if grows else Gauge
            family = kind(f"reprise_{metric}", about, labels=["buffer", "what"])
            for name, found in stats.items():
                for what, waits in found.items():
                    if isinstance(waits, dict):
                        family.add_metric([name, what], waits[part])
            yield family


_collectors: WeakKeyDictionary[Any, _Collector] = WeakKeyDictionary()


def _collector(registry: Any) -> _Collector:
    import prometheus_client

    registry = prometheus_client.REGISTRY if registry is None else registry
    if registry not in _collectors:
        made = _Collector()
        registry.register(made)
        _collectors[registry] = made
    return _collectors[registry]


def watch(replay: reprise.ReplayBuffer, *, name: str = "replay", registry: Any = None) -> None:
    """Gives the buffer's counters to prometheus_client, which reads them at each scrape.

    name: its label "buffer"; a second buffer of that name takes its place. registry:
    prometheus_client's own by default. The buffer is kept alive until `unwatch`.

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
