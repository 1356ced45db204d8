"""Buffers that the tests share."""

import numpy as np
import pytest

import reprise


def plain_schema():
    return (
        reprise.Schema().observation("state", np.float32, (2,)).column("action", np.int32).reward()
    )


@pytest.fixture
def schema():
    return plain_schema()


@pytest.fixture
def buffer():
    """4096 steps of single transitions in one shard, so that draws see all of them."""
    made = reprise.ReplayBuffer(
        plain_schema(),
        4096,
        window=reprise.Transitions(n_step=1, discount=0.5),
        selectors=reprise.Uniform(),
        shards=1,
    )
    yield made
    made.close()


def fill(buffer, steps, first=0.0):
    """One episode whose state counts up from `first`, with action i and reward i at step i."""
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
    """A batch of each item once, in the order of their positions, as a dict of copies."""
    n = len(buffer)
    batch = buffer.sampler().sample(n, draws="without_replacement", timeout=0)
    order = np.lexsort((batch.positions, batch.episode_ids))
    copy = {name: batch[name][order].copy() for name in batch.keys()}
    for name in ("item_keys", "episode_ids", "positions", "lengths", "discounts", "probabilities"):
        copy["." + name] = getattr(batch, name)[order].copy()
    copy[".returns"] = {name: value[order].copy() for name, value in batch.returns.items()}
    return copy
