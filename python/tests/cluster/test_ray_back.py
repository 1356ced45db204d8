"""reprise.ray: what is done once, counted and remembered when a shard or the coordinator comes
back."""

import os
import signal

import numpy as np
import pytest

from testing.ray_cluster import ray, SECONDS, all_alive, answer_late, append, check, filled
from testing.ray_cluster import (
    kill_coordinator,
    kill_shard,
    make,
    pid_of,
    record,
    restart_shard,
    spec,
    wait_for,
)

from reprise.ray import _checkpoint, _membership
from reprise.ray._coordinator import Coordinator
from reprise.ray._membership import Membership
from reprise.ray._session import ClientSession
from reprise.ray._shard import ShardInfo
from reprise.ray._waiting import Wait


def restarts(replay):
    """The coordinator's count, without asking a shard."""
    return ray.get(replay._coordinator.stats.remote(), timeout=SECONDS)["restarts"]


@pytest.mark.parametrize("noticed", [True, False], ids=["seen lost", "not missed"])
def test_the_first_updates_after_a_shard_is_back_are_applied(cluster, tmp_path, noticed):
    with make(shards=1) as replay:
        record(replay, 0, 0, 500)
        sampler = replay.sampler()
        batch = sampler.sample(500, timeout=SECONDS)
        replay.save(tmp_path)
        kill_shard(replay, 0)
        wait_for(lambda: restarts(replay) == 1)
        wait_for(lambda: pid_of(replay._actors[0]))  # It reports before Ray lets calls through.
        if noticed:
            wait_for(lambda: replay.stats()["shards_alive"] == 1 and all_alive(replay))
        replay.update_priorities(batch.item_keys, np.full(500, 3.0)).wait(SECONDS)
        stats = replay.stats()
        assert stats["applied_updates"] == 500
        assert stats["stale_updates"] == stats["stale_updates_at_clients"] == 0


def test_updates_for_a_shard_that_is_lost_are_stale(cluster, monkeypatch):
    monkeypatch.setattr(_membership, "PROBE_SECONDS", SECONDS)  # It stays lost.
    with make() as replay:
        filled(replay, 100)
        batch = replay.sampler().sample(64, timeout=SECONDS)
        membership = replay._process.membership
        remote = membership.remotes[0]
        membership.take_out(remote, RuntimeError("a test"), remote.life)
        replay.update_priorities(batch.item_keys, np.ones(64))
        of_lost = int((batch.item_keys["shard"] == 0).sum())
        assert 0 < of_lost < 64 and membership.counters["stale_updates_at_clients"] == of_lost


def losses(replay):
    stats = replay.stats()
    return [stats[name] for name in ("lost_shards", "restarts", "lost_steps")]


def test_a_coordinator_that_is_killed_knows_the_losses_before(cluster):
    with make() as replay:
        filled(replay, 100)
        assert len(replay) == 200  # The answers tell the client what the shards committed.
        restart_shard(replay, 0)
        wait_for(lambda: losses(replay) == [1, 1, 100])
        replay._process.membership.count("lost_in_flight_steps", 7)
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] == 7)
        kill_coordinator(replay)
        assert losses(replay) == [1, 1, 100]
        assert replay.stats()["lost_in_flight_steps"] == 7


def test_a_shard_that_is_down_while_the_coordinator_dies_is_counted(cluster):
    with make() as replay:
        filled(replay, 100)
        assert len(replay) == 200
        pid = replay.stats()["shards"][0]["pid"]
        os.kill(pid_of(replay._coordinator), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: losses(replay) == [1, 1, 100] and all_alive(replay))


class RecordingActor:
    """Takes the place of an actor and records its calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return self

    def remote(self, *arguments):
        self.calls.append(arguments)


@pytest.fixture
def membership(monkeypatch):
    """Of a shard whose incarnation 5 was known when this process got the buffer."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    return Membership(spec(), RecordingActor(), [RecordingActor()], [5])


def test_a_loss_that_is_seen_late_is_none_of_the_successor(membership):
    remote, told = membership.remotes[0], membership.coordinator.calls
    late = remote.life
    membership.take_out(remote, RuntimeError("an error of before"), late)
    assert told == [(0, 5, 0)] and not membership.alive()
    membership.learn(ShardInfo(0, 6, 40, False))
    for life in (late, (5, 1)):
        membership.take_out(remote, RuntimeError("read after it was back"), life)
    assert membership.alive() and membership.incarnations() == [6] and len(told) == 1
    membership.learn(ShardInfo(0, 7, 10, False))
    membership.learn(ShardInfo(0, 6, 50, False))
    assert told == [(0, 5, 0), (0, 6, 40)] and membership.incarnations() == [7]


def test_a_request_that_was_sent_while_its_shard_was_taken_out_is_forgotten(
    membership, monkeypatch
):
    session = ClientSession(membership)
    ask = session.calls.ask

    def ask_too_late(request):
        membership.take_out(request.remote, TimeoutError("it does not answer"), request.life)
        ask(request)

    monkeypatch.setattr(session.calls, "ask", ask_too_late)
    monkeypatch.setattr(session.calls, "_receive", lambda *_: [])
    session.send()
    assert session.asked() and not membership.alive()
    session.collect(Wait("a test", SECONDS, str))
    assert not session.asked() and session.changed


def test_the_losses_that_clients_tell_are_counted_once_each():
    coordinator = Coordinator(spec(2))
    for _ in range(4):
        for loss in ((0, 11, 40), (0, 12, 30), (1, 7, 5)):
            coordinator.lost(*loss)
        coordinator.lost(0, 0, 9)  # Of an incarnation that the client does not know.
    assert [coordinator.stats()[name] for name in ("lost_shards", "restarts")] == [3, 1]
    coordinator.started(0, 13, 20, "")
    coordinator.heartbeat(1, 7, 5, 5)  # The shard was only slow.
    assert coordinator.starting_state(0)["before"] == 13
    # 40 - 0, because nobody knows what incarnation 12 loaded, and 30 - 20.
    assert coordinator.stats()["lost_steps"] == 50
    assert [coordinator.stats()[name] for name in ("lost_shards", "restarts")] == [3, 2]


def test_shards_keep_what_the_oldest_of_the_kept_manifests_names(tmp_path):
    for shards in ([1, 9], [5, 2], [7, 3]):
        _checkpoint.write(str(tmp_path), _checkpoint.Manifest(shards, {}), {}, keep=9)
    assert _checkpoint.oldest_named(str(tmp_path), 2, keep=1) == [7, 3]
    assert _checkpoint.oldest_named(str(tmp_path), 2, keep=2) == [5, 2]
    assert _checkpoint.oldest_named(str(tmp_path), 2, keep=3) == [1, 2]
    assert _checkpoint.oldest_named(str(tmp_path), 3, keep=3) == [0, 0, 0]


def test_what_a_shard_saved_and_did_not_acknowledge_is_not_there_twice(cluster, tmp_path):
    with make(shards=1, answer_timeout=SECONDS) as replay:
        record(replay, 0, 0, 50)
        answer_late(replay._actors[0], "append", 3600.0, 9)
        writer = replay.writer()
        append(writer, 1, 0, 40)
        wait_for(lambda: replay.stats()["committed_steps"] == 90)
        replay.save(tmp_path)
        kill_shard(replay, 0)
        writer.flush(SECONDS)
        wait_for(lambda: all_alive(replay) and replay.stats()["lost_in_flight_steps"] == 40)
        assert replay.stats()["committed_steps"] == len(replay) == 90
        check(replay.sampler().sample(64, timeout=SECONDS))
