"""An append without its recurrent state is refused where an item may begin."""

import numpy as np
import pytest
from testing.refusals import refuses

import reprise


def make(end="zero_pad"):
    schema = reprise.Schema().observation("x", np.float32).reward()
    schema.recurrent_state("h", np.float32, (2,)).recurrent_state("c", np.float32, (2,))
    return reprise.ReplayBuffer(
        schema, 100, window=reprise.Sequences(length=4, period=2, end=end), shards=1
    )


@pytest.mark.parametrize("end", ["zero_pad", "drop", "overlap"])
def test_a_state_is_needed_at_positions_where_an_item_may_begin(end):
    """With 'overlap' an item may begin at any step, otherwise at multiples of the period."""
    states = {"h": [1, 2], "c": [3, 4]}
    writer = make(end).writer()
    writer.begin_episode(x=0)
    for position in range(6):
        needed = end == "overlap" or position % 2 == 0
        if needed:
            for given, missing in (({}, "fields h, c"), ({"h": [1, 2]}, "field c")):
                message = f"Writer.append: missing {missing}: .* position {position}"
                refuses(ValueError, message, writer.append, reward=0, next_x=position, **given)
        writer.append(reward=0, next_x=position, **(states if needed else {}))
    assert writer.episode_steps == 6


def test_states_of_a_refused_append_are_not_used_by_the_next_one():
    writer = make().writer()
    writer.begin_episode(x=0)
    with pytest.raises(ValueError, match="priorities"):
        writer.append(reward=0, next_x=1, h=[1, 2], c=[3, 4], priorities=[1, 2, 3])
    refuses(ValueError, "missing fields h, c", writer.append, reward=0, next_x=1)


def test_an_episode_refused_for_its_states_leaves_the_open_episode_as_it_was():
    writer = make().writer()
    writer.begin_episode(x=0)
    writer.append(reward=0, next_x=1, h=[1, 2], c=[3, 4])
    episode = writer.episode_id
    with pytest.raises(ValueError, match="Writer.append_episode: missing field c"):
        writer.append_episode(x=[0, 1, 2], reward=[0, 0], h=np.zeros((2, 2)))
    assert (writer.in_episode, writer.episode_id, writer.episode_steps) == (True, episode, 1)
    writer.append(reward=0, next_x=2)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_each_environment_needs_states_by_its_own_position(autoreset):
    buffer = make()
    zeros = np.zeros((2, 2))
    states = {"h": zeros, "c": zeros}
    writers = buffer.vector_writer(2, autoreset=autoreset)
    writers.begin(x=[0, 0])

    def append(end, **states):
        final = {"final": {"x": [0, 0]}} if autoreset == "same_step" else {}
        writers.append(reward=[0, 0], next_x=[0, 0], end=end, **final, **states)
        if autoreset == "disabled":
            writers.begin(x=[0, 0])

    append([0, 1], **states)
    steps = [1, 1]
    if autoreset == "next_step":
        append([0, 0])  # This resets environment 1, which takes no step.
        refuses(ValueError, "missing fields h, c: environment 0 .* position 2", append, [0, 0])
        append([0, 0], **states)
        steps = [3, 1]
    else:
        refuses(ValueError, "missing fields h, c: environment 1 .* position 0", append, [0, 0])
        refuses(ValueError, "missing field h: environment 1 .* position 0", append, [0, 0], c=zeros)
        append([0, 0], **states)
        steps = [2, 1]
    assert [writers[e].episode_steps for e in range(2)] == steps


def test_append_transitions_takes_states_for_every_step():
    buffer = make()
    given = {"x": [0, 1, 2, 3], "reward": np.zeros(4), "next_x": [1, 2, 3, 4], "end": [0, 0, 0, 1]}
    append, states = buffer.writer().append_transitions, np.arange(8).reshape(4, 2)
    refuses(ValueError, "missing field c", append, **given, h=states)
    append(**given, h=states, c=-states)
    batch = buffer.sampler().sample(2, draws="without_replacement")
    assert sorted(batch["c"].tolist()) == [[-4, -5], [0, -1]]
