"""Compares reprise.compat.cpprb with a ring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.compat_models import PriorityRing, Ring
from testing.cpprb_steps import ENV, numbers, oldest_first, step, steps
from testing.refusals import refuses
from reprise.compat.cpprb import PrioritizedReplayBuffer, ReplayBuffer


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_holds_the_latest_steps_at_each_moment(size: int) -> None:
    buffer, ring = ReplayBuffer(size, ENV, seed=1), Ring(size)
    assert (len(buffer), buffer.get_stored_size(), buffer.get_buffer_size()) == (0, 0, size)
    for i in range(3 * size + 5):
        assert buffer.add(**step(i, done=i % 4 == 3)) == i % size
        ring.put(i)
        assert len(buffer) == buffer.get_stored_size() == len(ring.items)
        assert buffer.get_next_index() == (i + 1) % size
        if i % 6 == 5:
            buffer.on_episode_end()
        assert set(numbers(buffer.sample(9))) <= set(ring.items)
        assert numbers(buffer.get_all_transitions()) == sorted(ring.items, key=lambda n: n % size)
    assert sorted(numbers(buffer.get_all_transitions(shuffle=True))) == ring.items


def test_steps_may_be_added_many_at_once() -> None:
    buffer = ReplayBuffer(12, ENV, seed=1)
    assert buffer.add(**steps([0, 1, 2, 3, 4])) == 0
    assert buffer.add(**step(5)) == 5
    assert buffer.add(**steps(list(range(6, 16)))) == 6
    assert buffer.get_next_index() == 4 and len(buffer) == 12
    assert numbers(oldest_first(buffer)) == list(range(4, 16))


@pytest.mark.parametrize("nstep", [None, {"size": 1, "rew": "end", "next": "next_x"}])
def test_fields_named_like_keywords_and_replacements_keep_their_values(nstep: Any) -> None:
    names = ["end", "value_end", "value_value_end", "next_x", "value_next_x", "final", "done"]
    names += ["env_ids"]
    buffer = ReplayBuffer(4, {name: {} for name in names}, Nstep=nstep, seed=1)
    buffer.add(**{name: float(i) for i, name in enumerate(names)})
    got = buffer.sample(1)
    assert {name: float(got[name][0, 0]) for name in names} == {
        name: float(i) for i, name in enumerate(names)
    }


def test_values_get_the_types_and_shapes_of_env_dict() -> None:
    env: dict[str, dict[str, Any]] = {
        "x": {"shape": (2, 2), "dtype": np.float64},
        "flag": {"dtype": bool},
        "count": {"dtype": np.uint8, "shape": 3},
        "plain": {},
        "next_x": {"shape": (2, 2), "dtype": np.float32},
        "end": {"dtype": np.int32},
        "next_next": {},
    }
    buffer = ReplayBuffer(10, env, default_dtype=np.int64, seed=1)
    buffer.add(
        x=[1, 2, 3, 4], flag=2, count=[1.9, 2.1, 3], plain=7.6, next_x=np.ones((1, 2, 2)), end=1,
        next_next=3, unknown="ignored",
    )  # fmt: skip
    sample = buffer.sample(2)
    assert list(sample) == list(env)
    assert {n: (v.dtype.name, v.shape) for n, v in sample.items()} == {
        "x": ("float64", (2, 2, 2)),
        "flag": ("bool", (2, 1)),
        "count": ("uint8", (2, 3)),
        "plain": ("int64", (2, 1)),
        "next_x": ("float32", (2, 2, 2)),
        "end": ("int32", (2, 1)),
        "next_next": ("int64", (2, 1)),
    }
    assert sample["count"][0].tolist() == [1, 2, 3] and sample["plain"][0, 0] == 7
    assert sample["x"][0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    empty = ReplayBuffer(10, env).get_all_transitions()
    assert empty["x"].shape == (0, 2, 2) and empty["x"].dtype == np.float64


def test_fields_with_and_without_a_next_value_are_stored() -> None:
    buffer = ReplayBuffer(5, {"only": {"shape": 2}}, seed=1)
    for i in range(9):
        buffer.add(only=[i, i])
        if i == 3:
            buffer.on_episode_end()
    assert oldest_first(buffer)["only"][:, 0].tolist() == [4, 5, 6, 7, 8]
    chain = ReplayBuffer(5, {"a": {}, "next_a": {}, "next_next_a": {}}, seed=1)
    for i in range(9):
        chain.add(a=i, next_a=i + 1, next_next_a=i + 2)
    found = oldest_first(chain)
    assert [found[n][0, 0] for n in ("a", "next_a", "next_next_a")] == [4, 5, 6]


def test_next_of_returns_the_values_of_the_following_step() -> None:
    env = {name: ENV[name] for name in ("obs", "act", "rew", "done")}
    buffer = ReplayBuffer(6, env, next_of=("obs", "rew"), seed=1)
    for i in range(20):
        buffer.add(**step(i), next_rew=(i + 1) * 0.5)
        if i % 5 == 4:
            buffer.on_episode_end()
    found = oldest_first(buffer)
    assert numbers(found) == list(range(14, 20))
    assert found["next_rew"][:, 0].tolist() == [(i + 1) * 0.5 for i in range(14, 20)]


def test_next_observations_that_are_not_the_next_steps_are_stored() -> None:
    rng = np.random.default_rng(3)
    buffer, ring = ReplayBuffer(10, ENV, seed=1), Ring(10)
    for i in range(60):
        values = {**step(i), "next_obs": np.full((2, 3), rng.integers(i, i + 3), np.float32)}
        buffer.add(**values)
        ring.put((i, values["next_obs"][0, 0]))
        found = oldest_first(buffer)
        assert list(zip(found["obs"][:, 0, 0], found["next_obs"][:, 0, 0])) == ring.items


def test_the_seed_of_numpy_decides_the_draws() -> None:
    def drawn() -> list[int]:
        np.random.seed(7)
        buffer = ReplayBuffer(30, ENV)
        buffer.add(**steps(list(range(70))))
        return numbers(buffer.sample(500))

    first = drawn()
    assert first == drawn() and set(first) == set(range(40, 70))


def test_samples_are_the_callers_own() -> None:
    buffer = PrioritizedReplayBuffer(30, ENV, seed=1)
    buffer.add(**steps(list(range(30))))
    kept = buffer.sample(8)
    before = {name: values.copy() for name, values in kept.items()}
    buffer.sample(8)
    assert all(np.array_equal(kept[name], before[name]) for name in kept)
    assert set(kept) == {*ENV, "weights", "indexes"}
    assert kept["weights"].shape == kept["indexes"].shape == (8,)


def test_clear_empties_the_buffer() -> None:
    buffer = PrioritizedReplayBuffer(4, ENV, seed=1)
    for i in range(6):
        buffer.add(**step(i), priorities=3.0)
    old = buffer.sample(1)["indexes"]
    buffer.clear()
    assert (len(buffer), buffer.get_next_index(), buffer.get_current_episode_len()) == (0, 0, 0)
    assert buffer.get_max_priority() == 1.0
    assert buffer.add(**step(9)) == 0
    assert numbers(oldest_first(buffer)) == [9]
    assert old.dtype == np.int64


def test_priorities_decide_draws_and_weights() -> None:
    buffer = PrioritizedReplayBuffer(20, ENV, alpha=0.7, eps=0.01, seed=4)
    model = PriorityRing(20, 0.7, 0.01)
    rng = np.random.default_rng(4)
    keys: dict[int, int] = {}
    for i in range(60):
        priority = float(np.float32(rng.uniform(0, 2))) if i % 3 == 0 else None
        buffer.add(**step(i), **({} if priority is None else {"priorities": priority}))
        model.put(i, priority)
        sample = buffer.sample(8, beta=0.5)
        for number, key in zip(numbers(sample), sample["indexes"].tolist()):
            assert keys.setdefault(number, key) == key
        if i % 7 == 6:
            named = rng.choice(sorted(keys), 4, replace=False).tolist()
            priorities = rng.uniform(0, 3, 4).astype(np.float32)
            buffer.update_priorities([keys[n] for n in named], priorities)
            model.update(dict(zip(named, priorities.tolist())))
        found = numbers(sample := buffer.sample(64, beta=0.5))
        places = [model.items.index(n) for n in found]
        np.testing.assert_allclose(sample["weights"], model.weights(0.5)[places], rtol=1e-4)


def test_the_highest_priority_is_remembered() -> None:
    buffer = PrioritizedReplayBuffer(2, ENV, alpha=1.0, eps=0.0, seed=1)
    assert buffer.get_max_priority() == 1.0
    buffer.add(**step(0), priorities=0.5)
    assert buffer.get_max_priority() == 1.0
    buffer.update_priorities(buffer.sample(1)["indexes"], [4.0])
    buffer.add(**steps([1, 2]), priorities=[2.0, 8.0])
    assert buffer.get_max_priority() == 8.0
    buffer.add(**steps([3, 4]), priorities=[1.0, 2.0])
    buffer.add(**step(5))
    assert buffer.get_max_priority() == 8.0
    sample = buffer.sample(64, beta=1.0)
    weights = dict(zip(numbers(sample), sample["weights"].tolist()))
    assert weights == {4: 1.0, 5: pytest.approx(0.25)}


def test_bad_input_is_named() -> None:
    nstep = {"size": 3, "gamma": 0.9, "rew": "rew", "next": "next_obs"}
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: ReplayBuffer(0, ENV), "size is 0; allowed: whole numbers from 1"),
        (lambda: ReplayBuffer(1.5, ENV), "size is 1.5"),
        (lambda: ReplayBuffer(4, {}), "env_dict has no names"),
        (lambda: ReplayBuffer(4, ENV, stack_compress="x"), "stack_compress names 'x'; allowed"),
        (lambda: ReplayBuffer(4, ENV, mmap_prefix="x"), "mmap_prefix is 'x'; not covered"),
        (lambda: ReplayBuffer(4, ENV, next_of="obs"), "env_dict has 'next_obs' too"),
        (lambda: ReplayBuffer(4, ENV, next_of="state"), "next_of names 'state'; allowed"),
        (lambda: ReplayBuffer(4, ENV, Nstep={"gamma": 0.9}), "allowed: 'size', and"),
        (lambda: ReplayBuffer(4, {"rew": {}}, Nstep=nstep), "Nstep needs"),
        (lambda: ReplayBuffer(4, ENV, Nstep={**nstep, "rew": "obs"}), "allowed: 1 element"),
        (lambda: ReplayBuffer(4, ENV, Nstep={**nstep, "gamma": 1.5}), "1.5"),
        (lambda: ReplayBuffer(4, ENV, Nstep={**nstep, "size": 0}), "0"),
    ]
    for make, words in wrong:
        refuses(ValueError, words, make)
    refuses(TypeError, "complex64", ReplayBuffer, 4, {"obs": {"dtype": np.complex64}})
    assert ReplayBuffer(1e3, ENV).get_buffer_size() == 1000
    buffer = PrioritizedReplayBuffer(4, ENV, seed=1)
    refuses(ValueError, "the buffer is empty", buffer.sample, 1)
    missing = step(0)
    del missing["act"]
    refuses(KeyError, "act", buffer.add, **missing)
    bad: list[tuple[dict[str, Any], str]] = [
        ({**step(0), "act": [1, 2, 3]}, r"'act' has shape \(3,\); allowed: \(2,\), or that"),
        ({**steps([0, 1]), "rew": [1.0]}, "'rew' has 1 steps, 'obs' 2"),
        ({**step(0), "priorities": [1.0, 2.0]}, "2 priorities for 1 steps"),
        ({**step(0), "priorities": -1.0}, r"priorities\[0\] = -1.0; allowed: at least 0"),
    ]
    for values, words in bad:
        refuses(ValueError, words, buffer.add, **values)
    assert len(buffer) == 0
    buffer.add(**step(0))
    keys = buffer.sample(2)["indexes"]
    with pytest.raises(TypeError, match="None"):
        buffer.update_priorities(keys, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="priorities has 1 elements; allowed: 2"):
        buffer.update_priorities(keys, [1.0])
    with pytest.raises(ValueError):
        buffer.update_priorities(keys, [1.0, np.nan])
    refuses(TypeError, "indexes is of dtype float64", buffer.update_priorities, [0.5], [1.0])


def test_a_refused_step_is_not_stored() -> None:
    buffer = PrioritizedReplayBuffer(16, ENV, alpha=8)
    said = r"priorities\[0\] = 1\.0.*e\+30; allowed: .* finite weight"
    refuses(ValueError, said, buffer.add, priorities=[1e30], **step(0))
    assert buffer.get_stored_size() == 0 and buffer.get_max_priority() == 1
    for wrong in ({"Nstep": {"size": 2.5}}, {"env_dict": {"x": {"shape": 2.7}}}):
        with pytest.raises(ValueError, match="is 2.[57]; allowed: whole numbers"):
            ReplayBuffer(16, **{"env_dict": ENV, **wrong})


@pytest.mark.parametrize("check", [False, True])
def test_stale_updates_count_for_the_highest_priority_unless_checked(check: bool) -> None:
    buffer = PrioritizedReplayBuffer(2, ENV, alpha=1.0, eps=0.0, seed=1, check_for_update=check)
    buffer.add(**steps([0, 1]), priorities=[1.0, 1.0])
    stale = np.unique(buffer.sample(64)["indexes"])
    assert len(stale) == 2
    buffer.add(**step(2), priorities=1.0)
    # The older of the two sampled steps was overwritten.
    buffer.update_priorities(np.repeat(stale, 2), [9.0, 9.0, 2.0, 3.0])
    assert buffer.get_max_priority() == (3.0 if check else 9.0)
    buffer.add(**steps([3, 4]), priorities=[1.0, 1.0])
    buffer.update_priorities(stale, [20.0, 20.0])
    assert buffer.get_max_priority() == (3.0 if check else 20.0)


@pytest.mark.parametrize("safe", [True, False])
def test_saved_steps_are_added_oldest_first(safe: bool, tmp_path: Path) -> None:
    saved = ReplayBuffer(8, ENV, seed=1)
    for i in range(13):
        saved.add(**step(i, done=i == 9))
    saved.save_transitions(tmp_path / "steps.npz", safe=safe)
    loaded = PrioritizedReplayBuffer(10, ENV, seed=1)
    loaded.add(**steps([100, 101, 102]))
    loaded.load_transitions(tmp_path / "steps.npz")
    found = oldest_first(loaded)
    assert numbers(found) == [101, 102, *range(5, 13)]
    assert found["done"][:, 0].tolist() == [0] * 6 + [1] + [0] * 3
    assert found["next_obs"][:, 0, 0].tolist() == [102, 103, *range(6, 14)]
    loaded.add(**step(13))
    assert numbers(oldest_first(loaded)) == [102, *range(5, 14)]
    with (tmp_path / "file.npz").open("wb") as file:
        saved.save_transitions(file)
    assert (tmp_path / "file.npz").stat().st_size > 0


def test_a_file_of_cpprb_whose_next_values_are_in_the_next_row_is_loaded(tmp_path: Path) -> None:
    # With safe=False cpprb saves a next value only in the cache, or, without an entry there, as the
    # value of the next row.
    np.savez(
        tmp_path / "steps.npz",
        safe=False,
        version=1,
        data={"a": np.array([[5.0], [2.0], [3.0]]), "b": np.zeros((3, 1))},  # type: ignore[arg-type]
        Nstep=False,
        cache={0: {"next_a": 6.0}, 2: {"a": 3.5}},  # type: ignore[arg-type]
        next_of=("a",),
    )
    buffer = ReplayBuffer(4, {"a": {}, "b": {}}, next_of="a")
    buffer.load_transitions(tmp_path / "steps.npz")
    found = oldest_first(buffer)
    assert found["a"][:, 0].tolist() == [5, 2, 3.5]
    assert found["next_a"][:, 0].tolist() == [6, 3, 5]


def test_stack_compress_takes_stacks_that_do_not_overlap() -> None:
    buffer = ReplayBuffer(4, {"a": {"shape": 3}}, next_of="a", stack_compress="a")
    for first, after in (([1, 2, 3], [2, 3, 4]), ([9, 9, 9], [9, 9, 1]), ([9, 9, 1], [7, 7, 7])):
        buffer.add(a=first, next_a=after)
    found = oldest_first(buffer)
    assert found["a"].tolist() == [[1, 2, 3], [9, 9, 9], [9, 9, 1]]
    assert found["next_a"].tolist() == [[2, 3, 4], [9, 9, 1], [7, 7, 7]]
