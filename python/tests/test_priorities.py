"""Priorities that appends have to bring."""

import numpy as np
import pytest
from conftest import plain_schema

import reprise


def from_caller(n_step=1):
    return reprise.ReplayBuffer(
        plain_schema(),
        100,
        window=reprise.Transitions(n_step=n_step),
        selectors=[reprise.Uniform(), reprise.Proportional(initial="from_caller")],
    )


@pytest.mark.parametrize("none", [None, [], np.zeros(0, np.float32)], ids=["None", "[]", "array"])
def test_without_them_nothing_is_appended(none):
    buffer = from_caller()
    with buffer.writer() as writer:
        with pytest.raises(ValueError, match="2 items decided"):
            writer.append_episode(
                state=np.zeros((3, 2)), action=[0, 0], reward=[0, 0], priorities=none
            )
        writer.begin_episode(state=[0, 0])
        with pytest.raises(ValueError, match="1 items decided"):
            writer.append(action=0, reward=0, next_state=[0, 0], priorities=none)
        writer.append(action=0, reward=0, next_state=[0, 0], priorities=[1])
    writers = buffer.vector_writer(2)
    writers.begin(state=np.zeros((2, 2)))
    step = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2)), "end": [0, 0]}
    with pytest.raises(ValueError, match="2 items decided"):
        writers.append(priorities=none, **step)
    assert len(buffer) == 1


@pytest.mark.parametrize("none", [None, []], ids=["None", "[]"])
def test_steps_that_decide_nothing_need_none(none):
    buffer = from_caller(n_step=3)
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    for _ in range(2):
        writer.append(action=0, reward=0, next_state=[0, 0], priorities=none)
    with pytest.raises(ValueError, match="1 items decided"):
        writer.append(action=0, reward=0, next_state=[0, 0], priorities=none)
    assert writer.episode_steps == 2


def test_loose_transitions_bring_none():
    writer = from_caller().writer()
    step = {"state": [0, 0], "action": 0, "reward": 0, "next_state": [1, 0]}
    with pytest.raises(ValueError, match="unknown field 'priorities'"):
        writer.append_transition(priorities=[1], **step)
    with pytest.raises(ValueError, match="1 items decided"):
        writer.append_transition(**step)
    assert writer.episode_steps == 0 and not writer.step_held
