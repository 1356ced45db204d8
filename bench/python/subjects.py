"""The subjects of bench/python/run: full buffers, and the calls that are timed."""

import itertools

import numpy as np
import reprise
from plain_buffer import PlainBuffer
from scene import ALPHA, BETA, EPSILON, SOURCES

BATCH = 512
ENVIRONMENTS = 256
WINDOWS, LENGTH = 5000, 8

SELECTOR = reprise.Proportional(alpha=ALPHA, epsilon=EPSILON)


def raw_priorities(n):
    """Batches of n priorities, uniform in [0, 1), which are made before any call is timed."""
    return np.random.default_rng(3).random((64, n), np.float32)


def small_rows():
    """Observations, [SOURCES, 32] bytes, and actions and rewards as lists."""
    random = np.random.default_rng(5)
    states = list(random.integers(256, size=(SOURCES, 32), dtype=np.uint8))
    return states, random.integers(4, size=SOURCES).tolist(), random.random(SOURCES).tolist()


def step_rows():
    """Steps of Chen and Wang's experiment: four floats, an action and a reward."""
    random = np.random.default_rng(7)
    states = list(random.random((SOURCES, 4), np.float32))
    return states, random.integers(2, size=SOURCES).tolist(), [1.0] * SOURCES


class Rows:
    """A full buffer of reprise, filled with episodes whose items have random priorities."""

    def __init__(self, schema, rows, size, episode, window):
        self.states, self.actions, self.rewards = rows
        self.episode, self.steps = episode, 0
        self.replay = reprise.ReplayBuffer(schema, size, window=window, selectors=SELECTOR)
        self.writer = self.replay.writer()
        source = np.arange(episode + 1) % SOURCES
        fields = {
            "state": np.array(self.states)[source],
            "action": np.array(self.actions, np.int32)[source[:-1]],
            "reward": np.array(self.rewards, np.float32)[source[:-1]],
        }
        random = np.random.default_rng(8)
        for _ in range(-(-(size + size // 4) // episode)):
            self.writer.append_episode(**fields, priorities=random.random(episode, np.float32))
        if len(self.replay) != size:
            raise RuntimeError("the buffer did not fill")
        self.sampler = self.replay.sampler(seed=1)

    def append(self):
        at = self.steps % SOURCES
        if self.steps % self.episode == 0:
            self.writer.begin_episode(state=self.states[at])
        self.steps += 1
        self.writer.append(
            action=self.actions[at],
            reward=self.rewards[at],
            next_state=self.states[at - SOURCES + 1],
            end=1 if self.steps % self.episode == 0 else 0,
        )


class RepriseSmallRows(Rows):
    """W2: 76 bytes with both observations, single transitions."""

    def __init__(self, size):
        schema = reprise.Schema().observation("state", np.uint8, (32,)).column("action", np.int32)
        super().__init__(schema.reward(), small_rows(), size, 1024, reprise.Transitions())
        self.priorities = itertools.cycle(raw_priorities(BATCH))
        self.one_priority = itertools.cycle(raw_priorities(1))

    def cycle(self):
        batch = self.sampler.sample(BATCH, beta=BETA)
        self.replay.update_priorities(batch.item_keys, next(self.priorities))

    def cycle_of_one(self):
        batch = self.sampler.sample(1, beta=BETA)
        self.replay.update_priorities(batch.item_keys, next(self.one_priority))


class Plain:
    """A full PlainBuffer of the same rows, whose priorities are random too."""

    def __init__(self, size, rows, whole_transitions):
        self.states, self.actions, self.rewards = rows
        source = np.arange(size) % SOURCES
        columns = {
            "state": np.array(self.states)[source],
            "action": np.array(self.actions, np.int32)[source],
            "reward": np.array(self.rewards, np.float32)[source],
        }
        if whole_transitions:
            columns["done"] = np.zeros(size, np.float32)
            columns["next_state"] = np.array(self.states)[(source + 1) % SOURCES]
        fields = {name: (column.dtype, column.shape[1:]) for name, column in columns.items()}
        self.buffer = PlainBuffer(size, fields, ALPHA, EPSILON)
        self.buffer.fill(columns, np.random.default_rng(8).random(size))
        self.steps = 0


class PlainSmallRows(Plain):
    def __init__(self, size):
        super().__init__(size, small_rows(), whole_transitions=True)
        # Lists of Python calculate faster with Python's numbers than with numpy's.
        self.priorities = raw_priorities(BATCH).tolist()

    def append(self):
        at = self.steps % SOURCES
        self.steps += 1
        self.buffer.add(
            state=self.states[at],
            action=self.actions[at],
            reward=self.rewards[at],
            done=self.steps % 1024 == 0,
            next_state=self.states[at - SOURCES + 1],
        )

    def cycle(self):
        _, _, indices = self.buffer.sample(BATCH, BETA)
        self.steps += 1
        self.buffer.update_priorities(indices, self.priorities[self.steps % len(self.priorities)])


class RepriseSteps(Rows):
    """W4, with the windows of eight consecutive steps."""

    def __init__(self, size, episode):
        schema = reprise.Schema().observation("state", np.float32, (4,)).column("action", np.int32)
        window = reprise.Sequences(length=LENGTH, period=1)
        super().__init__(schema.reward(), step_rows(), size, episode, window)

    def record_100(self):
        for _ in range(100):
            self.append()

    def get_5000(self):
        self.sampler.sample(WINDOWS, beta=BETA)


class PlainSteps(Plain):
    def __init__(self, size):
        super().__init__(size, step_rows(), whole_transitions=False)

    def record_100(self):
        for _ in range(100):
            at = self.steps % SOURCES
            self.steps += 1
            self.buffer.add(state=self.states[at], action=self.actions[at], reward=self.rewards[at])

    def get_5000(self):
        self.buffer.sample_windows(WINDOWS, LENGTH, BETA)


class RepriseVector:
    """Steps of W4 as transitions, of 256 environments in one call, in episodes of 1024 steps."""

    def __init__(self, size):
        schema = reprise.Schema().observation("state", np.float32, (4,)).column("action", np.int32)
        self.replay = reprise.ReplayBuffer(schema.reward(), size, selectors=SELECTOR)
        self.writers = self.replay.vector_writer(ENVIRONMENTS, autoreset="same_step")
        random = np.random.default_rng(7)
        self.states = list(random.random((SOURCES, ENVIRONMENTS, 4), np.float32))
        self.actions = list(random.integers(2, size=(SOURCES, ENVIRONMENTS), dtype=np.int32))
        self.rewards = np.ones(ENVIRONMENTS, np.float32)
        self.final = {"state": random.random((ENVIRONMENTS, 4), np.float32)}
        # In every fourth call one environment's episode ends, so each ends once in 1024 calls.
        self.ends = np.zeros((4 * ENVIRONMENTS, ENVIRONMENTS), np.uint8)
        self.ends[::4][np.arange(ENVIRONMENTS), np.arange(ENVIRONMENTS)] = 1
        self.ends = list(self.ends)
        self.calls = 0
        self.writers.begin(state=self.states[0])
        while self.calls * ENVIRONMENTS < size + size // 4:
            self.append()
        if len(self.replay) != size:
            raise RuntimeError("the buffer did not fill")

    def append(self):
        self.calls += 1
        self.writers.append(
            action=self.actions[self.calls % SOURCES],
            reward=self.rewards,
            next_state=self.states[self.calls % SOURCES],
            end=self.ends[self.calls % len(self.ends)],
            final=self.final,
        )
