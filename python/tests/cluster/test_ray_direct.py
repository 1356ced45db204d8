"""Calls of reprise.ray over direct connections to shards on the same node."""

import dataclasses
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from testing.ray_cluster import (
    ray,
    SECONDS,
    append,
    check,
    filled,
    kill_shard,
    make,
    append_and_wait,
)
from testing.ray_cluster import wait_for

import reprise
from reprise.ray import _calls
from reprise.ray._calls import connect_to
from reprise.ray._waiting import Wait


def connections_of(sampler):
    return [one for one in sampler._session._calls.connections() if not one.closed]


def no_calls_of_ray(shard):
    """Makes all later calls of Ray to this shard fail."""
    shard._replay_shard = None


def in_shards(replay, function):
    """Runs a function in the process of each shard."""
    for actor in replay._actors:
        ray.get(actor.__ray_call__.remote(function), timeout=SECONDS)


def test_calls_to_shards_of_this_node_go_over_connections(cluster):
    with make(answer_timeout=SECONDS) as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        assert len(connections_of(sampler)) == 2
        in_shards(replay, no_calls_of_ray)
        for _ in range(20):
            batch = sampler.sample(64, timeout=SECONDS)
            check(batch)
            replay.update_priorities(batch.item_keys, np.ones(64)).wait(SECONDS)
        totals = [sampler._session.client.totals(shard) for shard in range(2)]
        assert sum(one["applied_updates"] for one in totals) == 20 * 64
        append_and_wait(replay, 2, 0, 3000)
        assert sampler.sample(512, timeout=SECONDS)["writer"].max() == 2


def test_without_connections_calls_of_ray_do_the_same(cluster, monkeypatch):
    monkeypatch.setenv("REPRISE_RAY_DIRECT", "0")
    with make() as replay:
        sampler = filled(replay).sampler()
        batch = sampler.sample(64, timeout=SECONDS)
        check(batch)
        assert not connections_of(sampler)
        replay.update_priorities(batch.item_keys, np.ones(64)).wait(SECONDS)
        assert replay.stats()["applied_updates"] == 64


def test_requests_and_answers_of_megabytes(cluster):
    schema = reprise.Schema().observation("at", np.int64, (512,)).reward()
    with make(4000, schema, selectors=reprise.Uniform()) as replay:
        for _ in range(2):
            writer = replay.writer()
            states = np.arange(501)[:, None] * 1000 + np.arange(512)
            writer.append_episode(at=states, reward=np.arange(500, dtype=np.float32))
            writer.close(SECONDS)
        sampler = replay.sampler()
        for _ in range(3):
            batch = sampler.sample(1000, timeout=SECONDS)
            at = batch.returns["reward"].astype(np.int64)[:, None] * 1000 + np.arange(512)
            np.testing.assert_array_equal(batch["at"], at)
            np.testing.assert_array_equal(batch["next_at"], at + 1000)
        assert len(connections_of(sampler)) == 2
        keys = np.concatenate([batch.item_keys] * 200)
        replay.update_priorities(keys, np.ones(len(keys))).wait(SECONDS)
        assert replay.stats()["applied_updates"] == 200_000


@pytest.mark.parametrize("when", ["idle", "under way"])
def test_a_connection_that_breaks_loses_nothing(cluster, when):
    with make() as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        writer = replay.writer()
        append(writer, 2, 0, 50)
        writer.flush(SECONDS)
        stop = lambda shard: shard._host.close()
        if when == "idle":
            in_shards(replay, stop)
        else:
            session = sampler._session
            assert all(request.connection is not None for request in session.send())
            append(writer, 2, 50, 100)
            in_shards(replay, stop)
        for _ in range(3):
            batch = sampler.sample(64, timeout=SECONDS)
            check(batch)
            replay.update_priorities(batch.item_keys, np.ones(64)).wait(SECONDS)
        append(writer, 2, 100, 150)
        writer.close(SECONDS)
        assert not connections_of(sampler)
        stats = replay.stats()
        assert stats["applied_updates"] == 3 * 64
        assert stats["lost_shards"] == stats["lost_in_flight_steps"] == 0
        assert stats["committed_steps"] == 600 + (100 if when == "idle" else 150)


def test_a_broken_connection_does_not_count_as_an_attempt(monkeypatch):
    class BreakingConnection:
        closed = False
        wait = staticmethod(lambda connections, seconds: None)

        def ask(self, number, payload):
            self.closed = True

        def take(self):
            return []

    monkeypatch.setattr(_calls, "connect_to", lambda address: BreakingConnection())
    monkeypatch.setattr(_calls, "reprise", SimpleNamespace(ShardConnection=BreakingConnection))
    described = SimpleNamespace(address=lambda shard, incarnation: "", answer_timeout=0.0)
    membership = SimpleNamespace(spec=described, count=lambda name: None)
    remote = SimpleNamespace(index=0, info=SimpleNamespace(incarnation=1))
    by_ray, given_up = [], []
    call_by_ray = lambda: by_ray.append(object()) or by_ray[-1]
    request = _calls.Request(membership, remote, b"", call_by_ray)
    calls = _calls.Calls(membership)
    calls.ask(request)
    assert request.connection is not None
    calls.collect([request], Wait("sample", None, str))
    while not given_up:
        request.retry(calls.ask, lambda request, error: given_up.append(error))
        time.sleep(0.01)
    assert len(by_ray) == _calls.ATTEMPTS


def test_a_call_repeated_by_ray_to_a_stopped_shard_is_done_once(cluster, monkeypatch):
    """When the repeated call comes by Ray, the first one still lies unread in the connection's
    socket."""
    monkeypatch.setattr(_calls, "ATTEMPTS", 1000)  # The stopped shard must not count as lost.
    with make(shards=1, answer_timeout=2.0) as replay:
        append_and_wait(replay, 0, 0, 100)
        sampler = replay.sampler()
        batch = sampler.sample(64, timeout=SECONDS)
        writer = replay.writer()
        append(writer, 1, 0, 50)
        writer.flush(SECONDS)
        pid = replay.stats()["shards"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            append(writer, 1, 50, 100)
            replay.update_priorities(batch.item_keys, np.ones(64))
            wait_for(lambda: replay._process.membership.counters["asked_again"] >= 2)
        finally:
            os.kill(pid, signal.SIGCONT)
        writer.close(SECONDS)
        check(sampler.sample(64, timeout=SECONDS))
        stats = replay.stats()
        assert stats["lost_shards"] == stats["lost_in_flight_steps"] == 0
        assert stats["committed_steps"] == 200 and stats["applied_updates"] == 64


def test_a_restarted_shard_gets_a_new_connection(cluster):
    with make() as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        kill_shard(replay, 0)
        wait_for(lambda: sampler.sample(64, timeout=SECONDS) and replay.stats()["restarts"] > 0)
        filled(replay, 10)
        wait_for(lambda: replay.shards_alive == 2)
        check(sampler.sample(64, timeout=SECONDS))
        assert len(connections_of(sampler)) == 2


def test_connections_of_another_buffer_or_incarnation_are_not_found(cluster):
    with make() as replay:
        spec, (remote, _) = replay._spec, replay._process.membership.remotes
        known = remote.info.incarnation
        other = dataclasses.replace(spec, name="another")
        assert connect_to(spec.address(0, known)) is not None
        assert connect_to(spec.address(0, known + 1)) is None
        assert connect_to(other.address(0, known)) is None


def test_unique_frames_come_once_from_the_shards(cluster):
    window = reprise.Transitions(frame_stack=4)
    with make(window=window) as replay:  # An episode fits into a shard.
        filled(replay)
        for made in (
            replay.sampler(unique_frames=True).sample(64, timeout=SECONDS),
            next(replay.prefetch(64, unique_frames=True, timeout=SECONDS)),
        ):
            assert made.frames["at"].shape == (64, 5)
            behind = made["step"][:, None] + np.arange(-3, 1)
            np.testing.assert_array_equal(made["at"], np.maximum(behind, 0))
            np.testing.assert_array_equal(made["next_at"], np.maximum(behind + 1, 0))
