"""reprise.metrics with prometheus_client itself."""

from types import SimpleNamespace

import pytest
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses

from reprise import metrics


def test_numbers_are_those_of_stats(buffer):
    fill(buffer, 10)
    buffer.sampler().sample(4)
    found = metrics.numbers(buffer)
    assert found["committed_steps"] == 10 and found["sampled_items"] == 4
    assert found["samplers_for_items/waits"] == 0 and found["writers"] == 0
    assert all(isinstance(value, float) for value in found.values())
    stats = buffer.stats()
    waits = [name for name, value in stats.items() if isinstance(value, dict)]
    assert len(waits) == 4
    assert len(found) == len(stats) - 1 - 4 + sum(len(stats[name]) for name in waits)


def test_prometheus_reads_every_buffer():
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    buffers = [plain_buffer() for _ in range(2)]
    for i, replay in enumerate(buffers):
        metrics.watch(replay, name=f"b{i}", registry=registry)
        fill(replay, 10 + i)
        len(replay)  # Ingests appended steps.
    buffers[1].sampler().sample(3)

    def value(name, i, **labels):
        return registry.get_sample_value(f"reprise_{name}", {"buffer": f"b{i}", **labels})

    assert [value("committed_steps_total", i) for i in (0, 1)] == [10, 11]
    assert [value("sampled_items_total", i) for i in (0, 1)] == [0, 3]
    assert value("resident_steps", 0) == 10
    for what in ("writers_for_chunk", "writers_for_limiter", "samplers_for_limiter"):
        assert value("waits_total", 0, what=what) == 0
    with pytest.raises(TimeoutError):
        plain_buffer().sampler().sample(1, timeout=0)
    text = client.generate_latest(registry).decode()
    assert text.count("# TYPE reprise_items gauge") == 1
    assert (
        "# TYPE reprise_wait_seconds_total counter" in text
        or "reprise_wait_seconds counter" in text
    )
    metrics.unwatch("b0", registry=registry)
    assert value("items", 0) is None and value("items", 1) == 11
    with pytest.raises(KeyError):
        metrics.unwatch("b0", registry=registry)


def test_a_buffer_over_a_cluster_may_have_numbers_and_lists_of_its_own():
    client = pytest.importorskip("prometheus_client")
    registry, replay = client.CollectorRegistry(), plain_buffer()
    more = {"lost_shards": 2, "shards": [{"items": 1}, None], "notes": []}
    cluster = SimpleNamespace(stats=lambda: {**replay.stats(), **more})
    assert metrics.numbers(cluster) == {**metrics.numbers(replay), "lost_shards": 2.0}
    metrics.watch(replay, name="one", registry=registry)
    metrics.watch(cluster, name="many", registry=registry)
    assert registry.get_sample_value("reprise_lost_shards", {"buffer": "many"}) == 2
    assert registry.get_sample_value("reprise_lost_shards", {"buffer": "one"}) is None


def test_what_would_fail_every_scrape_is_refused(buffer):
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    refuses(TypeError, "replay is 5; allowed: a buffer", metrics.watch, 5, registry=registry)
    refuses(TypeError, "name is 5; allowed", metrics.watch, buffer, name=5, registry=registry)
    assert client.generate_latest(registry) == b""


def test_waits_are_counted():
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    replay = plain_buffer()
    metrics.watch(replay, registry=registry)
    with pytest.raises(TimeoutError):
        replay.sampler().sample(1, timeout=0.01)
    labels = {"buffer": "replay", "what": "samplers_for_items"}
    assert registry.get_sample_value("reprise_wait_timeouts_total", labels) == 1
    assert registry.get_sample_value("reprise_wait_seconds_total", labels) >= 0.01
    assert registry.get_sample_value("reprise_wait_stops_total", labels) == 0
    found = metrics.numbers(replay)
    parts = {name.split("/")[1] for name in found if name.startswith("samplers_for_items/")}
    assert parts == {part for _, _, part in metrics._WAITS}  # Every part has a metric.
