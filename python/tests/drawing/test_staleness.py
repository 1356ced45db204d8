"""`Schema.version`, `set_version` and `max_staleness`."""

import re
import warnings

import numpy as np
import pytest
from testing.buffers import plain_buffer
from testing.guests import append_versions, running_child, write_versions
from testing.refusals import refuses
from testing.threads import wait_until

import reprise


def versions_buffer(**options):
    schema = reprise.Schema().observation("x", np.int64).reward().version()
    return reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform(), **options)


def versions_in(replay, n=200):
    return sorted(set(replay.sampler().sample(n, timeout=0)["version"].tolist()))


def test_items_too_many_versions_behind_are_not_drawn():
    replay = versions_buffer(max_staleness=2, shards=3)
    append_versions(replay.writer(), range(10))
    assert replay.version == 0 and versions_in(replay) == list(range(10))
    replay.set_version(6)
    replay.set_version(5)  # The version never falls.
    assert replay.version == 6 and versions_in(replay) == [4, 5, 6, 7, 8, 9]
    batch = replay.sampler().sample(32)
    assert batch["version"].dtype == np.int64
    np.testing.assert_array_equal(batch.staleness(replay.version), 6 - batch["version"])
    np.testing.assert_allclose(batch.probabilities, 1 / 6)
    stats = replay.stats()
    counts = ("items", "outdated_items", "ever_outdated_items", "version")
    assert [stats[name] for name in counts] == [6, 4, 4, 6]
    assert replay.options["max_staleness"] == 2 and plain_buffer().options["max_staleness"] is None


def test_a_version_below_0_is_refused():
    replay = versions_buffer()
    step, what = {"reward": 0, "next_x": 1}, "'version' is -1; allowed: at least 0"
    with replay.writer() as writer:
        writer.begin_episode(x=0)
        refuses(ValueError, what, writer.append, version=-1, **step)
        refuses(ValueError, what, writer.append_transition, x=0, version=-1, **step)
        rows = {"reward": [0, 0], "version": [3, -1]}
        refuses(ValueError, what, writer.append_episode, x=[0, 1, 2], **rows)
        writer.append(**step)
    with replay.vector_writer(2, autoreset="disabled") as writers:
        writers.begin(x=[0, 0])
        refuses(ValueError, what, writers.append, next_x=[1, 1], **rows)
    assert versions_in(replay) == [0]


def test_versions_come_from_the_writer_or_with_the_step():
    replay = versions_buffer(window=reprise.Sequences(length=3, period=3))
    with replay.writer() as writer:
        writer.append_episode(x=range(4), reward=np.zeros(3))
        writer.set_version(4)
        writer.append_episode(x=range(4), reward=np.zeros(3))
        writer.append_episode(x=range(4), reward=np.zeros(3), version=[7, 8, 9])
        for version in ({}, {"version": [1]}):
            writer.append_transitions(x=[0], reward=[0], next_x=[1], end=[1], **version)
        writer.append_transition(x=0, reward=0, next_x=1, end=1, version=2)
    with replay.vector_writer(2, autoreset="disabled") as writers:
        writers.set_version(5)
        writers.begin(x=[0, 0])
        writers.append(reward=[0, 0], next_x=[1, 1], end=[1, 1])
        writers.begin(x=[0, 0])
        writers.append(reward=[0, 0], next_x=[1, 1], end=[1, 1], version=[10, 11])
    batch = replay.sampler().sample(100, timeout=0)
    found = {
        tuple(versions[:length].tolist())
        for versions, length in zip(batch["version"], batch.lengths)
    }
    assert found == {(0, 0, 0), (4, 4, 4), (7, 8, 9), (4,), (1,), (2,), (5,), (10,), (11,)}
    assert batch.staleness(11).shape == (100, 3)


def test_a_process_says_which_version_made_its_steps():
    replay = versions_buffer(max_staleness=1)
    replay.set_version(3)
    with replay.share() as address, running_child(write_versions, address, [1, 3, 2, 4]):
        wait_until(lambda: len(replay) == 4)
    assert versions_in(replay) == [2, 3, 4]
    with replay.share() as address, reprise.attach(address) as guest:
        assert sorted(set(guest.sampler().sample(50)["version"].tolist())) == [2, 3, 4]


def test_the_error_of_a_wait_names_the_number_of_outdated_items():
    replay = versions_buffer(max_staleness=0, rate_limiter=reprise.MinSize(4))
    append_versions(replay.writer(), range(5))
    replay.set_version(4)
    message = "1 of the 4 items needed; 4 more are outdated: over max_staleness behind version 4"
    refuses(TimeoutError, re.escape(message), replay.sampler().sample, 1, timeout=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match="were drawn; 4 more are outdated: over max_stale"):
            replay.sampler().sample(1)


def test_versions_and_max_staleness_go_through_checkpoints(tmp_path):
    replay = versions_buffer(max_staleness=1)
    append_versions(replay.writer(), range(6))
    replay.set_version(4)
    replay.save(tmp_path)
    loaded = reprise.ReplayBuffer.load(tmp_path).buffer
    assert loaded.version == 4 and versions_in(loaded) == [3, 4, 5]
    assert loaded.schema == replay.schema and loaded.options["max_staleness"] == 1


def test_versions_are_refused_without_a_field_for_them():
    plain, replay = plain_buffer(), versions_buffer(max_staleness=1)
    refuses(ValueError, "max_staleness is 3, and the schema has no", plain_buffer, max_staleness=3)
    refuses(ValueError, "the schema has no version", plain.set_version, 1)
    refuses(ValueError, "the schema has no version", plain.writer().set_version, 1)
    refuses(ValueError, "version is -1; allowed: at least 0", replay.set_version, -1)
    refuses(ValueError, "version is -1; allowed: at least 0", replay.writer().set_version, -1)
    refuses(ValueError, "a second version", lambda: replay.schema.version("other"))
    with plain.writer() as writer:
        writer.begin_episode(state=[0, 0])
        writer.append(action=0, reward=0, next_state=[0, 0])
    refuses(ValueError, "has no version", plain.sampler().sample(1).staleness, 1)
