"""Buffers and steps that many tests use."""

import numpy as np

import reprise


def plain_schema():
    return (
        reprise.Schema().observation("state", np.float32, (2,)).column("action", np.int32).reward()
    )


def plain_buffer(steps=100, **options):
    return reprise.ReplayBuffer(plain_schema(), steps, **options)


def fill(buffer, steps, first=0.0):
    """Appends an episode whose state counts up from `first`; the action and reward of step i are
    i."""
    with buffer.writer(timeout=0) as writer:
        writer.begin_episode(state=[first, 0])
        for i in range(steps):
            writer.append(
                action=i,
                reward=i,
                next_state=[first + i + 1, 0],
                end=reprise.End.TRUNCATED if i == steps - 1 else reprise.End.CONTINUE,
            )


def every_item(buffer):
    """Returns a batch of all items, sorted by episode and position, as a dict of copies."""
    n = len(buffer)
    batch = buffer.sampler().sample(n, draws="without_replacement", timeout=0)
    order = np.lexsort((batch.positions, batch.episode_ids))
    copy = {name: batch[name][order].copy() for name in batch.keys()}
    for name in ("item_keys", "episode_ids", "positions", "lengths", "discounts", "probabilities"):
        copy["." + name] = getattr(batch, name)[order].copy()
    copy[".returns"] = {name: value[order].copy() for name, value in batch.returns.items()}
    return copy


def queue_of(size, **options):
    """Returns a buffer whose writers wait while `size` items have not been sampled yet."""
    options = {"selectors": reprise.Fifo(), "max_times_sampled": 1, "max_writers": 1, **options}
    return plain_buffer(1000, rate_limiter=reprise.Queue(size), **options)


STEP = {"action": 0, "reward": 0, "next_state": [0, 0]}


def append_until_held(writer):
    """Appends steps until the limiter has no room; returns their number."""
    for i in range(1000):
        try:
            writer.append(action=i, reward=0, next_state=[i, 0])
        except TimeoutError:
            return i
    raise AssertionError("the queue never held the writer")
