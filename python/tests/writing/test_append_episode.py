import re

import numpy as np
import pytest
from testing.buffers import every_item, queue_of
from testing.refusals import refuses

import reprise


def test_an_episode_may_be_continued_by_append(buffer):
    with buffer.writer() as writer:
        writer.append_episode(
            state=np.zeros((3, 2)), action=[0, 1], reward=[0, 1], end=reprise.End.CONTINUE
        )
        assert (writer.in_episode, writer.episode_steps) == (True, 2)
        writer.append(action=2, reward=2, next_state=[9, 9], end=1)
    assert every_item(buffer)["action"].tolist() == [0, 1, 2]


def test_arrays_of_different_lengths_are_refused(buffer):
    writer = buffer.writer()
    good = {"state": np.zeros((4, 2)), "action": np.zeros(3, int), "reward": np.zeros(3)}
    for wrong, message in (
        (
            {"state": np.zeros((3, 2))},
            r"Writer.append_episode: observation 'state' has 3 rows; "
            r"expected T \+ 1 = 4, the final one included",
        ),
        ({"state": np.zeros((5, 2))}, r"field 'action': expected int32 of shape \(4,\)"),
        ({"reward": np.zeros(4)}, r"field 'reward': expected float32 of shape \(3,\)"),
        ({"action": np.zeros(4, int)}, r"field 'action': expected int32 of shape \(3,\); .*\(4,\)"),
        ({"reward": np.zeros(2)}, r"field 'reward': expected float32 of shape \(3,\)"),
        ({"state": np.zeros((1, 2))}, "expected at least one step and the final observation"),
        ({"state": 0.0}, "expected at least one step"),
    ):
        refuses(ValueError, message, writer.append_episode, **{**good, **wrong})
    with pytest.raises(ValueError, match="unknown field 'next_state'|not taken|next_state"):
        writer.append_episode(next_state=np.zeros((3, 2)), **good)
    assert len(buffer) == 0


class Length:
    """An object whose length raises an error."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        raise self.error


def test_an_error_raised_by_len_reaches_the_caller(buffer):
    writer = buffer.writer()
    for error in (KeyboardInterrupt(), ZeroDivisionError()):
        with pytest.raises(type(error)):
            writer.append_episode(state=Length(error), action=[0], reward=[0])
    with pytest.raises(ValueError, match="expected at least one step"):
        writer.append_episode(state=object(), action=[0], reward=[0])


def test_an_episode_that_found_no_room_goes_on_when_the_call_is_repeated():
    buffer = queue_of(8)
    writer = buffer.writer(timeout=0.01)
    state = np.arange(42, dtype=np.float32).reshape(21, 2)
    action = np.arange(20)
    episode = {"state": state, "action": action, "reward": np.zeros(20)}
    drawn = []
    sampler = buffer.sampler()
    while writer.episode_steps < 20:
        message = f"no room .*; {len(drawn) + 8} of 20 steps were taken: call append_episode again"
        try:
            writer.append_episode(**episode)
        except TimeoutError as error:
            assert re.search(message, str(error)), error
        batch = sampler.sample(1, timeout=0)
        drawn.append((int(batch["action"][0]), float(batch["state"][0, 0])))
    while len(drawn) < 20:
        batch = sampler.sample(1, timeout=0)
        drawn.append((int(batch["action"][0]), float(batch["state"][0, 0])))
    assert drawn == [(i, 2.0 * i) for i in range(20)]
    first = writer.episode_id
    with pytest.raises(TimeoutError):
        writer.append_episode(**episode)
    assert writer.episode_id != first, "an episode that is complete was continued"


@pytest.mark.parametrize("other", ["shorter", "append", "begin_episode", "equally long"])
def test_a_held_episode_is_not_continued_after_another_call(other):
    buffer = queue_of(4)
    writer = buffer.writer(timeout=0)
    sampler = buffer.sampler()

    def episode(steps, first=0):
        state = first + np.arange(2 * steps + 2, dtype=np.float32).reshape(steps + 1, 2)
        writer.append_episode(state=state, action=np.arange(steps), reward=np.zeros(steps))

    refuses(TimeoutError, "4 of 20 steps were taken", episode, 20)
    first = writer.episode_id
    if other == "shorter":
        refuses(TimeoutError, "no room now; the step was not taken: call again", episode, 19)
    elif other == "equally long":
        refuses(TimeoutError, "no room now; the step was not taken: call again", episode, 20, 100)
    elif other == "append":
        sampler.sample(1, timeout=0)
        writer.append(action=4, reward=0, next_state=[10, 11])
    else:
        writer.begin_episode(state=[0, 0])
    sampler.sample(4, timeout=0)
    refuses(TimeoutError, "4 of 20 steps were taken", episode, 20)
    assert writer.episode_id != first
    assert sampler.sample(4, timeout=0)["action"].tolist() == [0, 1, 2, 3]
