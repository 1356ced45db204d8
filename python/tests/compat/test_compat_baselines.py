"""Compares reprise.compat.baselines with a ring and a list of priorities."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from testing.compat_models import PriorityRing, Ring
from testing.refusals import refuses
from reprise.compat.baselines import PrioritizedReplayBuffer, ReplayBuffer


def transition(i: int) -> tuple[Any, ...]:
    """Returns transition i of a stream of episodes; each state is the one that the transition
    before led to."""
    state = np.array([i, -i], np.float32)
    following = np.array([i + 1, -i - 1], np.float32)
    return state, i % 5, i * 0.5, following, i % 7 == 3


def numbers(sample: tuple[Any, ...]) -> list[int]:
    """Returns the numbers of the transitions in a sample. Checks that each row belongs to one
    transition."""
    obs, actions, rewards, next_obs, dones = sample[:5]
    found = [int(row[0]) for row in obs]
    for row, i in enumerate(found):
        state, action, reward, following, done = transition(i)
        assert np.array_equal(obs[row], state) and np.array_equal(next_obs[row], following)
        assert (actions[row], rewards[row], dones[row]) == (action, reward, done)
    return found


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_holds_the_latest_transitions_at_each_moment(size: int) -> None:
    buffer, ring = ReplayBuffer(size, seed=1), Ring(size)
    assert len(buffer) == 0 and buffer.replay is None
    for i in range(3 * size + 10):
        buffer.add(*transition(i))
        ring.put(i)
        assert len(buffer) == len(ring.items)
        assert set(numbers(buffer.sample(20))) <= set(ring.items)
    assert set(numbers(buffer.sample(40 * size))) == set(ring.items)


def test_transitions_that_do_not_continue_are_kept_as_they_are() -> None:
    buffer = ReplayBuffer(50, seed=1)
    order = np.random.default_rng(2).permutation(80).tolist()
    for i in order:
        buffer.add(*transition(i))
    assert len(buffer) == 50
    assert set(numbers(buffer.sample(2000))) == set(order[-50:])


def test_samples_are_copies_with_the_types_of_the_first_transition() -> None:
    buffer = ReplayBuffer(10, seed=1)
    buffer.add([1.5, 2.5], 3, 1, [2.5, 3.5], False)
    buffer.add([2.5, 3.5], 4, 0.25, [4, 5], True)
    obs, actions, rewards, next_obs, dones = kept = buffer.sample(8)
    assert [x.dtype for x in kept] == [np.float64, np.int64, np.float64, np.float64, np.bool_]
    assert [x.shape for x in kept] == [(8, 2), (8,), (8,), (8, 2), (8,)]
    before = [x.copy() for x in kept]
    buffer.sample(8)
    assert all(np.array_equal(a, b) for a, b in zip(kept, before))
    assert set(rewards[dones].tolist()) <= {0.25} and set(rewards[~dones].tolist()) <= {1.0}
    halves = ReplayBuffer(10, seed=1)
    halves.add(*(np.full(2, x, np.float16) for x in (1, 2)), np.float16(0.5), [1, 1], False)
    assert [x.dtype.name for x in halves.sample(1)[:3]] == ["float16"] * 3
    floats = ReplayBuffer(10, seed=1)
    floats.add(0, np.array([0.1], np.float32), np.float32(2), 1, 1.0)
    assert [x.dtype for x in floats.sample(1)] == [
        np.dtype(t) for t in (np.int64, np.float32, np.float32, np.int64, np.float64)
    ]


def test_a_refused_first_transition_does_not_fix_types_and_shapes() -> None:
    buffer = ReplayBuffer(10, seed=1)
    refused: list[tuple[Any, ...]] = [
        ([1.0, 2.0], 3, 1.0, [1.0, 2.0, 3.0], False),
        ([1.0, 2.0], 3, 1.0, [1.0, 2.0], "no"),
        ([1.0, 2.0], {}, 1.0, [1.0, 2.0], False),
        ([1, 2], 3, 1.0, [0.5, 1.5], False),
    ]
    for given in refused:
        with pytest.raises((TypeError, ValueError)):
            buffer.add(*given)
        assert buffer.replay is None and len(buffer) == 0
        refuses(ValueError, "the buffer is empty", buffer.sample, 1)
    buffer.add(0.5, [1, 2], 1.0, 1.5, 1)
    obs, actions, _, next_obs, dones = buffer.sample(1)
    assert (obs[0], next_obs[0], dones[0], dones.dtype) == (0.5, 1.5, 1, np.int64)
    assert actions.tolist() == [[1, 2]]


def test_a_time_limit_is_not_done() -> None:
    buffer = ReplayBuffer(10, seed=1)
    buffer.add(0.0, 0, 0.0, 1.0, False, truncated=True)
    buffer.add(1.0, 1, 0.0, 2.0, True, truncated=True)
    _, actions, _, _, dones = buffer.sample(50)
    assert np.array_equal(dones, actions == 1)


def test_the_seed_of_random_decides_the_draws() -> None:
    def drawn() -> list[int]:
        random.seed(5)
        buffer = ReplayBuffer(30)
        for i in range(30):
            buffer.add(*transition(i))
        return numbers(buffer.sample(100))

    assert drawn() == drawn()


def test_priorities_decide_draws_and_weights() -> None:
    buffer, model = PrioritizedReplayBuffer(20, alpha=0.7, seed=4), PriorityRing(20, 0.7, 0.0)
    rng = np.random.default_rng(4)
    keys: dict[int, int] = {}
    for i in range(60):
        buffer.add(*transition(i))
        model.put(i)
        sample = buffer.sample(8, beta=0.5)
        for number, key in zip(numbers(sample), sample[6].tolist()):
            assert keys.setdefault(number, key) == key
        named = rng.choice(sorted(keys), 4).tolist()
        priorities = rng.uniform(0.1, 3.0, 4).astype(np.float32)
        buffer.update_priorities([keys[n] for n in named], priorities)
        model.update(dict(zip(named, priorities.tolist())))  # The last of repeated keys counts.
        found = numbers(sample := buffer.sample(64, beta=0.5))
        expected = model.weights(0.5)
        places = [model.items.index(n) for n in found]
        np.testing.assert_allclose(sample[5], expected[places], rtol=1e-4)
    assert sample[5].dtype == np.float32 and sample[6].dtype == np.int64


def test_an_update_of_an_overwritten_transition_changes_nothing() -> None:
    buffer = PrioritizedReplayBuffer(1, alpha=1.0, seed=1)
    buffer.add(*transition(0))
    old = buffer.sample(1, 1.0)[6]
    buffer.add(*transition(1))
    buffer.update_priorities(old, [1000.0])
    sample = buffer.sample(8, 1.0)
    assert set(numbers(sample)) == {1}
    assert buffer.replay is not None
    assert (buffer.replay.selector().priorities(sample[6]) == 1.0).all()


def test_new_transitions_have_the_highest_priority_ever_given() -> None:
    buffer = PrioritizedReplayBuffer(2, alpha=1.0, seed=1)
    buffer.add(*transition(0))
    buffer.update_priorities(buffer.sample(1, 1.0)[6], [8.0])
    for i in range(1, 4):
        buffer.add(*transition(i))  # This overwrites the transition with priority 8.
    sample = buffer.sample(32, 1.0)
    keys = dict(zip(numbers(sample), sample[6].tolist()))
    buffer.update_priorities([keys[2]], [2.0])
    sample = buffer.sample(64, 1.0)
    weights = dict(zip(numbers(sample), sample[5].tolist()))
    assert weights == {2: 1.0, 3: pytest.approx(0.25)}


def test_bad_input_is_named() -> None:
    for size in (0, -1, 2.5, "many", None):
        with pytest.raises(ValueError, match="size is"):
            ReplayBuffer(size)  # type: ignore[arg-type]
    refuses(ValueError, "alpha is -1; allowed: 0 to 8", PrioritizedReplayBuffer, 4, alpha=-1)
    buffer = PrioritizedReplayBuffer(4, alpha=0.6, seed=1)
    refuses(ValueError, "the buffer is empty", buffer.sample, 1, 0.4)
    refuses(ValueError, "the buffer is empty", buffer.update_priorities, [1], [1.0])
    with pytest.raises(TypeError, match="obs_t is of dtype object"):
        buffer.add({"x": 1}, 0, 0.0, {"x": 1}, False)  # type: ignore[arg-type]
    buffer.add(*transition(0))
    with pytest.raises(ValueError, match="obs"):
        buffer.add(np.zeros(3, np.float32), 0, 0.0, np.zeros(3, np.float32), False)
    with pytest.raises(TypeError, match="action"):
        buffer.add(np.zeros(2, np.float32), 0.5, 0.0, np.zeros(2, np.float32), False)
    assert len(buffer) == 1
    for n in (0, -1, 0.5):
        with pytest.raises(ValueError, match="batch_size is"):
            buffer.sample(n, 0.4)  # type: ignore[arg-type]
    keys = buffer.sample(2, 0.4)[6]
    for priorities, words in [
        ([1.0], "priorities has 1 elements; allowed: 2"),
        ([1.0, 0.0], r"priorities\[1\] = 0.0; allowed: above 0"),
        ([np.nan, 1.0], r"priorities\[0\] = nan"),
    ]:
        refuses(ValueError, words, buffer.update_priorities, keys, priorities)
    refuses(TypeError, "idxes is of dtype float64", buffer.update_priorities, [0.5], [1.0])
    with pytest.raises(ValueError):
        buffer.sample(1, beta=1.5)
