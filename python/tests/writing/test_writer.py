import numpy as np
import pytest
from testing.buffers import STEP, append_until_held, every_item, fill, queue_of
from testing.refusals import refuses
from testing.threads import running, until_waiting

import reprise


def test_steps_come_back_as_they_were_appended(buffer):
    fill(buffer, 5)
    items = every_item(buffer)
    assert items["state"][:, 0].tolist() == [0, 1, 2, 3, 4]
    assert items["next_state"][:, 0].tolist() == [1, 2, 3, 4, 5]
    assert items["action"].tolist() == [0, 1, 2, 3, 4]
    assert items[".returns"]["reward"].tolist() == [0, 1, 2, 3, 4]
    assert items[".discounts"].tolist() == [0.5] * 5
    assert items[".positions"].tolist() == [0, 1, 2, 3, 4]


def test_ends_are_told_apart(buffer):
    with buffer.writer() as writer:
        for end in (reprise.End.TERMINATED, 2, reprise.ends(True, False), np.int64(2)):
            writer.begin_episode(state=[0, 0])
            writer.append(action=0, reward=0, next_state=[1, 1], end=end)
            assert not writer.in_episode
    assert every_item(buffer)[".discounts"].tolist() == [0.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("shape", [(), (3, 2)])
def test_values_of_every_kind_come_back(dtype, shape):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2 if dtype == "bool" else 100, (4, *shape)).astype(dtype)
    schema = reprise.Schema().observation("x", "f4").column("value", dtype, shape)
    buffer = reprise.ReplayBuffer(schema, 100, shards=1)
    with buffer.writer() as writer:
        writer.begin_episode(x=0)
        writer.append(value=values[0], next_x=1)
        writer.append(value=values[1].tolist(), next_x=2)
        writer.append(value=np.array(values[2], order="F"), next_x=3)
        swapped = np.array(values[3], values.dtype.newbyteorder(">"))
        swapped.flags.writeable = False
        writer.append(value=swapped, next_x=4, end=1)
    assert np.array_equal(every_item(buffer)["value"], values)


def test_arrays_are_copied_during_the_call(buffer):
    state = np.zeros(2, np.float32)
    strided = np.arange(8, dtype=np.float32)[::4]
    with buffer.writer() as writer:
        writer.begin_episode(state=state)
        state[:] = 9
        writer.append(action=1, reward=1, next_state=strided, end=1)
    items = every_item(buffer)
    assert items["state"].tolist() == [[0, 0]]
    assert items["next_state"].tolist() == [[0, 4]]


def test_a_refused_step_leaves_nothing_behind(buffer):
    with buffer.writer() as writer:
        writer.begin_episode(state=[0, 0])
        with pytest.raises(ValueError):
            writer.append(action=7, reward=7, next_state=[1, 1, 1])
        refuses(ValueError, "missing fields action, reward", writer.append, next_state=[1, 1])
        writer.append(action=1, reward=2, next_state=[3, 4], end=1)
    items = every_item(buffer)
    assert (items["action"].tolist(), items["next_state"].tolist()) == ([1], [[3, 4]])


def test_closing_a_writer(buffer):
    with buffer.writer() as writer:
        writer.begin_episode(state=[0, 0])
        writer.append(action=0, reward=0, next_state=[1, 0])
    assert len(buffer) == 1
    assert buffer.stats()["writers"] == 0
    assert not writer.in_episode
    for call in (
        lambda: writer.begin_episode(state=[0, 0]),
        lambda: writer.append(action=0, reward=0, next_state=[1, 0]),
        lambda: writer.episode_id,
        lambda: writer.completing(0),
    ):
        refuses(reprise.Closed, "the writer is closed", call)
    writer.close()


def test_appending_to_a_closed_buffer(buffer):
    writer, between = buffer.writer(), buffer.writer()
    writers = buffer.vector_writer(1, autoreset="disabled")
    writer.begin_episode(state=[0, 0])
    buffer.close()
    step = {"action": 0, "reward": 0, "next_state": [1, 0]}
    refuses(reprise.Closed, "not taken", writer.append, **step)
    refuses(reprise.Closed, "closed", writer.begin_episode, state=[0, 0])
    refuses(reprise.Closed, "Writer.append: the buffer is closed", between.append, **step)
    rows = {name: [value] for name, value in step.items()}
    refuses(reprise.Closed, "VectorWriter.append: the buffer", writers.append, **rows, end=[0])


def test_appending_outside_an_episode(buffer):
    writer = buffer.writer()
    with pytest.raises(RuntimeError, match="outside an episode: call begin_episode"):
        writer.append(action=0, reward=0, next_state=[1, 0])


def test_too_many_writers(schema):
    buffer = reprise.ReplayBuffer(schema, 100, max_writers=1)
    writer = buffer.writer()
    refuses(RuntimeError, "max_writers", buffer.writer)
    writer.close()
    buffer.writer()


def test_a_transition_continues_the_episode_if_its_state_matches(buffer):
    with buffer.writer() as writer:
        writer.append_transition(state=[0, 0], action=0, reward=0, next_state=[1, 0])
        episode = writer.episode_id
        writer.append_transition(state=[1, 0], action=1, reward=1, next_state=[2, 0])
        assert (writer.episode_id, writer.episode_steps) == (episode, 2)
        writer.append_transition(state=[7, 0], action=2, reward=2, next_state=[8, 0], end=1)
        assert writer.episode_id != episode
        with pytest.raises(ValueError, match="missing field state"):
            writer.append_transition(action=0, reward=0, next_state=[1, 0])
    items = every_item(buffer)
    assert items["state"][:, 0].tolist() == [0, 1, 7]
    assert items[".discounts"].tolist() == [0.5, 0.5, 0.0]


class Meddler:
    """A number whose conversion calls a method of the writer that is about to read it."""

    def __init__(self, writer, method):
        self.writer, self.method = writer, method

    def __index__(self):
        getattr(self.writer, self.method)()
        return 0


def test_a_call_from_within_a_call_does_not_close_the_writer(buffer):
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    writers = buffer.vector_writer(1, autoreset="same_step")
    writers.begin(state=np.zeros((1, 2)))
    in_use = pytest.raises(RuntimeError, match="is in use by another call")
    with in_use:
        writer.completing(Meddler(writer, "close"))
    with in_use:
        writer.append(action=0, reward=0, next_state=[0, 0], end=Meddler(writer, "close"))
    with in_use:
        writer.append(action=Array(writer, "close"), reward=0, next_state=[0, 0])
    with in_use:
        writers.completing(Array(writers, "close"))
    with in_use:
        writers.completing(Array(writers[0], "close"))
    writer.append(action=0, reward=0, next_state=[0, 0])
    assert writer.episode_steps == 1 and len(writers) == 1 and writers[0].in_episode


class Array(Meddler):
    def __array__(self, dtype=None):
        return np.zeros(1, np.int64) + self.__index__()


def test_a_writer_that_waits_refuses_other_calls():
    buffer = queue_of(2)
    writer = buffer.writer()

    def act():
        writer.begin_episode(state=[0, 0])
        with pytest.raises(reprise.Closed):
            while True:
                writer.append(**STEP)

    with running(act), buffer:
        until_waiting(buffer, "writers_for_limiter")
        for use in (
            lambda: writer.in_episode,
            lambda: writer.episode_id,
            lambda: writer.episode_steps,
            lambda: writer.completing(0),
        ):
            refuses(RuntimeError, "Writer is in use by another call", use)
    assert writer.in_episode and writer.episode_steps > 0


def test_a_refused_begin_episode_keeps_the_step_that_found_no_room():
    buffer = queue_of(2)
    writer = buffer.writer(timeout=0)
    writer.begin_episode(state=[0, 0])
    count = append_until_held(writer)
    for wrong in ({}, {"state": [0, 0, 0]}, {"state": [9, 9], "other": 1}):
        with pytest.raises(ValueError):
            writer.begin_episode(**wrong)
        assert writer.episode_steps == count
    sampler = buffer.sampler()
    for _ in range(count):
        sampler.sample(1, timeout=0)
    writer.append(action=count, reward=0, next_state=[count, 1])
    batch = sampler.sample(1, timeout=0)
    assert (batch["action"][0], batch["next_state"][0].tolist()) == (count, [count, 1])


class Tensor:
    """Converts to an int as a tensor of torch does, which does so even with bools."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __index__(self):
        return 1


def test_an_end_that_is_a_bool_of_any_library_is_refused(buffer):
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    for end in (True, np.True_, np.array(True), np.array([False]), Tensor("torch.bool")):
        refuses(
            TypeError, "^Writer.append: end: expected .* a bool", writer.append, end=end, **STEP
        )
        refuses(TypeError, "end: expected an End; given a bool", writer.completing, end)
    for end in ("terminated", 1.0, np.float32(1), Tensor):
        refuses(TypeError, "end: expected an End; given", writer.append, end=end, **STEP)
    refuses(ValueError, "^Writer.append: end is 3; allowed", writer.append, end=3, **STEP)
    writer.append(end=Tensor("torch.int64"), **STEP)
    assert not writer.in_episode
