"""A shard or the coordinator of reprise.ray comes back: what is done only once, counted and
remembered then."""

import contextlib
import os
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from testing.refusals import refuses
from testing.ray_cluster import ray, SECONDS, all_alive, append, check, filled, kill_shard, make
from testing.ray_cluster import (
    delay_answers,
    append_until_no_room,
    pid_of,
    append_and_wait,
    spec,
    wait_for,
)

import reprise
import reprise.ray
from reprise.ray import _checkpoint, _coordinator, _shard
from reprise.ray._coordinator import Coordinator, Counts

LIMITER = reprise.SampleToInsertRatio(samples_per_insert=4.0, min_size=100, error_buffer=400.0)


def restarts(replay):
    """The coordinator's count of restarts, read without a call to a shard."""
    return ray.get(replay._coordinator.stats.remote(), timeout=SECONDS)["restarts"]


@pytest.mark.parametrize("noticed", [True, False], ids=["seen lost", "not missed"])
def test_the_first_updates_after_a_shard_is_back_are_applied(cluster, tmp_path, noticed):
    with make(shards=1) as replay:
        append_and_wait(replay, 0, 0, 500)
        sampler = replay.sampler()
        batch = sampler.sample(500, timeout=SECONDS)
        replay.save(tmp_path)
        kill_shard(replay, 0)
        wait_for(lambda: restarts(replay) == 1)
        wait_for(lambda: pid_of(replay._actors[0]))  # The shard reports before it takes calls.
        if noticed:
            wait_for(lambda: replay.stats()["shards_alive"] == 1 and all_alive(replay))
        replay.update_priorities(batch.item_keys, np.full(500, 3.0)).wait(SECONDS)
        stats = replay.stats()
        assert stats["applied_updates"] == 500
        assert stats["stale_updates"] == stats["stale_updates_at_clients"] == 0


def test_updates_for_a_shard_that_is_lost_are_stale(cluster, monkeypatch):
    monkeypatch.setattr(reprise.ray._membership, "PROBE_SECONDS", SECONDS)  # Nothing probes it.
    with make() as replay:
        filled(replay, 100)
        batch = replay.sampler().sample(64, timeout=SECONDS)
        membership = replay._process.membership
        membership.take_out(
            membership.remotes[0], RuntimeError("a test"), membership.remotes[0].info.incarnation
        )
        replay.update_priorities(batch.item_keys, np.ones(64))
        of_lost = int((batch.item_keys["shard"] == 0).sum())
        assert 0 < of_lost < 64 and membership.counters["stale_updates_at_clients"] == of_lost


def kill_coordinator(replay):
    pid = pid_of(replay._coordinator)
    os.kill(pid, signal.SIGKILL)

    wait_for(lambda: pid_of(replay._coordinator) not in (pid, None))


def losses(replay):
    stats = replay.stats()
    return [stats[name] for name in ("lost_shards", "restarts", "lost_steps")]


def test_a_restarted_coordinator_learns_of_the_losses_before_its_restart(cluster):
    with make() as replay:
        filled(replay, 100)
        assert len(replay) == 200  # By the answers the client knows what the shards have committed.
        kill_shard(replay, 0)
        wait_for(lambda: losses(replay) == [1, 1, 100])
        replay._process.membership.count("lost_in_flight_steps", 7)
        kill_coordinator(replay)
        wait_for(lambda: losses(replay) == [1, 1, 100])
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] == 7)


def test_a_shard_that_is_down_while_the_coordinator_dies_is_counted(cluster):
    with make() as replay:
        filled(replay, 100)
        assert len(replay) == 200
        pid = replay.stats()["shards"][0]["pid"]
        os.kill(pid_of(replay._coordinator), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: losses(replay) == [1, 1, 100] and all_alive(replay))


class RecordingActor:
    """Stands in for an actor, and records the arguments of its calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return self

    def remote(self, *arguments):
        self.calls.append(arguments)


def test_a_request_sent_while_its_shard_was_taken_out_is_given_up(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    membership = reprise.ray._membership.Membership(
        spec(), RecordingActor(), [RecordingActor()], [5]
    )
    session = reprise.ray._session.ClientSession(membership)
    (request,) = session.send()
    session._give_up(request, TimeoutError("it does not answer"))
    assert not membership.alive() and not session.unanswered_shards()
    session._requests[0].append(request)
    session._give_up(request, TimeoutError("it does not answer"))
    assert not session.unanswered_shards()


def test_processes_repeat_their_reports_for_a_new_coordinator(monkeypatch):
    """A process repeats its report from time to time, even if nothing has changed."""
    coordinator = RecordingActor()
    reports = coordinator.calls
    monkeypatch.setattr(reprise.ray._membership, "REPEAT_SECONDS", 0.1)
    monkeypatch.setattr(reprise.ray._membership, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    membership = reprise.ray._membership.Membership(spec(), coordinator, [None], [5])
    try:
        time.sleep(0.5)
        assert not reports  # A process without losses and counts makes no reports.
        # Keeps the upkeep thread from probing the shard, which does not exist.
        membership.remotes[0].probed_at = time.monotonic() + SECONDS
        membership.remotes[0].alive = False
        membership.losses[0, 5] = 30
        wait_for(lambda: len(reports) > 3)
        assert reports[-1][3] == [(0, 5, 30)]
    finally:
        membership.end()


def test_each_loss_that_clients_report_is_counted_once():
    coordinator = Coordinator(spec(2))
    for _ in range(2):
        for client in "ab":
            coordinator.report(client, {}, Counts(), [(0, 11, 40), (0, 12, 30), (1, 7, 5)])
        # A loss of an incarnation that the coordinator does not know.
        coordinator.report("c", {}, Counts(), [(0, 0, 9)])
    assert [coordinator.stats()[name] for name in ("lost_shards", "restarts")] == [3, 1]
    coordinator.heartbeat(0, 13, 25, 20, 25, None, Counts())
    coordinator.heartbeat(1, 7, 5, 0, 5, None, Counts())  # The shard was only slow.
    assert coordinator.starting_state(0)["last_incarnation"] == 13
    # Lost steps: 40 of incarnation 11, as nobody knows what its successor 12 had loaded, and 30 -
    # 20 of incarnation 12, as 13 has loaded 20.
    assert coordinator.stats()["lost_steps"] == 50
    assert [coordinator.stats()[name] for name in ("lost_shards", "restarts")] == [3, 2]


def test_items_of_a_lost_shard_that_reports_late_count_for_seconds_only(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_coordinator, "time", SimpleNamespace(monotonic=lambda: now[0]))
    limiter = reprise.SampleToInsertRatio(1.0, 100, 500.0)
    coordinator = Coordinator(spec(2, rate_limiter=limiter))
    coordinator.begin()
    report = lambda: coordinator.heartbeat(0, 1, 200, 0, 200, None, Counts())
    other_reports = lambda: coordinator.heartbeat(1, 1, 0, 0, 0, None, Counts())
    report()
    other_reports()
    draws = lambda: coordinator.sample("sampler", 8, Counts())[0]
    assert coordinator.insert(0, 1, "writer", [200], 200, Counts())[0] == 1
    coordinator.report("client", {}, Counts(), [(0, 1, 200)])
    assert not draws()
    report()  # As if this report had been under way when the shard ended.
    assert draws()
    now[0] += _coordinator.EMPTY_SECONDS + 0.1
    assert draws()  # No shard has reported since, so the coordinator itself may have stood still.
    other_reports()
    assert not draws()
    report()  # The shard was only slow.
    assert draws()


def test_a_shard_reports_on_after_a_report_that_failed(caplog):
    shard = _shard.Shard.__new__(_shard.Shard)
    shard._spec, shard._index, shard._ended = spec(), 0, threading.Event()
    reports = []

    def report():
        reports.append(None)
        if len(reports) == 1:
            raise RuntimeError("by chance")
        shard._ended.set()

    shard._report = report
    shard._heartbeat()
    assert len(reports) == 2 and "by chance" in caplog.text


def test_shards_keep_the_saves_that_the_oldest_kept_manifest_names(tmp_path):
    for shards in ([1, 9], [5, 2], [7, 3]):
        _checkpoint.write(str(tmp_path), _checkpoint.Manifest(shards, {}), {}, keep=9)
    assert _checkpoint.oldest_named(str(tmp_path), 2, keep=1) == [7, 3]
    assert _checkpoint.oldest_named(str(tmp_path), 2, keep=2) == [5, 2]
    assert _checkpoint.oldest_named(str(tmp_path), 2, keep=3) == [1, 2]
    assert _checkpoint.oldest_named(str(tmp_path), 3, keep=3) == [0, 0, 0]


def test_stats_of_shards_are_summed_or_their_maximum_is_taken():
    shards = [
        {
            "items": 3,
            "version": 2,
            "pid": 7,
            "limiter": "",
            "waits": {"total": 1.5, "longest": 1.0},
        },
        {
            "items": 4,
            "version": 1,
            "pid": 9,
            "limiter": "",
            "waits": {"total": 1.0, "longest": 0.5},
        },
    ]
    waits = {"total": 2.5, "longest": 1.0}
    assert _shard.sums_of(shards) == {"items": 7, "version": 2, "waits": waits}


def test_a_shipment_that_comes_twice_takes_its_room_once(cluster):
    with make(shards=1, rate_limiter=LIMITER) as replay:
        packer = reprise.StepPacker(replay.schema)
        append(packer.writer(), 0, 0, 20)
        call = reprise.ReplayShard.shipments_of(5, 0, [(packer.writer_id, packer.take())])
        for steps in (20, 0):
            made = replay._actors[0].append.remote("me", 5, call, [(packer.writer_id, 20)])
            answer = ray.get(made, timeout=SECONDS)
            assert reprise.ReplayShard.outcomes_of(answer) == [(0, steps, "")]
        wait_for(lambda: replay.stats()["inserted_steps"] == 20)
        assert replay.stats()["committed_steps"] == 20


def test_append_episode_repeated_after_a_timeout_appends_the_episode_once(cluster):
    with make(rate_limiter=LIMITER) as replay:
        writer, sampler = replay.writer(timeout=0.2), replay.sampler()
        taken = append_until_no_room(writer)
        numbers = np.arange(80)
        episode = {"at": np.arange(81), "writer": numbers, "step": numbers}
        episode["reward"] = memoryview(numbers)  # A memoryview cannot be pickled, and need not be.
        refuses(TimeoutError, "flush: timed out", replay.append_episode, **episode, timeout=0.1)

        def draws_until_there(call):
            """Returns whether the call succeeded. If it timed out, draws a batch, to make room."""
            with contextlib.suppress(TimeoutError):
                call()
                return True
            with contextlib.suppress(TimeoutError):  # Near the end the ratio may allow no batch.
                check(sampler.sample(200, timeout=0.1))
            return False

        for _ in range(2):  # The second episode, though equal, is appended as well.
            wait_for(
                lambda: draws_until_there(lambda: replay.append_episode(**episode, timeout=0.1))
            )
        wait_for(lambda: draws_until_there(lambda: writer.flush(0.1)))
        assert replay.stats()["committed_steps"] == taken + 160


def test_steps_saved_but_not_acknowledged_are_not_appended_again(cluster, tmp_path):
    with make(shards=1, answer_timeout=SECONDS) as replay:
        append_and_wait(replay, 0, 0, 50)
        delay_answers(replay._actors[0], "append", 3600.0, 9)
        writer = replay.writer()
        writer.append_episode(
            at=np.arange(41), writer=np.ones(40, int), step=np.arange(40), reward=np.arange(40)
        )
        wait_for(lambda: replay.stats()["committed_steps"] == 90)
        replay.save(tmp_path)
        kill_shard(replay, 0)
        writer.flush(SECONDS)
        wait_for(lambda: all_alive(replay) and replay.stats()["lost_in_flight_steps"] == 40)
        assert replay.stats()["committed_steps"] == len(replay) == 90
        check(replay.sampler().sample(64, timeout=SECONDS))
