"""Full buffers, besides those of setups.py, that only bench/python/run measures, and its timed
calls."""

import itertools

import numpy as np
import reprise
from setups import ALPHA, BETA, EPSILON, SOURCES

ENVIRONMENTS = 256
WINDOWS, LENGTH = 5000, 8

SELECTOR = reprise.Proportional(alpha=ALPHA, epsilon=EPSILON)


def small_rows(ours):
    """Returns the calls to time on `ours`, a rivals.Reprise, with as little Python as possible
    around them."""
    sample, update, append = ours.sampler.sample, ours.replay.update_priorities, ours.writer.append
    priorities = itertools.cycle(ours.batches[512])
    one_priority = itertools.cycle([each[:1] for each in ours.batches[512]])
    rows = itertools.cycle([(r["act"].item(), r["rew"].item(), r["next_obs"]) for r in ours.rows])

    def cycle():
        update(sample(512, beta=BETA).item_keys, next(priorities))

    def cycle_of_one():
        update(sample(1, beta=BETA).item_keys, next(one_priority))

    def one_append():
        action, reward, after = next(rows)
        append(act=action, rew=reward, next_obs=after, end=0)

    return {"cycle": cycle, "cycle_of_one": cycle_of_one, "append": one_append}


def schema():
    """Returns the schema of Chen and Wang's steps: four floats, an action and a reward."""
    made = reprise.Schema().observation("state", np.float32, (4,)).column("action", np.int32)
    return made.reward()


class Steps:
    """The buffer of W4: windows of eight consecutive steps, and episodes whose items have random
    priorities."""

    def __init__(self, size, episode):
        random = np.random.default_rng(7)
        self.states = list(random.random((SOURCES, 4), np.float32))
        self.actions = random.integers(2, size=SOURCES).tolist()
        self.episode, self.steps = episode, 0
        window = reprise.Sequences(length=LENGTH, period=1)
        self.replay = reprise.ReplayBuffer(schema(), size, window=window, selectors=SELECTOR)
        self.writer = self.replay.writer()
        source = np.arange(episode + 1) % SOURCES
        fields = {
            "state": np.array(self.states)[source],
            "action": np.array(self.actions, np.int32)[source[:-1]],
            "reward": np.ones(episode, np.float32),
        }
        for _ in range(-(-(size + size // 4) // episode)):
            self.writer.append_episode(**fields, priorities=random.random(episode, np.float32))
        if len(self.replay) != size:
            raise RuntimeError("the buffer did not fill")
        self.sampler = self.replay.sampler(seed=1)

    def record_100(self):
        for _ in range(100):
            at = self.steps % SOURCES
            if self.steps % self.episode == 0:
                self.writer.begin_episode(state=self.states[at])
            self.steps += 1
            self.writer.append(
                action=self.actions[at],
                reward=1.0,
                next_state=self.states[at - SOURCES + 1],
                end=1 if self.steps % self.episode == 0 else 0,
            )

    def get_5000(self):
        self.sampler.sample(WINDOWS, beta=BETA)


class Vector:
    """W4's steps as transitions, in episodes of 1024 steps. One call appends a step of 256
    environments."""

    def __init__(self, size):
        self.replay = reprise.ReplayBuffer(schema(), size, selectors=SELECTOR)
        self.writers = self.replay.vector_writer(ENVIRONMENTS, autoreset="same_step")
        random = np.random.default_rng(7)
        self.states = list(random.random((SOURCES, ENVIRONMENTS, 4), np.float32))
        self.actions = list(random.integers(2, size=(SOURCES, ENVIRONMENTS), dtype=np.int32))
        self.rewards = np.ones(ENVIRONMENTS, np.float32)
        self.final = {"state": random.random((ENVIRONMENTS, 4), np.float32)}
        # Every fourth call ends the episode of one environment, of each after 4 * 256 calls.
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
