"""Steps for the tests of reprise.compat.cpprb, and functions that read them back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.compat.cpprb import ReplayBuffer

ENV: dict[str, dict[str, Any]] = {
    "obs": {"shape": (2, 3)},
    "act": {"shape": 2, "dtype": np.int16},
    "rew": {},
    "next_obs": {"shape": (2, 3)},
    "done": {},
}


def step(i: int, done: bool = False) -> dict[str, Any]:
    """Step i of a stream in which each observation is the next observation of the step before."""
    return {
        "obs": np.full((2, 3), i, np.float32),
        "act": [i, -i],
        "rew": i * 0.5,
        "next_obs": np.full((2, 3), i + 1, np.float32),
        "done": float(done),
    }


def steps(numbers: list[int]) -> dict[str, Any]:
    """Several steps as one dict of arrays [steps, ...]."""
    single = [step(i) for i in numbers]
    return {name: np.array([s[name] for s in single]) for name in ENV}


def oldest_first(buffer: ReplayBuffer) -> dict[str, NDArray[Any]]:
    """Returns all steps, oldest first. The buffer itself returns them by their places in a ring."""
    full = len(buffer) == buffer.get_buffer_size()
    shift = -buffer.get_next_index() if full else 0
    return {k: np.roll(v, shift, axis=0) for k, v in buffer.get_all_transitions().items()}


def numbers(sample: dict[str, NDArray[Any]]) -> list[int]:
    """Returns the numbers of the steps in a sample. Checks that each row belongs to one step."""
    found = [int(x) for x in sample["obs"][:, 0, 0]]
    for row, i in enumerate(found):
        expected = step(i)
        for name in ("obs", "act", "rew", "next_obs"):
            assert np.array_equal(sample[name][row], np.atleast_1d(expected[name])), (name, i)
    return found
