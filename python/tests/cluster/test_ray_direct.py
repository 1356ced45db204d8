"""reprise.ray: exchanges over connections to shards of the same node."""

import socket

import numpy as np
import pytest

from testing.ray_cluster import (
    ray,
    SECONDS,
    answer_late,
    append,
    check,
    filled,
    kill_shard,
    make,
    wait_for,
)

import reprise
from reprise.ray import _connection


def connections_of(sampler):
    return [
        connection
        for _, connection in sampler._session._connections.values()
        if connection is not None
    ]


def break_connections(sampler, how):
    """Ends the connections of a sampler at the shards."""
    for shard in sampler._membership.remotes:
        ray.get(shard.actor.__ray_call__.remote(how), timeout=SECONDS)


def test_a_request_of_more_than_a_message_is_not_sent():
    """A socket would carry only its beginning to the shard."""
    mine, other = socket.socketpair(socket.AF_UNIX, _connection.KIND)
    with mine, other:
        mine.setblocking(False)
        other.setblocking(False)
        connection = _connection.Connection(mine)
        with pytest.raises(BlockingIOError, match="too large"):
            connection.send(1, 0, 0, bytes(_connection.MESSAGE_BYTES + 1))
        with pytest.raises(BlockingIOError):
            other.recv(1)
        connection.send(2, 0, 0, bytes(_connection.MESSAGE_BYTES))
        assert len(other.recv(1 << 20)) == _connection.REQUEST.size + _connection.MESSAGE_BYTES


def test_a_shard_of_this_node_is_asked_over_its_connection(cluster):
    with make(answer_timeout=SECONDS) as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        assert len(connections_of(sampler)) == 2

        def refuse(shard):
            shard.exchange = None  # Calls of Ray would fail.

        for actor in replay._actors:
            ray.get(actor.__ray_call__.remote(refuse), timeout=SECONDS)
        for _ in range(20):
            batch = sampler.sample(64, timeout=SECONDS)
            check(batch)
            replay.update_priorities(batch.item_keys, np.ones(64)).wait(SECONDS)
        assert replay.stats()["applied_updates"] == 20 * 64


def test_without_connections_calls_of_ray_do_the_same(cluster, monkeypatch):
    monkeypatch.setenv("REPRISE_RAY_DIRECT", "0")
    with make() as replay:
        sampler = filled(replay).sampler()
        batch = sampler.sample(64, timeout=SECONDS)
        check(batch)
        assert not connections_of(sampler)
        replay.update_priorities(batch.item_keys, np.ones(64)).wait(SECONDS)
        assert replay.stats()["applied_updates"] == 64


def test_requests_and_answers_of_many_messages(cluster):
    """Rows of 4 KiB: answers of megabytes. Updates of more than a message go by Ray."""
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
        keys = np.concatenate([batch.item_keys] * 40)
        assert len(keys) * 12 / 2 > _connection.MESSAGE_BYTES
        replay.update_priorities(keys, np.ones(len(keys))).wait(SECONDS)
        assert replay.stats()["applied_updates"] == 40_000


@pytest.mark.parametrize("when", ["idle", "under way"])
def test_a_connection_that_breaks_loses_nothing(cluster, when):
    with make() as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        if when == "under way":
            for actor in replay._actors:
                answer_late(actor, "exchange", 0.5)

        def shut(shard):
            listener = shard._listener
            listener._listener.close()
            for connection in listener.connections:
                connection.shutdown(socket.SHUT_RDWR)

        if when == "idle":
            break_connections(sampler, shut)
        else:
            session = sampler._session
            assert all(request.connection is not None for request in session.send())
            break_connections(sampler, shut)
        for _ in range(3):
            batch = sampler.sample(64, timeout=SECONDS)
            check(batch)
            replay.update_priorities(batch.item_keys, np.ones(64)).wait(SECONDS)
        assert not connections_of(sampler)
        stats = replay.stats()
        assert stats["applied_updates"] == 3 * 64
        assert stats["lost_shards"] == 0


def test_a_shard_that_came_back_has_a_connection_again(cluster):
    with make() as replay:
        sampler = filled(replay).sampler()
        check(sampler.sample(64, timeout=SECONDS))
        kill_shard(replay, 0)
        wait_for(lambda: sampler.sample(64, timeout=SECONDS) and replay.stats()["restarts"] > 0)
        writers = [replay.writer() for _ in range(2)]
        for who, writer in enumerate(writers):
            append(writer, who, 0, 10)
            writer.close(SECONDS)
        wait_for(lambda: replay.shards_alive == 2)
        check(sampler.sample(64, timeout=SECONDS))
        assert len(connections_of(sampler)) == 2


def test_connections_of_another_buffer_or_incarnation_are_not_found(cluster):
    with make() as replay:
        membership = replay._process.membership
        known = membership.remotes[0].info.incarnation
        assert _connection.connect_to(membership.spec.name, 0, known, "somebody") is not None
        assert _connection.connect_to(membership.spec.name, 0, known + 1, "somebody") is None
        assert _connection.connect_to("another", 0, known, "somebody") is None


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
