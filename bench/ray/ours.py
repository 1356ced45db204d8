"""Measures reprise.ray, and the same calls in one process, for bench/ray/run."""

import contextlib
import os
import time

import numpy as np
import ray
import reprise
import reprise.ray
from rivals import ALPHA, BATCH, BETA, EPISODE, columns

SELECTOR = reprise.Proportional(alpha=ALPHA)
ENVIRONMENTS = 64  # Number of environments per writing process.
PACE = 300e3  # Steps per second of both writing processes together.
LOOP = 20e-6  # Seconds of an idle loop, about those of an append. See _write.
FRAME_BYTES = 84 * 84
FRAMES = 5  # The frames of an item: a stack of four and the next frame.


@contextlib.contextmanager
def only_calls_of_ray():
    """Makes learners call shards through Ray, as if the shards were on other nodes."""
    os.environ["REPRISE_RAY_DIRECT"] = "0"
    try:
        yield
    finally:
        del os.environ["REPRISE_RAY_DIRECT"]


def small_rows():
    schema = reprise.Schema().observation("state", np.uint8, (32,))
    return schema.column("action", np.int32).reward()


def fill(replay, steps, shards):
    """Fills all shards evenly with episodes, because each new writer begins with the next shard."""
    states, actions, rewards = columns(EPISODE, 1)
    writers = [replay.writer() for _ in range(shards)]
    for i in range(-(-steps // EPISODE)):
        writers[i % shards].append_episode(
            state=states, action=actions.astype(np.int32), reward=rewards
        )
    for one in writers:
        one.close()


class Rows:
    """A full buffer of small rows in shards, whose batches are drawn ahead."""

    def __init__(self, steps, shards, batch=BATCH):
        self.replay = reprise.ray.ReplayBuffer(
            small_rows(), steps, shards=shards, selectors=SELECTOR
        )
        fill(self.replay, steps, shards)
        self._batches = self.replay.prefetch(batch, beta=BETA)

    def cycle(self, priorities):
        batch = next(self._batches)
        self.replay.update_priorities(batch.item_keys, priorities)
        return batch

    def close(self):
        self._batches.close()
        self.replay.close()


def in_process_batch(steps, rate):
    """Seconds of the same cycle in one process."""
    replay = reprise.ReplayBuffer(small_rows(), steps, selectors=SELECTOR)
    fill(replay, steps, 1)
    sampler = replay.sampler(seed=1)
    priorities = np.random.default_rng(3).random(BATCH, np.float32)

    def cycle():
        batch = sampler.sample(BATCH, beta=BETA)
        replay.update_priorities(batch.item_keys, priorities)

    return 1 / rate(cycle)


def _processor_seconds(replay):
    """Processor seconds of this process, and of all shards' processes together."""
    # The function runs in the shard's process, and returns the time of that process.
    shards = [one.__ray_call__.remote(lambda _: time.process_time()) for one in replay._actors]
    return np.array([time.process_time(), sum(ray.get(shards))])


def batch_seconds(replay, cycle, seconds):
    """Processor seconds of a cycle, in this process and in all shards."""
    cycle()
    before, calls, begin = _processor_seconds(replay), 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        cycle()
        calls += 1
    return (_processor_seconds(replay) - before) / calls


def costs(arguments, rate):
    """Processor seconds of each call, which bench/ray/simulate calculates with. Batches have 512
    items, on four shards. A batch on one shard tells what a further shard costs, and a larger batch
    what an item costs."""

    def batch(shards, n):
        subject = Rows(arguments.rows, shards, n)
        priorities = np.random.default_rng(3).random(n, np.float32)
        try:
            return batch_seconds(
                subject.replay, lambda: subject.cycle(priorities), arguments.seconds
            )
        finally:
            subject.close()

    four, one, large = batch(4, BATCH), batch(1, BATCH), batch(4, 8 * BATCH)
    item = np.maximum(large - four, 0) / (7 * BATCH)
    shard = np.maximum(four - one, 0) / 3
    return {
        "in_process_batch": in_process_batch(arguments.rows, rate),
        "learner_batch": four[0],
        "shard_batch": four[1],
        "learner_per_shard": shard[0],
        "learner_per_item": item[0],
        "shard_per_call": max((four[1] - BATCH * item[1]) / 4, 0.0),
        "shard_per_item": item[1],
        "item_bytes": 2 * 32 + 4 + 4 + 4 + 8 + 8,  # Two states, action, reward, discount, key, P.
    }


def frames(arguments, rate):
    """GB/s of distinct frames in batches of stacks of four, and processor seconds for a byte."""
    schema = reprise.Schema().observation("frame", np.uint8, (84, 84))
    schema.column("action", np.int32).reward()
    window = reprise.Transitions(frame_stack=4)
    steps, batch = min(arguments.rows, 16_384), 256
    replay = reprise.ray.ReplayBuffer(schema, steps, shards=4, window=window, selectors=SELECTOR)
    episode = {
        "frame": np.random.default_rng(1).integers(256, size=(129, 84, 84), dtype=np.uint8),
        "action": np.zeros(128, np.int32),
        "reward": np.zeros(128, np.float32),
    }
    writers = [replay.writer() for _ in range(4)]
    for i in range(steps // 128):
        writers[i % 4].append_episode(**episode)
    for one in writers:
        one.close()
    batches = replay.prefetch(batch, beta=BETA, unique_frames=True)
    size = batch * FRAMES * FRAME_BYTES
    found = {"gb_per_second": rate(lambda: next(batches)) * size / 1e9}
    learner, shards = batch_seconds(replay, lambda: next(batches), arguments.seconds)
    found |= {"learner_per_byte": learner / size, "shard_per_byte": shards / size}
    batches.close()
    replay.close()
    return found


@ray.remote(num_cpus=0)
def _write(replay, seconds, pace=0):
    """Writes for `seconds`, `pace` steps per second (0: as fast as it can). Returns steps per
    second, the times of the calls, the times of an idle loop of LOOP seconds after each, and the
    processor time of a step. A loop that takes longer than LOOP shows that other processes had the
    processor."""
    states, actions, rewards = columns(ENVIRONMENTS, 2)
    step = {
        "action": actions.astype(np.int32),
        "reward": rewards,
        "next_state": states[1:],
        "end": np.zeros(ENVIRONMENTS, np.uint8),
    }
    last = step | {"end": np.full(ENVIRONMENTS, reprise.End.TRUNCATED, np.uint8)}
    writers = replay.vector_writer(ENVIRONMENTS, autoreset="same_step")
    writers.begin(state=states[1:])
    times, loops = [], []
    begin, processor = time.perf_counter(), time.process_time()
    while (now := time.perf_counter() - begin) < seconds:
        due = len(times) * ENVIRONMENTS / pace if pace else 0.0
        if due > now:
            time.sleep(due - now)
        if len(times) % EPISODE == EPISODE - 1:
            since = time.perf_counter()
            writers.append(**last, final={"state": states[:-1]})
        else:
            since = time.perf_counter()
            writers.append(**step)
        times.append(time.perf_counter() - since)
        since = time.perf_counter()
        while pace and time.perf_counter() - since < LOOP:
            pass
        loops.append(time.perf_counter() - since)
    writers.close()  # Returns when every step is in a shard.
    steps = len(times) * ENVIRONMENTS
    seconds = time.perf_counter() - begin
    return steps / seconds, times, loops, (time.process_time() - processor) / steps


def writers(arguments):
    """Two processes with vectors of environments write small rows, first as fast as they can, then
    at PACE steps per second in all."""
    replay = reprise.ray.ReplayBuffer(small_rows(), 10 * arguments.rows, shards=4)
    seconds = arguments.seconds * arguments.repetitions
    ray.get([_write.remote(replay, 0.1) for _ in range(2)])
    before = _processor_seconds(replay)
    committed = replay.stats()["committed_steps"]
    fastest = ray.get([_write.remote(replay, seconds) for _ in range(2)])
    shards = (_processor_seconds(replay) - before)[1]
    committed = replay.stats()["committed_steps"] - committed
    paced = ray.get([_write.remote(replay, seconds, PACE / 2) for _ in range(2)])
    replay.close()

    def p999(writers, which=1):
        return float(np.quantile(np.concatenate([writer[which] for writer in writers]), 0.999))

    return {
        "environments": ENVIRONMENTS,
        "steps_per_second": sum(writer[0] for writer in fastest),
        "append_p999": p999(paced),
        "loop_p999": p999(paced, 2),
        "paced_steps_per_second": sum(writer[0] for writer in paced),
        "append_p999_flat_out": p999(fastest),
        "writer_per_step": float(np.mean([writer[3] for writer in fastest])),
        "shard_per_step": shards / max(committed, 1),
        "step_bytes": 32 + 4 + 4,
    }
