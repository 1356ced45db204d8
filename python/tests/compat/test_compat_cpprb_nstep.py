"""Compares reprise.compat.cpprb with Nstep with plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.cpprb_steps import ENV, oldest_first, step, steps
from reprise.compat.cpprb import PrioritizedReplayBuffer, ReplayBuffer


def windows(episodes: list[tuple[list[float], bool]], n: int, gamma: float) -> list[list[float]]:
    """Returns [first step, return, last observation, done] for every step of the episodes."""
    rows, i = [], 0
    for rewards, terminated in episodes:
        for t in range(len(rewards)):
            last = min(t + n, len(rewards))
            total = sum(gamma ** (k - t) * rewards[k] for k in range(t, last))
            rows.append([i + t, total, i + last, float(terminated and last == len(rewards))])
        i += len(rewards)
    return rows


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("together", [False, True])
def test_n_step_returns_equal_loops(n: int, together: bool) -> None:
    rng = np.random.default_rng(n)
    nstep = {"size": n, "gamma": 0.9, "rew": "rew", "next": "next_obs"}
    buffer = ReplayBuffer(10_000, ENV, Nstep=nstep, seed=1)
    assert buffer.is_Nstep()
    episodes: list[tuple[list[float], bool]] = []
    i = 0
    for _ in range(40):
        length, terminated = int(rng.integers(1, 9)), bool(rng.integers(2))
        rewards = (np.arange(i, i + length) * 0.5).tolist()
        episodes.append((rewards, terminated))
        values = steps(list(range(i, i + length)))
        values["done"][-1] = terminated
        if together:
            buffer.add(**values)
        else:
            for t in range(length):
                buffer.add(**{name: column[t] for name, column in values.items()})
        if not terminated or rng.integers(2):
            buffer.on_episode_end()
        i += length
    found = oldest_first(buffer)
    table = np.stack(
        [found["obs"][:, 0, 0], found["rew"][:, 0], found["next_obs"][:, 0, 0], found["done"][:, 0]]
    ).T
    np.testing.assert_allclose(table, windows(episodes, n, 0.9), rtol=1e-6)
    assert np.array_equal(found["act"][:, 0], found["obs"][:, 0, 0])


def test_a_hand_computed_window() -> None:
    nstep = {"size": 3, "gamma": 0.5, "rew": ["rew"], "next": ["next_obs"]}
    buffer = ReplayBuffer(8, ENV, Nstep=nstep, seed=1)
    rewards = [1.0, 2.0, 4.0, 8.0]
    answers = [
        buffer.add(**{**step(i), "rew": reward, "done": float(i == 3)})
        for i, reward in enumerate(rewards)
    ]
    assert answers == [None, None, 0, 1]
    found = oldest_first(buffer)
    assert found["rew"].tolist() == [[3.0], [6.0], [8.0], [8.0]]
    assert found["next_obs"][:, 0, 0].tolist() == [3.0, 4.0, 4.0, 4.0]
    assert found["done"].tolist() == [[0.0], [1.0], [1.0], [1.0]]


def test_with_n_steps_len_counts_complete_windows() -> None:
    buffer = ReplayBuffer(
        6, ENV, Nstep={"size": 3, "gamma": 0.9, "rew": "rew", "next": "next_obs"}, seed=1
    )
    stored = []
    for i in range(5):
        buffer.add(**step(i))
        stored.append(len(buffer))
    assert stored == [0, 0, 1, 2, 3] and buffer.get_current_episode_len() == 5
    buffer.on_episode_end()
    assert (len(buffer), buffer.get_next_index(), buffer.get_current_episode_len()) == (5, 5, 0)
    buffer.on_episode_end()
    assert len(buffer) == 5
    for i in range(5, 8):
        buffer.add(**step(i))
    assert (len(buffer), buffer.get_next_index()) == (6, 0)
    assert oldest_first(buffer)["obs"][:, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    buffer.add(**step(8, done=True))
    assert len(buffer) == 6
    assert oldest_first(buffer)["obs"][:, 0, 0].tolist() == [3, 4, 5, 6, 7, 8]


def test_with_n_steps_observations_need_not_follow_from_each_other() -> None:
    env: dict[str, dict[str, Any]] = {
        "obs": {},
        "next_obs": {},
        "rew": {},
        "done": {},
        "next_act": {},
    }
    nstep = {"size": 2, "gamma": 1.0, "rew": "rew", "next": "next_obs"}
    buffer = ReplayBuffer(8, env, Nstep=nstep, seed=1)
    for i in range(4):
        buffer.add(obs=i, next_obs=100 + i, rew=1, done=0, next_act=i + 1)
    found = oldest_first(buffer)
    assert found["obs"][:, 0].tolist() == [0, 1, 2]
    assert found["next_obs"][:, 0].tolist() == [101, 102, 103]
    assert found["rew"][:, 0].tolist() == [2, 2, 2]
    # Nstep does not name next_act, so the value of the window's first step is returned.
    assert found["next_act"][:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("truncated", [False, True])
def test_priorities_given_with_n_steps_are_those_of_their_steps(truncated: bool) -> None:
    nstep = {"size": 3, "gamma": 0.9, "rew": "rew", "next": "next_obs"}
    buffer = PrioritizedReplayBuffer(50, ENV, Nstep=nstep, alpha=1.0, eps=0.0, seed=1)
    buffer.add(**step(0, done=True), priorities=1.0)
    for i in range(1, 8):
        buffer.add(**step(i, done=i == 7 and not truncated), priorities=float(i + 1))
    if truncated:
        buffer.on_episode_end()
    assert len(buffer) == 8
    sample = buffer.sample(4000, beta=1.0)
    found = sample["obs"][:, 0, 0]
    assert set(found) == set(range(8))
    np.testing.assert_allclose(sample["weights"], 1.0 / (found + 1.0), rtol=1e-4)


def test_saved_windows_are_loaded_as_they_were_summed(tmp_path: Path) -> None:
    nstep = {"size": 3, "gamma": 0.5, "rew": "rew", "next": "next_obs"}
    saved, loaded = (ReplayBuffer(20, ENV, Nstep=nstep, seed=1) for _ in range(2))
    for i in range(10):
        saved.add(**step(i, done=i == 6))
    saved.save_transitions(tmp_path / "steps.npz")
    loaded.add(**step(50))  # The load cuts the window of this step short.
    loaded.load_transitions(tmp_path / "steps.npz")
    expected, found = oldest_first(saved), oldest_first(loaded)
    assert found["obs"][:, 0, 0].tolist() == [50, *expected["obs"][:, 0, 0].tolist()]
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name][1:], values)
    assert found["rew"][0] == step(50)["rew"]
    discounts = loaded.replay.selector(1).sampler().sample(len(loaded)).discounts
    assert ((discounts == 0) == (found["done"][:, 0] == 1)).all()
    with pytest.raises(ValueError, match="of a buffer with Nstep, this one is without"):
        ReplayBuffer(4, ENV).load_transitions(tmp_path / "steps.npz")
    np.savez(tmp_path / "later.npz", version=2, Nstep=False)
    with pytest.raises(ValueError, match="format 2; allowed: 1"):
        ReplayBuffer(4, ENV).load_transitions(tmp_path / "later.npz")
