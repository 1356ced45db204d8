"""Clusters of several nodes on this machine, and the buffers that tests of reprise.ray share."""

import contextlib
import os
import signal
import time
from pathlib import Path

# Before Ray is imported, which reads them.
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 else, below all other work.
# Workers import this module and those of the tests, whose functions they run.
TESTS = Path(__file__).resolve().parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(TESTS), str(TESTS / "cluster"), os.environ.get("PYTHONPATH", "")]
)

import numpy as np
import pytest

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

import reprise
import reprise.ray
from reprise.ray._coordinator import Coordinator
from reprise.ray._options import spec_of

STORE_BYTES = 80 << 20
SECONDS = 180.0  # Waits end then because something is wrong, and not because a machine is slow.
# How much of the repetitions to do. Everything, with the soak:
# REPRISE_TEST_SCALE=12 REPRISE_RAY_SOAK_MINUTES=10 python -m pytest python/tests/cluster
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


# Longer than processes take to start, or stand still, on a machine that is busy. A test whose shards
# are to be asked again, or taken out, has an answer_timeout of its own.
PATIENT = {"answer_timeout": 30.0, "start_timeout": SECONDS}


def make(steps=10_000, schema=None, **options):
    options.setdefault("shards", 2)
    options.setdefault("selectors", reprise.Proportional(alpha=1.0, epsilon=0.0))
    return reprise.ray.ReplayBuffer(schema or numbered_schema(), steps, **{**PATIENT, **options})


def append(writer, who, first, last):
    """Steps first to last - 1 of one episode of a writer, begun if it is not under way."""
    if not writer.in_episode:
        writer.begin_episode(at=first)
    for i in range(first, last):
        writer.append(writer=who, step=i, reward=i, next_at=i + 1)


def record(replay, who, first, last):
    """Steps of an episode, by a writer of its own, which are in a shard then."""
    writer = replay.writer(timeout=SECONDS)
    append(writer, who, first, last)
    writer.close(SECONDS)


def filled(replay, steps=300):
    """The buffer, with an episode in each of two shards."""
    for who in range(2):
        record(replay, who, 0, steps)
    return replay


def append_until_no_room(writer):
    """Steps of an episode until the rate limiter has no room for more; returns how many. An append
    that timed out took nothing, and another reason to wait passes."""
    taken, said = 0, ""
    while "the rate limiter has no room" not in said:
        assert taken < 2000, "it has room"
        try:
            append(writer, 0, taken, taken + 1)
            taken += 1
        except TimeoutError as error:
            said = str(error)
    return taken


def check(batch):
    """What each item holds belongs together."""
    assert np.array_equal(batch["at"], batch["step"])
    assert np.array_equal(batch["next_at"], batch["step"] + 1)
    assert np.array_equal(batch.returns["reward"], batch["step"].astype(np.float32))
    assert np.all(batch.probabilities > 0)
    assert np.all(batch.weights > 0) and batch.weights.max() == 1


def most_ahead(limiter, shards=2):
    """Items by which the counts of a ratio may be off at any moment, however late answers are: the
    bound, and for each shard what one call ships of a writer, four shipments of at most half of the
    bound. They are counted before they are in, and taken back if the coordinator was late; until there
    are `min_size` items they do not wait for the ratio."""
    return limiter.error_buffer * (1 + 2 * shards) + 4 * limiter.samples_per_insert


def kill_shard(replay, shard):
    os.kill(replay.stats()["shards"][shard]["pid"], signal.SIGKILL)


def wait_for(condition, seconds=SECONDS):
    """Until a condition holds; fails the test if it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def all_alive(replay):
    return replay.shards_alive == len(replay._actors)


def spec(shards=1, steps=1000, **options):
    """What a buffer of these options is made of, without a cluster."""
    return spec_of(numbered_schema(), steps, "alone", shards, "learner", 1.0, False, options)


def lone_coordinator(limiter, steps=1000):
    """A coordinator in this process, of one shard that has started."""
    made = Coordinator(spec(steps=steps, rate_limiter=limiter))
    made.begin()
    made.started(0, 1, 0, "")
    return made


def pid_of(actor):
    return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=SECONDS)
