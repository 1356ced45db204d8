"""append_transitions of writers and vector writers does what append_transition does, for many
steps."""

import numpy as np
import pytest
from testing.buffers import every_item, plain_buffer, queue_of
from testing.guests import attached_guest
from testing.refusals import refuses
from testing.simulators import Counters, expected_steps, found_steps
from testing.threads import wait_until

import reprise

TERMINATED, TRUNCATED = reprise.End.TERMINATED, reprise.End.TRUNCATED
WITHOUT_WAITING = {
    "vector": lambda buffer: buffer.vector_writer(5, autoreset="disabled", timeout=0),
    "writer": lambda buffer: buffer.writer(timeout=0),
}


def transitions(environments, steps, seed=5):
    """Returns fields [steps, environments, ...]. Most steps continue the step before; some begin an
    episode, because their state is another or because the step before ended one."""
    random = np.random.default_rng(seed)
    shape = (steps, environments)
    end = random.choice([0, 0, 0, 0, 1, 2], shape).astype(np.uint8)
    now = np.zeros((*shape, 2), np.float32)
    after = random.integers(9, size=(*shape, 2)).astype(np.float32)
    now[1:] = after[:-1]
    jumps = random.random(shape) < 0.15
    now[jumps] += 100
    return {
        "state": now,
        "action": np.arange(steps * environments, dtype=np.int32).reshape(shape),
        "reward": random.random(shape).astype(np.float32),
        "next_state": after,
        "end": end,
    }


def three_steps():
    window = reprise.Transitions(n_step=3, discount=0.5)
    return plain_buffer(4096, window=window, shards=1)


def by_action(buffer):
    """Returns the arrays of all items but for episode ids, sorted by action."""
    items = every_item(buffer)
    order = np.argsort(items["action"])
    names = ("state", "action", "reward", "next_state", ".discounts", ".lengths", ".positions")
    return [items[name][order] for name in names] + [items[".returns"]["reward"][order]]


def assert_equal_items(buffers):
    arrays, expected_arrays = (by_action(buffer) for buffer in buffers)
    assert len(arrays[0]) > 100
    for array, expected in zip(arrays, expected_arrays):
        assert np.array_equal(array, expected)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_a_vector_writer_stores_what_its_writers_would_store_one_by_one(autoreset):
    given = transitions(environments=5, steps=60)
    by_vector, by_writers = three_steps(), three_steps()
    vector = by_vector.vector_writer(5, autoreset=autoreset)
    writers = [by_writers.writer() for _ in range(5)]
    final, resets = [
        None
    ] * 5, 0  # Of each environment the final observation, if its episode ended.
    for t in range(60):
        vector.append_transitions(**{name: array[t] for name, array in given.items()})
        for e, writer in enumerate(writers):
            step = {name: array[t, e] for name, array in given.items()}
            if autoreset == "next_step" and np.array_equal(step["state"], final[e]):
                final[e], resets = None, resets + 1
                continue
            writer.append_transition(**step)
            final[e] = step["next_state"] if step["end"] else None
        assert [w.episode_steps for w in vector] == [w.episode_steps for w in writers]
        assert [w.in_episode for w in vector] == [w.in_episode for w in writers]
    assert (resets > 20) == (autoreset == "next_step")
    vector.close()
    for writer in writers:
        writer.close()
    assert_equal_items((by_vector, by_writers))


@pytest.mark.parametrize("by_guest", [False, True], ids=["buffer", "guest"])
@pytest.mark.parametrize("left_out", [False, True], ids=["whole", "left_out"])
def test_rows_of_resets_are_not_stored(buffer, left_out, by_guest):
    """The caller gives the rows of resets like any others, or leaves them out by `env_ids`."""
    lengths = np.array([1, 2, 3, 5])
    envs = Counters(lengths, "next_step")
    with attached_guest(buffer) as guest:
        writers = (guest if by_guest else buffer).vector_writer(4, autoreset="next_step")
        state = envs.observe()
        for _ in range(40):
            over = envs.over.copy()
            after, terminated, truncated, _ = envs.step()
            ids = np.flatnonzero(~over | (not left_out))
            writers.append_transitions(
                env_ids=ids, state=state[ids], next_state=after[ids],
                action=np.zeros(len(ids), int), reward=np.zeros(len(ids)),
                end=reprise.ends(terminated, truncated)[ids],
            )  # fmt: skip
            state = after
        steps = expected_steps(lengths, [40] * 4, "next_step")
        wait_until(lambda: len(buffer) == len(steps))
    assert found_steps(every_item(buffer), "state") == steps


def test_one_row_after_an_end_is_a_reset_even_if_the_observations_are_equal(buffer):
    writers = buffer.vector_writer(1, autoreset="next_step")
    step = {"state": [[0, 0]], "next_state": [[0, 0]], "reward": [0]}
    for action, end in ((1, 1), (2, 0), (3, 0), (4, 1), (5, 0), (6, 1)):
        writers.append_transitions(action=[action], end=[end], **step)
    assert sorted(every_item(buffer)["action"]) == [1, 3, 4, 6]
    writers[0].begin_episode(state=[0, 0])
    writers.append_transitions(action=[7], end=[0], **step)
    assert 7 in every_item(buffer)["action"], "only the row right behind an end is a reset"


def test_values_are_converted_as_append_converts_them(buffer):
    writers = buffer.vector_writer(3, autoreset="disabled")
    wide = np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::2]
    writers.append_transitions(
        state=wide,
        action=[1, 2, 3],
        reward=(1, 2, 3),
        next_state=(wide + 1).tolist(),
        end=[0, 1, 2],
    )
    items = every_item(buffer)
    order = np.argsort(items["action"])
    assert np.array_equal(items["state"][order], wide)
    assert np.array_equal(items["next_state"][order], wide + 1)
    assert items[".discounts"][order].tolist() == [0.5, 0, 0.5]


def test_wrong_arguments_append_nothing(buffer):
    good = {
        "state": np.zeros((2, 2)),
        "action": [0, 0],
        "reward": [0, 0],
        "next_state": np.ones((2, 2)),
        "end": [0, 0],
    }
    writer, vector = buffer.writer(), buffer.vector_writer(2, autoreset="disabled")
    for append in (writer.append_transitions, vector.append_transitions):
        for change, error, message in (
            ({"state": None}, ValueError, "missing field state"),
            ({"next_state": None}, ValueError, "missing field next_state"),
            ({"end": None}, ValueError, "append_transitions: end is missing"),
            ({"end": 0}, ValueError, r"end: .* \(2,\), one for each step, such as repr"),
            ({"end": [0, 3]}, ValueError, r"end\[1\] is 3"),
            ({"end": [0, 0, 0]}, ValueError, r"end: expected uint8 of shape \(2,\)"),
            ({"end": [False, True]}, TypeError, "reprise.ends"),
            ({"action": [0]}, ValueError, r"field 'action': expected int32 of shape \(2,\)"),
            ({"action": [0.5, 0]}, TypeError, "field 'action': expected int32"),
            ({"priorities": [1, 1]}, ValueError, "unknown field 'priorities'"),
        ):
            given = {name: value for name, value in (good | change).items() if value is not None}
            refuses(error, message, append, **given)
    with pytest.raises(ValueError, match="'state': expected at least one step"):
        writer.append_transitions(**{name: value[:0] for name, value in good.items()})
    refuses(ValueError, r"missing fields state, action", writer.append_transitions, end=[0])
    assert buffer.stats()["committed_steps"] == 0
    writer.close()
    with pytest.raises(reprise.Closed):
        writer.append_transitions(**good)
    vector[1].close()
    with pytest.raises(reprise.Closed):
        vector.append_transitions(**good)


def test_a_value_that_is_not_finite_is_refused_before_any_step_is_stored():
    schema = reprise.Schema().observation("x", "f4").reward().require_finite()
    buffer = reprise.ReplayBuffer(schema, 100)
    vector = buffer.vector_writer(3, autoreset="disabled")
    with pytest.raises(ValueError, match="field 'next_x' is nan at element 0 of row 2"):
        vector.append_transitions(
            x=[0, 0, 0], reward=[0, 0, 0], next_x=[0, 0, np.nan], end=[0, 0, 0]
        )
    assert buffer.stats()["committed_steps"] == 0


@pytest.mark.parametrize("kind", WITHOUT_WAITING)
def test_transitions_that_found_no_room_are_taken_once_by_repeated_calls(kind):
    buffer = queue_of(2, max_writers=5)
    writer = WITHOUT_WAITING[kind](buffer)
    sampler = buffer.sampler()
    given = transitions(environments=5, steps=20)
    drawn, timeouts = [], 0
    for t in range(20):
        step = {name: array[t] for name, array in given.items()}
        while True:
            try:
                writer.append_transitions(**step)
                break
            except TimeoutError as error:
                timeouts += 1
                assert "of 5 transitions were taken: call again with the same" in str(error)
                batch = sampler.sample(1, timeout=0)
                drawn.append((batch["action"][0], batch["next_state"][0, 0]))
    while len(drawn) < 100:
        batch = sampler.sample(1, timeout=0)
        drawn.append((batch["action"][0], batch["next_state"][0, 0]))
    assert timeouts > 50
    assert sorted(drawn) == list(
        zip(range(100), given["next_state"].reshape(100, 2)[:, 0].tolist())
    )


@pytest.mark.parametrize("kind", WITHOUT_WAITING)
def test_other_transitions_after_a_timeout_are_a_new_call(kind):
    buffer = queue_of(2, max_writers=5)
    writer = WITHOUT_WAITING[kind](buffer)
    given = {name: array[0] for name, array in transitions(5, 1).items()}
    for name, change in (("action", 100), ("next_state", 1), ("end", 1)):
        other = {**given, name: given[name] * 0 + change}
        for values in (given, given, other):
            refuses(
                TimeoutError, " of 5 transitions were taken", writer.append_transitions, **values
            )
            left = [buffer.sampler().sample(1, timeout=0)["action"][0] for _ in range(2)]
        assert left == other["action"][:2].tolist()

    buffer = queue_of(2)
    writer = buffer.writer(timeout=0)
    given = {name: array[:, 0] for name, array in transitions(1, 5).items()}
    refuses(TimeoutError, "2 of 5 transitions were taken", writer.append_transitions, **given)
    buffer.sampler().sample(1)
    writer.begin_episode(state=given["state"][0])
    refuses(TimeoutError, "1 of 5 transitions were taken", writer.append_transitions, **given)


def test_an_append_after_transitions_is_a_new_call():
    buffer = queue_of(2, max_writers=3)
    writers = buffer.vector_writer(3, autoreset="disabled", timeout=0)
    sampler = buffer.sampler()
    states, step = np.zeros((3, 2)), {"action": np.zeros(3, int), "reward": np.zeros(3)}
    writers.begin(state=states)
    with pytest.raises(TimeoutError, match="some environments were not taken"):
        writers.append(next_state=states, end=[0, 0, 0], **step)
    sampler.sample(2)
    with pytest.raises(TimeoutError, match="2 of 3 transitions were taken"):
        writers.append_transitions(state=states, next_state=states, end=[1, 1, 1], **step)
    sampler.sample(2)
    writers.append_transitions(state=states, next_state=states, end=[1, 1, 1], **step)
    with pytest.raises(RuntimeError, match="environment 0 is outside an episode: give its first"):
        writers.append(next_state=states, end=[0, 0, 0], **step)


def test_a_refused_call_is_not_continued_by_the_next():
    schema = reprise.Schema().observation("x", "f4").reward()
    selectors = reprise.Proportional(initial="from_caller")
    buffer = reprise.ReplayBuffer(
        schema, 100, selectors=selectors, window=reprise.Transitions(n_step=2)
    )
    writer = buffer.writer()
    given = {"x": [0, 1, 2], "reward": [0, 0, 0], "next_x": [1, 2, 3], "end": [0, 0, 0]}
    for _ in range(3):
        refuses(ValueError, "initial = 'from_caller'", writer.append_transitions, **given)
        assert writer.episode_steps == 1


def test_an_episode_begun_by_transitions_continues_by_append(buffer):
    writers = buffer.vector_writer(2, autoreset="disabled")
    step = {"action": [0, 0], "reward": [0, 0]}
    writers.append_transitions(
        state=np.zeros((2, 2)), next_state=np.ones((2, 2)), end=[0, 1], **step
    )
    assert [writer.in_episode for writer in writers] == [True, False]
    with pytest.raises(RuntimeError, match="environment 1 is outside an episode"):
        writers.append(next_state=np.full((2, 2), 2), end=[0, 0], **step)
    writers.begin(state=np.full((2, 2), 7))
    writers.append(next_state=np.full((2, 2), 2), end=[0, 0], **step)
    writers.append_transitions(
        state=np.full((2, 2), 2), next_state=np.full((2, 2), 3), end=[0, 0], **step
    )
    assert writers[0].episode_steps == 3
    assert sorted(every_item(buffer)["state"][:, 0].tolist()) == [0, 0, 1, 2, 2, 7]


def test_a_data_set_of_d4rl_is_stored_as_its_episodes():
    """The recipe of docs/guide/environments.md equals appending the data's episodes one by one. The
    data has no next observation of a step that a time limit cut, so the recipe leaves such a step
    out."""
    random = np.random.default_rng(3)
    n = 400
    state = random.random((n, 2)).astype(np.float32)
    action, reward = np.arange(n, dtype=np.int32), random.random(n).astype(np.float32)
    terminals, timeouts = random.random(n) < 0.05, np.arange(n) % 37 == 36
    terminals[36] = True
    # The data repeats the last observation before a time limit as the first observation after it.
    state[1:][timeouts[:-1]] = state[:-1][timeouts[:-1]]
    by_recipe, by_episodes = three_steps(), three_steps()
    cut = timeouts & ~terminals
    has_next = ~cut[:-1]
    with by_recipe.writer() as writer:
        writer.append_transitions(
            state=state[:-1][has_next],
            next_state=state[1:][has_next],
            action=action[:-1][has_next],
            reward=reward[:-1][has_next],
            end=reprise.ends(terminals[:-1][has_next], cut[1:][has_next]),
        )
    with by_episodes.writer() as writer:
        first = 0
        for i in range(n):
            if not (terminals[i] or timeouts[i] or i == n - 1):
                continue
            # The final observation of a terminated step has no meaning. Here it is the first
            # observation of the next episode.
            over = terminals[i] and i != n - 1
            last = i + 1 if over else i
            if last > first:
                writer.append_episode(
                    state=state[first : last + 1],
                    action=action[first:last],
                    reward=reward[first:last],
                    end=TERMINATED if over else TRUNCATED,
                )
            first = i + 1
    assert_equal_items((by_recipe, by_episodes))
