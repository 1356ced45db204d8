import numpy as np
import pytest
from testing.buffers import every_item, plain_buffer, queue_of
from testing.refusals import refuses
from testing.simulators import Counters, expected_steps, found_steps

import reprise


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_calls_may_name_a_part_of_the_environments(buffer, autoreset):
    """A call may name any environments, in any order, or none."""
    lengths = np.array([1, 2, 3, 5, 5, 7])
    envs = Counters(lengths, autoreset)
    writers = buffer.vector_writer(len(lengths), autoreset=autoreset)
    calls = np.zeros(len(lengths), int)
    random = np.random.default_rng(3)
    for begin in (np.array([4, 1]), np.array([5, 0, 2, 3])):
        writers.begin(env_ids=begin, state=envs.observe()[begin])
    for _ in range(200):
        ids = random.permutation(len(lengths))[: random.integers(0, len(lengths) + 1)]
        calls[ids] += 1
        after, terminated, truncated, final = envs.step(ids)
        end = reprise.ends(terminated, truncated)
        assert writers.completing(end, env_ids=ids) == writers.completing(end, ids) <= len(ids)
        given = {}
        if autoreset == "same_step" and end.any():
            # Final rows are read only of environments that ended.
            rows = [row if ended else None for row, ended in zip(final, end)]
            garbage = np.where(end[:, None], final, -1)
            given["final"] = {"state": rows if random.random() < 0.5 else garbage}
        writers.append(
            env_ids=ids if random.random() < 0.5 else ids.astype(np.int32).tolist(),
            action=np.zeros(len(ids), np.int32),
            reward=np.ones(len(ids)),
            next_state=after,
            end=end,
            **given,
        )
        if autoreset == "disabled":
            envs.reset()
            writers.begin(env_ids=ids, state=envs.observe()[ids])
    assert found_steps(every_item(buffer), "state") == expected_steps(lengths, calls, autoreset)


def test_append_transitions_may_name_a_part_of_the_environments(buffer):
    writers = buffer.vector_writer(3, autoreset="same_step")
    step = {"reward": np.zeros(2), "end": [0, 0]}
    ones = np.ones((2, 2))
    writers.append_transitions(
        env_ids=[2, 0], action=[2, 0], state=[[2, 2], [0, 0]], next_state=[[2, 3], [0, 1]], **step
    )
    writers.append_transitions(
        env_ids=[0, 1], action=[0, 1], state=[[0, 1], [1, 1]], next_state=9 * ones, **step
    )
    assert [writers[e].episode_steps for e in range(3)] == [2, 1, 1]


def test_wrong_env_ids_are_refused(buffer):
    writers = buffer.vector_writer(3, autoreset="next_step")
    writers.begin(env_ids=None)  # Like `begin()`, this waits for resets.
    writers.begin(state=np.zeros((3, 2)))
    two = {"action": [1, 2], "reward": [0, 0], "next_state": np.ones((2, 2)), "end": [0, 0]}
    with pytest.raises(ValueError, match="^VectorWriter.append: env_ids: environment 3; allowed: "):
        writers.append(env_ids=[0, 3], **two)
    with pytest.raises(ValueError, match="environment -1; allowed: each of 0 to 2 once"):
        writers.append(env_ids=[0, -1], **two)
    with pytest.raises(ValueError, match="environment 1 is chosen twice; allowed: each of 0 to 2"):
        writers.append(env_ids=[1, 1], **two)
    with pytest.raises(TypeError, match="env_ids: .* given bool .*: use numpy.flatnonzero"):
        writers.append(env_ids=[True, False, True], **two)
    with pytest.raises(TypeError, match="env_ids: expected int64 .* given float64"):
        writers.append(env_ids=[0.0, 1.0], **two)
    with pytest.raises(ValueError, match=r"\(3,\); given .* \(2,\)|expected .*\(3"):
        writers.append(env_ids=None, **two)
    refuses(ValueError, r"\(1,|expected", writers.append, env_ids=[1], **two)
    assert len(buffer) == 0
    writers.append(env_ids=[2, 0], **two)
    assert [writers[e].episode_steps for e in range(3)] == [1, 0, 1]


@pytest.mark.parametrize("names", [False, True], ids=["all", "some"])
def test_begin_without_observations_takes_them_from_the_next_append(buffer, names):
    writers = buffer.vector_writer(2, autoreset="next_step")
    writers.begin(state=np.zeros((2, 2)))
    step = {"reward": [0, 0], "end": [0, 0]}
    writers.append(action=[0, 10], next_state=np.full((2, 2), 1), **step)
    writers.begin(**({"env_ids": [1]} if names else {}))
    assert [writers[e].in_episode for e in range(2)] == [names, False]
    assert writers.completing([0, 0]) == (1 if names else 0)
    writers.append(action=[1, -1], next_state=np.full((2, 2), 5), **step)
    writers.append(action=[2, 11], next_state=np.full((2, 2), 6), **step)
    items = every_item(buffer)
    seen = dict(zip(items["action"].tolist(), items["state"][:, 0].tolist()))
    assert seen == {0: 0, 10: 0, 2: 5, 11: 5} | ({1: 1} if names else {})
    other = buffer.vector_writer(2, autoreset="same_step")
    refuses(ValueError, "missing field state", other.begin)


def test_completing_counts_items_by_the_ends():
    """Environment 0 is at its third step, which completes an item even if the episode goes on."""
    buffer = plain_buffer(window=reprise.Transitions(n_step=3))
    writers = buffer.vector_writer(2, autoreset="disabled")
    writers.begin(state=np.zeros((2, 2)))
    for _ in range(2):
        writers.append(action=[0], reward=[0], next_state=[[0, 0]], end=[0], env_ids=[0])
    for end, both, swapped in (([0, 0], 1, 1), ([1, 0], 3, 2), ([0, 2], 2, 3), ([2, 1], 4, 4)):
        assert writers.completing(np.array(end)) == both
        assert writers.completing(end, env_ids=[1, 0]) == swapped


def test_ends_need_final_observations_in_the_same_step_mode(buffer):
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(state=np.zeros((2, 2)))
    step = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2))}
    refuses(ValueError, "final is missing: .*state", writers.append, end=[0, 1], **step)
    refuses(ValueError, "final: missing field state", writers.append, end=[0, 1], final={}, **step)
    for end in ([0, 1], [0, 0]):
        for wrong in (3, "state", [1], np.zeros((2, 2))):
            kind = type(wrong).__name__
            message = rf"final is (numpy\.)?{kind}; allowed: a dict of arrays, .* by name: state"
            refuses(TypeError, message, writers.append, end=end, final=wrong, **step)
        for unknown in ({"state": np.zeros((2, 2)), "typo": 1}, {"next_state": 1}, {3: 1}):
            with pytest.raises(ValueError, match="final: unknown field .*; fields: state"):
                writers.append(end=end, final=unknown, **step)
    with pytest.raises(ValueError, match=r"field 'final.state': .*\(2, 2\); .*\(2,\)"):
        writers.append(end=[0, 1], final={"state": np.zeros(2)}, **step)
    assert len(buffer) == 0
    writers.append(end=[0, 0], final=None, **step)
    assert len(buffer) == 2


class Final:
    """A mapping that is no dict, and whose lookup raises an error."""

    def __init__(self, error):
        self.error = error

    def keys(self):
        return ["state"]

    def __getitem__(self, name):
        raise self.error


def test_an_error_of_a_users_mapping_reaches_the_caller(buffer):
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(state=np.zeros((2, 2)))
    step = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2)), "end": [0, 1]}
    with pytest.raises(ValueError, match="final: missing field state"):
        writers.append(final=Final(KeyError("state")), **step)
    for error in (KeyboardInterrupt(), ZeroDivisionError(), TypeError("mine")):
        with pytest.raises(type(error)) as raised:
            writers.append(final=Final(error), **step)
        assert raised.value is error
    assert len(buffer) == 0


@pytest.mark.parametrize("autoreset", ["next_step", "disabled"])
def test_final_is_refused_where_the_next_observation_is_the_final_one(buffer, autoreset):
    writers = buffer.vector_writer(2, autoreset=autoreset)
    writers.begin(state=np.zeros((2, 2)))
    step = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2))}
    for end in ([0, 1], [0, 0]):
        message = f"final is taken with autoreset='same_step' alone; it is '{autoreset}'"
        with pytest.raises(ValueError, match=message):
            writers.append(end=end, final={"state": np.zeros((2, 2))}, **step)
    writers.append(end=[0, 1], final=None, **step)
    assert len(buffer) == 2


def test_environments_outside_an_episode_are_refused(buffer):
    writers = buffer.vector_writer(2, autoreset="disabled")
    step = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2))}
    refuses(RuntimeError, "environment 0 is outside an episode", writers.append, end=[0, 0], **step)
    writers.begin(state=np.zeros((2, 2)))
    writers.append(end=[0, 2], **step)
    refuses(RuntimeError, "environment 1 is outside an episode", writers.append, end=[0, 0], **step)
    writers[1].begin_episode(state=[1, 1])
    writers.append(end=[0, 0], **step)
    assert len(buffer) == 4


@pytest.mark.parametrize(
    "end, error, message",
    [
        (None, ValueError, "end is missing"),
        ([True, False], TypeError, "use reprise.ends"),
        ([0.0, 1.0], TypeError, r"end: expected uint8 of shape \(2,\); given float64"),
        ([0], ValueError, r"end: expected uint8 of shape \(2,\); given int64 of shape \(1,\)"),
        ([0, 3], ValueError, r"end\[1\] is 3; allowed: 0"),
        ([0, -1], ValueError, "end: -1 is out of the range of uint8"),
    ],
)
def test_wrong_ends(buffer, end, error, message):
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(state=np.zeros((2, 2)))
    given = {} if end is None else {"end": end}
    with pytest.raises(error, match=message):
        writers.append(action=[0, 0], reward=[0, 0], next_state=np.zeros((2, 2)), **given)
    assert len(buffer) == 0


def test_the_writer_of_an_environment_is_found_by_its_index(buffer):
    writers = buffer.vector_writer(3, autoreset="same_step")
    assert len(writers) == 3
    assert buffer.stats()["writers"] == 3
    assert isinstance(writers[-1], reprise.Writer)
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            writers[wrong]
    writers.begin(state=np.zeros((3, 2)))
    assert [writers[e].in_episode for e in range(3)] == [True] * 3
    one = writers[1]
    writers.close()
    assert buffer.stats()["writers"] == 0
    with pytest.raises(reprise.Closed):
        one.append(action=0, reward=0, next_state=[0, 0])
    with pytest.raises(reprise.Closed):
        writers.begin(state=np.zeros((3, 2)))


def test_wrong_autoreset(buffer):
    with pytest.raises(ValueError, match="autoreset is 'later'; allowed: 'same_step', 'next_step'"):
        buffer.vector_writer(1, autoreset="later")
    for wrong in (0, 257, 10**15):
        message = f"environments is {wrong}; allowed: 1 to max_writers, 256"
        refuses(ValueError, message, buffer.vector_writer, wrong, autoreset="same_step")


def vector_of_three():
    """A vector writer over a queue of two steps, which has no room for an append of three."""
    buffer = queue_of(2, max_writers=3)
    writers = buffer.vector_writer(3, autoreset="disabled", timeout=0)
    writers.begin(state=np.zeros((3, 2)))
    return buffer, writers


def test_a_repeated_append_is_checked_like_the_first():
    buffer, writers = vector_of_three()
    step = {"action": [1, 2, 3], "reward": np.zeros(3), "end": [1, 1, 1]}
    said = "environments were not taken: call again with the same"
    refuses(TimeoutError, said, writers.append, next_state=np.ones((3, 2)), **step)
    assert buffer.stats()["committed_steps"] == 2
    refuses(ValueError, "next_state", writers.append, next_state=np.ones((3, 1)), **step)
    drawn = buffer.sampler().sample(2, timeout=0)["action"].tolist()
    writers.append(next_state=np.ones((3, 2)), **step)
    assert sorted(drawn + buffer.sampler().sample(1, timeout=0)["action"].tolist()) == [1, 2, 3]


@pytest.mark.parametrize("destroyed", [False, True], ids=["closed", "destroyed"])
def test_a_vector_writer_may_be_closed_while_steps_of_a_call_are_not_taken(destroyed):
    _, writers = vector_of_three()
    with pytest.raises(TimeoutError):
        while True:
            writers.append(
                action=[0, 0, 0], reward=np.zeros(3), next_state=np.zeros((3, 2)), end=[0, 0, 0]
            )
    one = writers[1]
    if not destroyed:
        writers.close()
    del writers
    one.close()
