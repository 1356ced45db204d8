"""Measures one load of loads.py with one package in this process, for bench/python/records. Prints
a line of JSON: the processor seconds that the appends of one second of the load take, those of its
batches, and the times of batches. All runs on one core."""

import gc
import importlib
import json
import os
import resource
import sys
import time

import numpy as np
from loads import Load

ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-4
SOURCES = 64  # Number of places in the pool of random rows at which appends begin in turn.
EPISODE, STAGGER = 1000, 97  # Steps of an episode; calls between two environments' ends.
BLOCK = 4096  # Number of rows per call while another package's buffer is filled.
MIN_BATCHES = 10  # Number of batches that are measured at least, however slow they are.


class Subject:
    """A full buffer, and random rows for it."""

    def __init__(self, load):
        self.load, self.calls, self.due = load, 0, 0.0
        random = np.random.default_rng(7)
        many = load.environments + SOURCES
        pools = {
            "reward": random.random(many, np.float32),
            "column": random.random((many, load.column), np.float32),
            "state": random.random((many, load.state), np.float32),
            "observation": random.integers(256, size=(many, load.observation), dtype=np.uint8),
        }
        self.pools = {name: pool for name, pool in pools.items() if pool.size}
        self.priorities = [random.random(load.items, np.float32) for _ in range(SOURCES)]
        self.numbers = STAGGER * np.arange(load.environments)

    def rows(self):
        """Returns a step of each environment, and for each environment whether the step ends an
        episode."""
        self.calls += 1
        at = self.calls % SOURCES
        rows = {name: pool[at : at + self.load.environments] for name, pool in self.pools.items()}
        return rows, (self.calls + self.numbers) % EPISODE == 0

    def append_share(self):
        """Appends the steps that come between two batches."""
        self.due += self.load.steps / self.load.batches
        while self.due >= self.load.environments:
            self.append(*self.rows())
            self.due -= self.load.environments

    def next_priorities(self):
        self.calls += 1
        return self.priorities[self.calls % SOURCES]


class Reprise(Subject):
    def __init__(self, load):
        super().__init__(load)
        import reprise

        schema = reprise.Schema().reward().column("column", np.float32, (load.column,))
        if load.observation:
            schema.observation("observation", np.uint8, (load.observation,))
        if load.state:
            schema.recurrent_state("state", np.float32, (load.state,))
        common = {"n_step": load.n_step, "frame_stack": load.stack}
        if load.length:
            window = reprise.Sequences(load.length, load.period, end=load.end, **common)
        else:
            window = reprise.Transitions(**common | {"n_step": max(1, load.n_step)})
        by_priority = reprise.Proportional(alpha=ALPHA, epsilon=EPSILON)
        self.replay = reprise.ReplayBuffer(
            schema,
            load.capacity,
            window=window,
            selectors=by_priority if load.prioritized else reprise.Uniform(),
            max_writers=load.environments + 1,
        )
        self.sampler = self.replay.sampler(seed=1, unique_frames=load.observation >= 84 * 84)
        self.fill()

    def fill(self):
        load, steps = self.load, self.load.capacity + self.load.capacity // 8
        self.writers = self.replay.vector_writer(load.environments, autoreset="same_step")
        if load.observation:
            self.writers.begin(observation=self.pools["observation"][: load.environments])
        else:
            self.writers.begin()
        if load.environments > 1:
            for _ in range(steps // load.environments):
                self.append(*self.rows())
            return
        episode = {
            name: np.resize(pool, (EPISODE + (name == "observation"), *pool.shape[1:]))
            for name, pool in self.pools.items()
        }
        with self.replay.writer() as writer:
            for _ in range(steps // EPISODE):
                writer.append_episode(**episode)

    def append(self, rows, ends):
        final = {}
        if "observation" in rows:
            rows["next_observation"] = final["observation"] = rows.pop("observation")
        self.writers.append(**rows, end=ends.astype(np.uint8), final=final)

    def draw(self):
        batch = self.sampler.sample(self.load.items, beta=BETA)
        if self.load.prioritized:
            self.replay.update_priorities(batch.item_keys, self.next_priorities())


class Whole(Subject):
    """A package that stores both observations of a transition with their stacks, and takes n-step
    returns as they are. Its capacity is at most what fits into `most` bytes."""

    most = 4 << 30

    def __init__(self, load):
        super().__init__(load)
        observation = self.pools.pop("observation", None)
        if observation is not None:
            stacks = np.tile(observation, (1, load.stack))
            self.pools["obs"] = self.pools["next_obs"] = stacks
            if load.length:
                del self.pools["next_obs"]
        row = sum(pool[0].nbytes for pool in self.pools.values())
        self.capacity = min(load.capacity, self.most // row)
        self.make()
        for first in range(0, self.capacity, BLOCK):
            at = np.arange(first, min(first + BLOCK, self.capacity))
            rows = {name: pool[at % len(pool)] for name, pool in self.pools.items()}
            self.append(rows, at % EPISODE == EPISODE - 1)


class Cpprb(Whole):
    def make(self):
        import cpprb

        if self.load.length:
            raise NotImplementedError("it has no sequences")
        env = {
            name: {"shape": pool.shape[1:] or 1, "dtype": pool.dtype}
            for name, pool in self.pools.items()
        }
        env["done"] = {}
        if self.load.prioritized:
            self.buffer = cpprb.PrioritizedReplayBuffer(
                self.capacity, env, alpha=ALPHA, eps=EPSILON
            )
        else:
            self.buffer = cpprb.ReplayBuffer(self.capacity, env)

    def append(self, rows, ends):
        self.buffer.add(**rows, done=ends)

    def draw(self):
        if self.load.prioritized:
            batch = self.buffer.sample(self.load.items, BETA)
            self.buffer.update_priorities(batch["indexes"], self.next_priorities())
        else:
            self.buffer.sample(self.load.items)


class Torchrl(Whole):
    def make(self):
        import torch
        from torchrl.data import (
            LazyTensorStorage,
            PrioritizedSampler,
            RandomSampler,
            SliceSampler,
            TensorDictReplayBuffer,
        )

        torch.set_num_threads(1)
        load, self.steps = self.load, 0
        if load.length and load.prioritized:
            raise NotImplementedError("not set up for sequences by priority")
        if load.length:
            sampler = SliceSampler(
                num_slices=load.items,
                end_key=None,
                traj_key="episode",
                truncated_key=None,
                strict_length=True,
                cache_values=not load.steps,  # Cached values are wrong once steps are added.
            )
        elif load.prioritized:
            sampler = PrioritizedSampler(self.capacity, alpha=ALPHA, beta=BETA, eps=EPSILON)
        else:
            sampler = RandomSampler()
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(self.capacity),
            sampler=sampler,
            batch_size=load.items * max(1, load.length),
        )

    def append(self, rows, ends):
        import torch
        from tensordict import TensorDict

        made = {name: torch.from_numpy(each) for name, each in rows.items()}
        made["done"] = torch.from_numpy(ends)
        if self.load.length:
            made["episode"] = torch.arange(self.steps, self.steps + len(ends)) // EPISODE
            self.steps += len(ends)
        self.buffer.extend(TensorDict(made, [len(ends)]))

    def draw(self):
        batch = self.buffer.sample()
        if self.load.prioritized:
            import torch

            self.buffer.update_priority(batch["index"], torch.from_numpy(self.next_priorities()))


SUBJECTS = {"reprise": Reprise, "cpprb": Cpprb, "torchrl": Torchrl}


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure(subject, seconds):
    """Appends the steps between two batches and draws a batch, in turn for `seconds`. Returns the
    processor seconds that the appends and the batches of one second of the load take, and quantiles
    of a batch's time."""
    appends, batches, times, begin = 0.0, 0.0, [], time.perf_counter()
    subject.draw()  # The first batch allocates its memory.
    while len(times) < MIN_BATCHES or time.perf_counter() - begin < seconds:
        clocks = [time.process_time()]
        subject.append_share()
        clocks += [time.process_time(), time.perf_counter()]
        subject.draw()
        times.append(time.perf_counter() - clocks[2])
        appends += clocks[1] - clocks[0]
        batches += time.process_time() - clocks[1]
    per_second = subject.load.batches / len(times)
    p50, p99 = np.quantile(times, (0.5, 0.99)) * 1e6
    shares = {"appends": appends * per_second, "batches": batches * per_second}
    return shares | {"p50_us": p50, "p99_us": p99}


def main():
    name, load, seconds = json.loads(sys.argv[1])
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.disable()
    try:
        importlib.import_module("torchrl.data" if name == "torchrl" else name)
        before = resident_bytes()
        subject = SUBJECTS[name](Load(**load))
        grown = resident_bytes() - before
    except (ImportError, NotImplementedError) as error:
        print(json.dumps({"skipped": str(error)}))
        return
    capacity = getattr(subject, "capacity", subject.load.capacity)
    found = measure(subject, seconds)
    found |= {"capacity": capacity, "bytes": grown / capacity}
    print(json.dumps(found), flush=True)
    os._exit(0)  # Some packages take long to end.


main()
