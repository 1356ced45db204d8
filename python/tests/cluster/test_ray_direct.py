"""reprise.ray: exchanges over connections to shards of the same node."""

import dataclasses

import numpy as np
import pytest

from testing.ray_cluster import (
    ray,
    SECONDS,
    append,
    check,
    filled,
    make,
    record,
    restart_shard,
    ship,
)
from testing.ray_cluster import stopped, wait_for

import reprise
from reprise.ray import _calls
from reprise.ray._calls import connect_to


def connections_of(sampler):
    return [one for one in sampler._session.calls.connections() if not one.closed]


def no_calls_of_ray(shard):
    """Calls of Ray fail from now on."""
    shard._replay_shard = None


def in_shards(replay, what):
    for actor in replay._actors:
        ray.get(actor.__ray_call__.remote(what), timeout=SECONDS)


def draw_and_update(replay, sampler, n=64):
    batch = sampler.sample(n, timeout=SECONDS)
    check(batch)
    replay.update_priorities(batch.item_keys, np.ones(n)).wait(SECONDS)


@pytest.mark.parametrize("limiter", ["none", "a ratio"])
def test_shards_of_this_node_are_asked_and_get_steps_over_connections(cluster, limiter):
    ratio = reprise.SampleToInsertRatio(samples_per_insert=1.0, min_size=1, error_buffer=1e5)
    with make(
        answer_timeout=SECONDS, rate_limiter=ratio if limiter == "a ratio" else None
    ) as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        assert len(connections_of(sampler)) == 2
        in_shards(replay, no_calls_of_ray)
        for _ in range(20):
            draw_and_update(replay, sampler)
        totals = [sampler._session.client.totals(shard) for shard in range(2)]
        assert sum(one["applied_updates"] for one in totals) == 20 * 64
        record(replay, 2, 0, 3000)
        assert sampler.sample(512, timeout=SECONDS)["writer"].max() == 2


@pytest.mark.parametrize("when", ["idle", "under way"])
def test_a_connection_that_breaks_loses_nothing(cluster, when):
    with make() as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        writer = replay.writer()
        ship(writer, 2, 0, 50)
        if when == "under way":
            assert all(request.connection is not None for request in sampler._session.send())
            append(writer, 2, 50, 100)
        in_shards(replay, lambda shard: shard._host.close())
        for _ in range(3):
            draw_and_update(replay, sampler)
        append(writer, 2, 100, 150)
        writer.close(SECONDS)
        assert not connections_of(sampler)
        stats = replay.stats()
        assert stats["applied_updates"] == 3 * 64
        assert stats["lost_shards"] == stats["lost_in_flight_steps"] == 0
        assert stats["committed_steps"] == 600 + (100 if when == "idle" else 150)


def test_what_a_stopped_shard_is_asked_for_again_by_ray_is_done_once(cluster, monkeypatch):
    """The call over the connection lies in its socket when the call of Ray comes."""
    monkeypatch.setattr(_calls, "ATTEMPTS", 1000)  # However long it stands still, it is not lost.
    with make(shards=1, answer_timeout=2.0) as replay:
        record(replay, 0, 0, 100)
        sampler = replay.sampler()
        batch = sampler.sample(64, timeout=SECONDS)
        writer = replay.writer()
        ship(writer, 1, 0, 50)
        with stopped(replay.stats()["shards"][0]["pid"]):
            append(writer, 1, 50, 100)
            replay.update_priorities(batch.item_keys, np.ones(64))
            wait_for(lambda: replay._process.membership.counters["asked_again"] >= 2)
        writer.close(SECONDS)
        check(sampler.sample(64, timeout=SECONDS))
        stats = replay.stats()
        assert stats["lost_shards"] == stats["lost_in_flight_steps"] == 0
        assert stats["committed_steps"] == 200 and stats["applied_updates"] == 64


def test_a_shard_that_came_back_has_a_connection_again_and_another_one_has_none(cluster):
    with make() as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        restart_shard(replay, 0)
        filled(replay, 10)
        check(sampler.sample(64, timeout=SECONDS))
        assert len(connections_of(sampler)) == 2
        known = replay._process.membership.remotes[0].info.incarnation
        other = dataclasses.replace(replay._spec, name="another")
        assert connect_to(replay._spec.address(0, known)) is not None
        assert connect_to(replay._spec.address(0, known + 1)) is None
        assert connect_to(other.address(0, known)) is None
