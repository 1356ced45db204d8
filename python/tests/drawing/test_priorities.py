"""Priorities that are given with an append, and where an append must give them."""

import numpy as np
import pytest
from testing.buffers import every_item, plain_buffer
from testing.refusals import refuses

import reprise


def from_caller(n_step=1):
    return plain_buffer(
        window=reprise.Transitions(n_step=n_step),
        selectors=[reprise.Uniform(), reprise.Proportional(initial="from_caller")],
    )


@pytest.mark.parametrize("none", [None, [], np.zeros(0, np.float32)], ids=["None", "[]", "array"])
def test_an_append_without_needed_priorities_is_refused(none):
    buffer = from_caller()
    with buffer.writer() as writer:
        with pytest.raises(ValueError, match="2 items"):
            writer.append_episode(
                state=np.zeros((3, 2)), action=[0, 0], reward=[0, 0], priorities=none
            )
        writer.begin_episode(state=[0, 0])
        with pytest.raises(ValueError, match="1 items"):
            writer.append(action=0, reward=0, next_state=[0, 0], priorities=none)
        writer.append(action=0, reward=0, next_state=[0, 0], priorities=[1])
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(state=np.zeros((2, 2)))
    step = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2)), "end": [0, 0]}
    refuses(ValueError, "2 items", writers.append, priorities=none, **step)
    assert len(buffer) == 1


@pytest.mark.parametrize("none", [None, []], ids=["None", "[]"])
def test_a_step_that_completes_no_item_needs_no_priorities(none):
    buffer = from_caller(n_step=3)
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    for _ in range(2):
        writer.append(action=0, reward=0, next_state=[0, 0], priorities=none)
    with pytest.raises(ValueError, match="1 items"):
        writer.append(action=0, reward=0, next_state=[0, 0], priorities=none)
    assert writer.episode_steps == 2


@pytest.mark.parametrize("none", [[], np.zeros(0)], ids=["[]", "array"])
def test_an_empty_array_of_priorities_is_refused_where_items_are_completed(none):
    buffer = plain_buffer(window=reprise.Transitions(n_step=2))
    writer, writers = buffer.writer(), buffer.vector_writer(2, autoreset="disabled")
    episode = {"state": np.zeros((3, 2)), "action": [0, 0], "reward": [0, 0]}
    step = {"action": 0, "reward": 0, "next_state": [0, 0], "priorities": none}
    steps = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2))}
    with pytest.raises(ValueError, match="Writer.append_episode: 0 priorities; .* decides 2 items"):
        writer.append_episode(priorities=none, **episode)
    assert not writer.in_episode
    writer.begin_episode(state=[0, 0])
    writer.append(**step)
    refuses(ValueError, "Writer.append: 0 priorities; .* decides 1 items", writer.append, **step)
    writers.begin(state=np.zeros((2, 2)))
    writers.append(end=[0, 0], priorities=none, **steps)
    with pytest.raises(ValueError, match="VectorWriter.append: 0 priorities; .* decides 3 items"):
        writers.append(end=[0, 1], priorities=none, **steps)
    assert (writer.episode_steps, writers[0].episode_steps) == (1, 1)


def test_each_item_gets_the_priority_given_for_it():
    """Each item is given its action plus one as its priority."""
    buffer = plain_buffer(
        window=reprise.Transitions(n_step=2),
        selectors=reprise.Proportional(alpha=1, epsilon=0, initial="from_caller"),
    )
    writer, writers = buffer.writer(), buffer.vector_writer(2, autoreset="disabled")
    writer.begin_episode(state=[0, 0])
    for action, priorities in enumerate(([], [1], [2, 3])):
        end = 1 if action == 2 else 0
        writer.append(action=action, reward=0, next_state=[0, 0], end=end, priorities=priorities)
    writer.append_episode(
        state=np.zeros((4, 2)), action=[3, 4, 5], reward=np.zeros(3), priorities=[4, 5, 6]
    )
    writers.begin(state=np.zeros((2, 2)))
    step = {"reward": [0, 0], "next_state": np.zeros((2, 2))}
    writers.append(action=[6, 8], end=[0, 0], **step)
    writers.append(action=[7, 9], end=[0, 1], priorities=[7, 9, 10], **step)
    items = every_item(buffer)
    assert sorted(items["action"]) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    given = buffer.selector().priorities(items[".item_keys"])
    np.testing.assert_array_equal(given, items["action"] + 1)


def test_append_transition_takes_no_priorities():
    writer = from_caller().writer()
    step = {"state": [0, 0], "action": 0, "reward": 0, "next_state": [1, 0]}
    with pytest.raises(ValueError, match="unknown field 'priorities'"):
        writer.append_transition(priorities=[1], **step)
    refuses(ValueError, "1 items", writer.append_transition, **step)
    assert writer.episode_steps == 0


def test_given_priorities_are_checked_with_the_present_alpha():
    """The weight of priority 1e6 is infinite in float32 at alpha 8, and finite at alpha 1."""
    buffer = plain_buffer(selectors=reprise.Proportional(alpha=1.0, epsilon=0))
    writer, writers = buffer.writer(), buffer.vector_writer(1, autoreset="disabled")
    writers.begin(state=np.zeros((1, 2)))
    episode = {"state": np.zeros((3, 2)), "action": [0, 0], "reward": [0, 0]}
    step = {"action": [0], "reward": [0], "next_state": [[0, 0]], "end": [0]}
    for alpha, fine in ((1.0, True), (8.0, False), (0.5, True)):
        buffer.selector().set_alpha(alpha)
        before = len(buffer)
        for call in (
            lambda: writer.append_episode(priorities=[1, 1e6], **episode),
            lambda: writers.append(priorities=[1e6], **step),
        ):
            if fine:
                call()
            else:
                refuses(ValueError, r"priorities\[[01]\] is 1e\+06.* finite weight", call)
        assert len(buffer) == before + (3 if fine else 0)
    refuses(ValueError, "alpha is 9", buffer.selector().set_alpha, 9)
    writers.append(priorities=[1e6], **step)
