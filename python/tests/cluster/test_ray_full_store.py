"""reprise.ray while other programs have filled Ray's object store."""

import random
import threading
import time

import numpy as np
import pytest

from testing.ray_cluster import ray, SECONDS, STORE_BYTES, make, started, scaled_count, wait_for

import reprise

BYTES = 1 << 20  # The size of an observation.


@pytest.fixture(scope="module", params=[True, False], ids=["spills", "does not spill"])
def cluster(request):
    """A cluster whose store makes room by writing objects to a disk ("spills"), or that must not do
    so."""
    never = {"automatic_object_spilling_enabled": False, "local_fs_capacity_threshold": 0.0}
    with started(_system_config={} if request.param else never) as made:
        made.spills = request.param
        yield made


FULL = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)


def fill(most):
    """Fills the object store with up to `most` bytes; returns the references that hold them."""
    held = []
    for piece in (8 << 20, 1 << 20):
        try:
            while most >= piece:
                held.append(ray.put(np.zeros(piece, np.uint8)))
                most -= piece
        except FULL:
            continue
    return held


def append(writer, first, last):
    if not writer.in_episode:
        writer.begin_episode(at=np.full(BYTES, first, np.uint8))
    for i in range(first, last):
        writer.append(reward=i, next_at=np.full(BYTES, i + 1, np.uint8))


def test_draws_and_appends_wait_until_there_is_room(cluster, monkeypatch):
    monkeypatch.setenv("REPRISE_RAY_DIRECT", "0")  # Without connections answers use the store.
    schema = reprise.Schema().observation("at", np.uint8, (BYTES,)).reward()
    with make(512, schema, selectors=reprise.Uniform(), answer_timeout=SECONDS) as replay:
        writers = [replay.writer(timeout=SECONDS) for _ in range(2)]
        for writer in writers:
            append(writer, 0, 20)
            writer.flush(SECONDS)
        sampler = replay.sampler()
        for repetition in range(scaled_count(2)):
            drawn, failures = [0], []

            def draw():
                try:
                    while not stop.is_set():
                        batch = sampler.sample(16, timeout=SECONDS)
                        rewards = batch.returns["reward"].astype(np.uint8)
                        assert np.array_equal(batch["at"][:, 0], rewards)
                        drawn[0] += 1
                except BaseException as error:
                    failures.append(error)

            stop, thread = threading.Event(), threading.Thread(target=draw, daemon=True)
            thread.start()
            time.sleep(random.Random(repetition).uniform(0.0, 0.5))
            held = fill(72 << 20 if cluster.spills else STORE_BYTES)
            first = 20 + 5 * repetition
            for writer in writers:
                append(writer, first, first + 5)

            def was_full():
                # Again, because answers that were read have made room.
                held.extend(fill(STORE_BYTES))
                return replay.stats()["full_object_store"] or failures

            if not cluster.spills:
                wait_for(was_full)
            held.clear()
            for writer in writers:
                writer.flush(SECONDS)
            before = drawn[0]
            wait_for(lambda: drawn[0] > before + 3 or failures)
            stop.set()
            thread.join(SECONDS)
            assert not failures and not thread.is_alive()
        stats = replay.stats()
        assert stats["committed_steps"] == 2 * (20 + 5 * scaled_count(2))
        assert stats["lost_shards"] == stats["lost_in_flight_steps"] == 0
