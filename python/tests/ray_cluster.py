"""Clusters of several nodes on this machine, and the buffers that tests of reprise.ray share."""

import contextlib
import os
import signal
import time

# Before Ray is imported, which reads them.
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
# Workers import this module, from which functions of tests have others.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")]
)

import numpy as np
import pytest

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

import reprise
import reprise.ray

STORE_BYTES = 80 << 20
# How much of the repetitions to do. Everything, with the soak:
# REPRISE_TEST_SCALE=12 REPRISE_RAY_SOAK_MINUTES=10 python -m pytest python/tests/test_ray*.py
SCALE = float(os.environ.get("REPRISE_TEST_SCALE", "1"))


def times(n):
    return max(1, round(n * SCALE))


@contextlib.contextmanager
def started(nodes=0, **options):
    """A cluster of a head, on which this process is, and nodes of one processor each, which have
    resources "a0", "a1" and so on."""
    made = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 4,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            **options,
        },
    )
    try:
        made.extra = [add_node(made, i) for i in range(nodes)]
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def add_node(cluster, i):
    return cluster.add_node(num_cpus=2, resources={f"a{i}": 4}, object_store_memory=STORE_BYTES)


def numbered_schema():
    """Steps that say who made them, and which one they are."""
    return (
        reprise.Schema()
        .observation("at", np.int64)
        .column("writer", np.int64)
        .column("step", np.int64)
        .reward()
    )


def make(steps=10_000, **options):
    options.setdefault("answer_timeout", 3.0)
    options.setdefault("shards", 2)
    options.setdefault("selectors", reprise.Proportional(alpha=1.0, epsilon=0.0))
    return reprise.ray.ReplayBuffer(numbered_schema(), steps, **options)


def append(writer, who, first, last):
    """Steps first to last - 1 of one episode of a writer, begun if it is not under way."""
    if not writer.in_episode:
        writer.begin_episode(at=first)
    for i in range(first, last):
        writer.append(writer=who, step=i, reward=i, next_at=i + 1)


def filled(replay, steps=300):
    """The buffer, with an episode in each of two shards."""
    for who in range(2):
        with replay.writer() as writer:
            append(writer, who, 0, steps)
    return replay


def check(batch):
    """What each item holds belongs together."""
    assert np.array_equal(batch["at"], batch["step"])
    assert np.array_equal(batch["next_at"], batch["step"] + 1)
    assert np.array_equal(batch.returns["reward"], batch["step"].astype(np.float32))
    assert np.all(batch.probabilities > 0)
    assert np.all(batch.weights > 0) and batch.weights.max() == 1


def most_ahead(limiter, shards=2):
    """Items by which the sums of a ratio may be off at any moment: the bound; a shipment of each
    shard that is counted and in no shard yet, or was taken back as the head was late; the rest of
    a block."""
    return limiter.error_buffer * (1 + shards / 2) + 4 * limiter.samples_per_insert


def kill_shard(replay, shard):
    os.kill(replay.stats()["shards"][shard]["pid"], signal.SIGKILL)


def wait_for(condition, seconds=60.0):
    """Until a condition holds; fails the test if it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def all_alive(replay):
    return replay.shards_alive == len(replay._actors)
