"""The steps that bench/python/beside stores in every buffer, and the calls that it measures.

So that batches can be checked, step i holds its number i in the first bytes of its observation and
as its action, and its next observation is the observation of step i + 1.
"""

import gc
from typing import NamedTuple

import numpy as np

ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-4
BATCHES = (32, 256, 512)
STACK = 4
SIDE = 84
SOURCES = 64  # Number of different rows that appends use in turn.


class Setup(NamedTuple):
    """How many steps are stored, and in which form."""

    size: int  # Steps that fill the buffer.
    frames: bool = False  # Observations are stacks of four frames instead of 32 bytes.
    environments: int = 1  # Environments that one call steps together.

    @property
    def shape(self):
        return (STACK, SIDE, SIDE) if self.frames else (32,)

    def frames_of(self, first, count):
        """Returns observations without stacks, uint8 [count, ...], each of which holds its
        number."""
        shape = self.shape[1:] if self.frames else self.shape
        made = np.tile(_noise(shape), (-(-count // SOURCES), *[1] * len(shape)))[:count]
        numbers = np.arange(first, first + count).astype(np.uint32)
        made.reshape(count, -1)[:, :4] = numbers.view(np.uint8).reshape(-1, 4)
        return made

    def observations(self, first, count):
        """Returns observations, uint8 [count, *shape], which are stacks if the setup has frames."""
        if not self.frames:
            return self.frames_of(first, count)
        frames = self.frames_of(first - STACK + 1, count + STACK - 1)
        return np.stack([frames[i : i + count] for i in range(STACK)], axis=1)

    def steps(self, first, count):
        """Returns `count` transitions as a dictionary of arrays."""
        observations = self.observations(first, count + 1)
        return {
            "obs": observations[:-1],
            "act": np.arange(first, first + count, dtype=np.int32),
            "rew": np.ones(count, np.float32),
            "done": np.zeros(count, np.float32),
            "next_obs": observations[1:],
        }

    def pieces(self):
        """Yields the steps that fill the buffer, in parts."""
        most = 500 if self.frames else 50_000
        for first in range(0, self.size, most):
            yield self.steps(first, min(most, self.size - first))


def _noise(shape):
    return np.random.default_rng(5).integers(256, size=(SOURCES, *shape), dtype=np.uint8)


class Subject:
    """A full buffer whose items have random priorities. `append` uses the steps in `rows` in turn.
    Their numbers count through all environments of a row, then through those of the next row."""

    prioritized = True
    first_priority = None  # The priority of all items at first; None: random.

    def __init__(self, setup):
        self.setup = setup
        random = np.random.default_rng(8)
        self.batches = {
            n: [self.to_native(random.random(n, np.float32)) for _ in range(SOURCES)]
            for n in BATCHES
        }
        self.fill(random.random(setup.size, np.float32))
        gc.collect()
        n = setup.environments
        self.rows = [self.row(setup.steps(STACK + i * n, n)) for i in range(SOURCES)]
        self.turn = 0

    def to_native(self, priorities):
        """Converts priorities to the type that `update` takes."""
        return priorities

    def row(self, steps):
        """Converts a step to the form that `add` takes. With one environment the arrays have no
        dimension of environments."""
        return {k: v[0] for k, v in steps.items()} if self.setup.environments == 1 else steps

    def append(self):
        self.turn = (self.turn + 1) % SOURCES
        self.add(self.rows[self.turn])

    def cycle(self, n):
        drawn = self.sample(n)
        self.turn = (self.turn + 1) % SOURCES
        self.update(drawn, self.batches[n][self.turn])

    def close(self):
        pass
