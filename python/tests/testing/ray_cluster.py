"""Clusters of several nodes on this machine, and the buffers that tests of reprise.ray share."""

import contextlib
import os
import signal
import time
from pathlib import Path

# Ray reads these when it is imported.
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
# With Ray's default of 15 workers would wait for all other work of the machine.
os.environ.setdefault("RAY_worker_niceness", "0")
# Workers run functions of the tests, so they import this module and those of the tests.
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
SECONDS = 180.0  # A slow machine needs less, so a wait that takes as long has failed.
# The share of repetitions to do. To run everything, with the soak:
# REPRISE_TEST_SCALE=12 REPRISE_RAY_SOAK_MINUTES=10 python -m pytest python/tests/cluster
SCALE = float(os.environ.get("REPRISE_TEST_SCALE", "1"))


def scaled_count(n):
    return max(1, round(n * SCALE))


@contextlib.contextmanager
def started(nodes=0, **options):
    """Starts a cluster with a head node for this process, and `nodes` nodes with the resources
    "a0", "a1" and so on."""
    cluster = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 4,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            **options,
        },
    )
    try:
        cluster.extra = [add_node(cluster, i) for i in range(nodes)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add_node(cluster, i):
    return cluster.add_node(num_cpus=2, resources={f"a{i}": 4}, object_store_memory=STORE_BYTES)


def numbered_schema():
    """Returns a schema for steps that hold the number of their writer and their own number."""
    return (
        reprise.Schema()
        .observation("at", np.int64)
        .column("writer", np.int64)
        .column("step", np.int64)
        .reward()
    )


# Timeouts for a busy machine. Tests in which requests are repeated or shards are lost set shorter
# ones.
PATIENT = {"answer_timeout": 30.0, "start_timeout": SECONDS}


def make(steps=10_000, schema=None, **options):
    options.setdefault("shards", 2)
    options.setdefault("selectors", reprise.Proportional(alpha=1.0, epsilon=0.0))
    return reprise.ray.ReplayBuffer(schema or numbered_schema(), steps, **{**PATIENT, **options})


def append(writer, who, first, last):
    """Appends steps first to last - 1 of writer `who`, and begins an episode if none is open."""
    if not writer.in_episode:
        writer.begin_episode(at=first)
    for i in range(first, last):
        writer.append(writer=who, step=i, reward=i, next_at=i + 1)


def append_and_wait(replay, who, first, last):
    """Appends steps of an episode with a new writer, and waits until a shard has them."""
    writer = replay.writer(timeout=SECONDS)
    append(writer, who, first, last)
    writer.close(SECONDS)


def filled(replay, steps=300):
    """Fills a buffer with an episode in each of two shards, and returns it."""
    for who in range(2):
        append_and_wait(replay, who, 0, steps)
    return replay


def append_until_no_room(writer):
    """Appends steps until the rate limiter has no room for more; returns their number. An append
    that times out for another reason is made again."""
    taken, message = 0, ""
    while "the rate limiter has no room" not in message:
        assert taken < 2000, "the rate limiter never held the writer"
        try:
            append(writer, 0, taken, taken + 1)
            taken += 1
        except TimeoutError as error:
            message = str(error)
    return taken


def check(batch):
    """Checks that the fields of each item belong to one step."""
    assert np.array_equal(batch["at"], batch["step"])
    assert np.array_equal(batch["next_at"], batch["step"] + 1)
    assert np.array_equal(batch.returns["reward"], batch["step"].astype(np.float32))
    assert np.all(batch.probabilities > 0)
    assert np.all(batch.weights > 0) and batch.weights.max() == 1


def max_ahead(limiter, shards=2):
    """Returns by how many items the two counts of a ratio may be apart at any moment. That is the
    error buffer, and per shard the four shipments that a writer may have under way, each of at most
    half the error buffer. (A shipment is counted before it is appended, and taken back if the
    coordinator answers late.) Added are the samples of a block of four granted steps. Up to
    `min_size` items shipments do not wait for the ratio, and this bound does not hold."""
    return limiter.error_buffer * (1 + 2 * shards) + 4 * limiter.samples_per_insert


def kill_shard(replay, shard):
    os.kill(replay.stats()["shards"][shard]["pid"], signal.SIGKILL)


def wait_for(condition, seconds=SECONDS):
    """Waits until a condition holds; fails the test if it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.02)


def all_alive(replay):
    return replay.shards_alive == len(replay._actors)


def spec(shards=1, steps=1000, **options):
    """Returns the coordinator's description of a buffer with these options, without a cluster."""
    return spec_of(numbered_schema(), steps, "alone", shards, "learner", 1.0, options)


def local_coordinator(limiter, steps=1000):
    """A coordinator in this process, of one shard that has started."""
    coordinator = Coordinator(spec(steps=steps, rate_limiter=limiter))
    coordinator.begin()
    coordinator.started(0, 1, 0, "")
    return coordinator


class _Late:
    """A ReplayShard that answers the next `times` calls named `call` late, by `seconds`."""

    def __init__(self, shard, call, seconds, times):
        self._served, self._ended = shard._replay_shard, shard._ended
        self._call, self._seconds, self._late_answers = call, seconds, [None] * times

    def __getattr__(self, name):
        return getattr(self._served, name)

    def exchange(self, request):
        return self._late("exchange", self._served.exchange(request))

    def append_all(self, call, **options):
        return self._late("append", self._served.append_all(call, **options))

    def _late(self, call, answer):
        if call == self._call and self._late_answers:
            self._late_answers.pop()
            self._ended.wait(self._seconds)
        return answer


def _answer_late(shard, *how):
    shard._host.close()  # Breaks direct connections, so that all calls come by Ray.
    shard._replay_shard = _Late(shard, *how)


def delay_answers(actor, call, seconds, times=1):
    """Delays a shard's next `times` answers to a call by `seconds`, after the work of the call."""
    plant = actor.__ray_call__.remote(_answer_late, call, seconds, times)
    ray.get(plant, timeout=SECONDS)


def pid_of(actor):
    """The process id of an actor; None while the actor is being restarted."""
    try:
        return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=SECONDS)
    except ray.exceptions.RayError:
        return None
