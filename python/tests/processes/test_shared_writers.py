"""Writers and vector writers of other processes: no step is lost or stored twice."""

import contextlib
import re

import numpy as np
from testing.buffers import every_item, fill, plain_buffer, queue_of
from testing.guests import (
    attached_guest,
    numbered,
    numbers_in,
    running_child,
    write_all,
    write_vectors,
)
from testing.refusals import refuses
from testing.threads import wait_until

import reprise


def test_three_processes_append_at_once():
    replay = numbered(100_000)
    with replay.share() as address, contextlib.ExitStack() as children:
        for i in range(2):
            children.enter_context(running_child(write_all, address, i * 20_000, 20_000))
        children.enter_context(running_child(write_vectors, address, 40_000, 2_500, 8))
        with replay.writer() as here:  # The host's process appends too.
            here.append_episode(
                id=np.arange(60_000, 60_101), action=np.arange(60_000, 60_100), reward=np.ones(100)
            )
    assert numbers_in(replay) == list(range(60_100))
    stats = replay.stats()
    assert (stats["guests"], stats["writers"], stats["cut_episodes"]) == (0, 0, 0)


def appended(writer):
    """Appends to a writer in every way."""
    fill_like = np.arange(12.0).reshape(6, 2)
    writer.append_episode(state=fill_like, action=np.arange(5), reward=np.arange(5))
    writer.append_transition(state=[7, 7], action=7, reward=7, next_state=[8, 8])
    writer.append_transitions(
        state=fill_like[:3], action=[1, 2, 3], reward=[1, 2, 3], next_state=fill_like[1:4],
        end=[0, 0, 1],
    )  # fmt: skip
    writer.begin_episode(state=[3, 3])
    assert writer.in_episode and writer.episode_steps == 0
    assert writer.completing(reprise.End.TERMINATED) == 1
    writer.append(action=9, reward=9, next_state=[4, 4])
    assert writer.episode_steps == 1
    writer.close()
    refuses(reprise.Closed, "the writer is closed", writer.begin_episode, state=[0, 0])


def test_every_way_to_append_stores_what_a_writer_in_the_process_stores():
    options = {"window": reprise.Transitions(n_step=2), "shards": 1, "chunk_steps": 64}
    here, there = plain_buffer(1000, **options), plain_buffer(1000, **options)
    appended(here.writer())
    with attached_guest(there) as guest:
        appended(guest.writer())
        wait_until(lambda: len(there) == len(here))
    ours, theirs = every_item(here), every_item(there)
    for name in ("state", "next_state", "action", ".episode_ids", ".lengths", ".discounts"):
        assert (ours[name] == theirs[name]).all(), name
    assert (ours[".returns"]["reward"] == theirs[".returns"]["reward"]).all()


def test_an_append_without_room_times_out_with_the_hosts_reason():
    replay = queue_of(4)
    with attached_guest(replay, ring_steps=8) as guest:
        writer = guest.writer(timeout=0.05)
        writer.begin_episode(state=[0, 0])
        i, said = 0, ""
        while not re.search("Writer.append: no room.*4 items wait to be sampled", said):
            try:  # The append also times out while the host is slow.
                writer.append(action=i, reward=0, next_state=[0, 0])
                i += 1
            except TimeoutError as error:
                said = str(error)
            assert i < 100
        assert 4 <= replay.stats()["committed_steps"] <= i


def test_a_guest_refuses_with_the_messages_of_the_buffer():
    replay = plain_buffer(max_writers=2)
    fill(replay, 10)
    with attached_guest(replay) as guest:
        for make in (guest.vector_writer, replay.vector_writer):
            kind = make.__qualname__.split(".")[0]
            refuses(ValueError, f"{kind}.vector_writer: environments is 0; allowed: 1 to max_writers, 2",
                    make, 0, autoreset="disabled")  # fmt: skip
            refuses(ValueError, "environments is 3; allowed", make, 3, autoreset="disabled")
            refuses(ValueError, "autoreset is missing", make, 2)
        kept = guest.vector_writer(2, autoreset="disabled")
        for make in (guest.writer, replay.writer):
            refuses(RuntimeError, "max_writers is 2", make)
        kept.close()
        wait_until(lambda: replay.stats()["writers"] == 0)
        writer = guest.writer()
        step = {"action": 0, "reward": 0, "next_state": [0, 0]}
        refuses(RuntimeError, "outside an episode", writer.append, **step)
        refuses(ValueError, "state", writer.begin_episode, state=[0, 0, 0])
        writer.begin_episode(state=[0, 0])
        refuses(ValueError, "missing", writer.append, action=0, reward=0)
        writer.append(**step)
