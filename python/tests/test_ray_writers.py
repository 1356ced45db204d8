"""reprise.ray: writers that a shard or the rate limiter refuses."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed")

import ray
import reprise
import reprise.ray
from ray_cluster import all_alive, append, check, make, started, wait_for
from reprise.ray._shard import Shipment

SECONDS = 60.0  # No call of these tests may take longer.
LIMITER = reprise.SampleToInsertRatio(samples_per_insert=4.0, min_size=100, error_buffer=400.0)


@pytest.fixture(scope="module")
def cluster():
    with started() as made:
        yield made


def calls_of(replay):
    """The calls that ship, from now on."""
    shipper, calls = replay._process.shipper, []
    ask = shipper._ask
    shipper._ask = lambda flight: (calls.append(flight.shipments), ask(flight))[1]
    return calls


def test_a_writer_beyond_max_writers_is_refused_and_no_other_one_notices(cluster):
    with make(shards=1, max_writers=2, answer_timeout=3.0) as replay:
        writers = [replay.writer() for _ in range(3)]
        for who in (0, 1):
            append(writers[who], who, 0, 50)
            writers[who].flush(SECONDS)
        calls = calls_of(replay)
        append(writers[2], 2, 0, 50)
        wait_for(lambda: writers[2]._box.reason)
        with pytest.raises(TimeoutError, match="50 steps are here, .*max_writers is 2"):
            writers[2].flush(0.1)
        with pytest.raises(RuntimeError, match="max_writers is 2, and that many writers are alive"):
            writers[2].flush(SECONDS)
        assert 2 < len([one for one in calls if one]) < 20  # Seldom, as nothing changes.
        for who in (0, 1):
            append(writers[who], who, 50, 100)
            writers[who].flush(SECONDS)
        stats = replay.stats()
        assert stats["restarted_episodes"] == stats["silent_writers_closed"] == 0
        assert stats["committed_steps"] == 200
        writers[0].close()

        def there():
            try:
                writers[2].flush(SECONDS)
            except RuntimeError:
                return False
            return True

        wait_for(there)
        assert replay.stats()["committed_steps"] == 250
        # Of a writer that ends without a place, what is lost is counted.
        with pytest.raises(RuntimeError, match="max_writers is 2"):
            with replay.writer() as writer:
                append(writer, 3, 0, 50)
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] == 50)
        assert replay.stats()["committed_steps"] == 250


def test_the_places_of_a_process_that_was_killed_are_free_in_time(cluster):
    @ray.remote(num_cpus=0)
    class Act:
        def begin(self, replay):
            self.writers = [replay.writer() for _ in range(2)]
            for who, writer in enumerate(self.writers):
                append(writer, who, 0, 50)
                writer.flush(SECONDS)
            return os.getpid()

    with make(shards=1, max_writers=2, answer_timeout=1.0) as replay:
        one = Act.remote()
        os.kill(ray.get(one.begin.remote(replay), timeout=SECONDS), signal.SIGKILL)
        for who in (2, 3):
            with replay.writer() as writer:
                append(writer, who, 0, 50)
        stats = replay.stats()
        assert stats["committed_steps"] == len(replay) == 200  # Their episodes have an end.
        assert stats["silent_writers_closed"] == 2 and stats["restarted_episodes"] == 0


def test_a_process_that_appends_nothing_keeps_its_places(cluster):
    with make(shards=1, max_writers=1, answer_timeout=2.0) as replay:
        kept = replay.writer()
        append(kept, 0, 0, 50)
        kept.flush(SECONDS)
        time.sleep(5.0)

        @ray.remote(num_cpus=0)
        def act(handle):
            with handle.writer() as writer:
                append(writer, 1, 0, 50)

        with pytest.raises(RuntimeError, match="max_writers is 1"):
            ray.get(act.remote(replay), timeout=SECONDS)
        append(kept, 0, 50, 100)
        kept.flush(SECONDS)
        stats = replay.stats()
        assert stats["committed_steps"] == 100
        assert stats["restarted_episodes"] == stats["silent_writers_closed"] == 0


def test_a_task_that_appended_an_episode_keeps_no_place(cluster):
    @ray.remote(num_cpus=0)
    class Act:
        def append(self, handle, who):
            steps = np.arange(20)
            handle.append_episode(
                at=np.arange(21), writer=np.full(20, who), step=steps, reward=steps
            )

    with make(shards=1, max_writers=1, answer_timeout=5.0) as replay:
        actors = [Act.remote() for _ in range(2)]
        for _ in range(3):
            for who, one in enumerate(actors):
                ray.get(one.append.remote(replay, who), timeout=SECONDS)
        stats = replay.stats()
        assert stats["committed_steps"] == len(replay) == 120
        assert stats["restarted_episodes"] == stats["silent_writers_closed"] == 0
        wait_for(lambda: replay.stats()["writers"] == 0)


def test_writers_of_a_lost_shard_are_guests_of_another_one_while_it_is_lost(cluster):
    """They leave their places there when they go home, and wait if there are none."""
    with make(max_writers=2, answer_timeout=1.0) as replay:
        writers = [replay.writer(timeout=SECONDS) for _ in range(4)]
        for who, writer in enumerate(writers):
            append(writer, who, 0, 20)
            writer.flush(SECONDS)
        assert [one["writers"] for one in replay.stats()["shards"]] == [2, 2]
        ray.get(replay._actors[0].fault.remote("append", 3600.0, 2), timeout=20)
        homes = [writer._box.home for writer in writers]
        for who, writer in enumerate(writers):
            append(writer, who, 20, 40)
            writer.flush(SECONDS)
        wait_for(lambda: all_alive(replay))
        for who, writer in enumerate(writers):
            append(writer, who, 40, 60)
            writer.flush(SECONDS)
        wait_for(lambda: [one["writers"] for one in replay.stats()["shards"]] == [2, 2])
        assert [writer._box.shard for writer in writers] == homes
        stats = replay.stats()
        assert stats["committed_steps"] >= 4 * 60 - stats["lost_in_flight_steps"]


def test_an_error_of_a_shipment_comes_to_the_writer_that_made_it(cluster):
    with make(shards=1, rate_limiter=LIMITER) as replay:
        writers = [replay.writer() for _ in range(3)]
        for who, writer in enumerate(writers):
            append(writer, who, 0, 20)
            writer.flush(SECONDS)
        box = writers[1]._box
        box.shipped.append(Shipment(box.packer.writer_id, 7, b"no shipment"))
        failures = {}

        def go_on(who):
            try:
                append(writers[who], who, 20, 40)
                writers[who].flush(SECONDS)
            except Exception as error:
                failures[who] = error

        threads = [threading.Thread(target=go_on, args=(who,)) for who in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(SECONDS)
        assert list(failures) == [1] and isinstance(failures[1], ValueError), failures
        with pytest.raises(ValueError):
            writers[1].close()
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] >= 7)
        assert replay.stats()["committed_steps"] == 100
        wait_for(lambda: replay.stats()["writers"] == 2)
        # The rate limiter had counted the shipment that is in no shard.
        wait_for(lambda: replay.stats()["inserted_steps"] == 100)


def test_all_writers_of_a_process_have_a_share_of_the_room(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writers = [replay.writer() for _ in range(4)]
        taken = [0] * 4

        def write(who):
            try:
                while True:
                    append(writers[who], who, taken[who], taken[who] + 1)
                    taken[who] += 1
            except reprise.Closed:
                pass

        threads = [threading.Thread(target=write, args=(who,), daemon=True) for who in range(4)]
        for one in threads:
            one.start()
        there = lambda: [taken[who] - writers[who]._box.steps for who in range(4)]
        sampler = replay.sampler()
        check(sampler.sample(32, timeout=SECONDS))
        wait_for(lambda: min(writer._box.steps for writer in writers) > 0)
        before = there()
        for _ in range(100):
            check(sampler.sample(32, timeout=SECONDS))
        gained = [now - then for now, then in zip(there(), before)]
        # 3,200 items make room for 800 steps.
        assert min(gained) > sum(gained) / 4 / 3, gained


def test_while_the_rate_limiter_has_no_room_nothing_is_sent_again_and_again(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writer = replay.writer(timeout=2.0)
        with pytest.raises(TimeoutError):
            for i in range(10_000):
                append(writer, 0, i, i + 1)
        with pytest.raises(TimeoutError):
            writer.flush(0.5)
        calls = calls_of(replay)
        with pytest.raises(TimeoutError, match="the rate limiter has no room"):
            writer.flush(2.0)
        assert sum(bool(one) for one in calls) < 10
        for _ in range(20):
            check(replay.sampler().sample(64, timeout=SECONDS))
        writer.flush(SECONDS)
        stats = replay.stats()
        assert stats["committed_steps"] == stats["inserted_steps"] == i


def test_a_head_that_is_killed_goes_on_with_the_sums_of_the_rate_limiter(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writers, sampler, batches, steps = (
            [replay.writer() for _ in range(2)],
            replay.sampler(),
            0,
            0,
        )

        def go_on(until):
            nonlocal batches, steps
            while batches < until:
                for who, writer in enumerate(writers):
                    append(writer, who, steps, steps + 8)
                    writer.flush(SECONDS)
                steps += 8
                if steps > 50:
                    check(sampler.sample(64, timeout=SECONDS))
                    batches += 1

        go_on(30)
        for _ in range(2):
            ray.kill(replay._head, no_restart=False)
            go_on(batches + 10)
            stats = replay.stats()
            assert stats["committed_steps"] == 2 * steps
            # A call without an answer may have been counted, and is made again.
            assert abs(stats["admitted_samples"] - 64 * batches) <= 64
            assert abs(stats["inserted_steps"] - 2 * steps) <= 8


@contextlib.contextmanager
def stopped_head(replay):
    pid = ray.get(replay._head.__ray_call__.remote(lambda head: os.getpid()), timeout=20)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_head_that_does_not_answer_holds_nobody_at_the_shards_and_counts_nothing_twice(cluster):
    with make(shards=1, rate_limiter=LIMITER, answer_timeout=10.0) as replay:
        writer = replay.writer()
        append(writer, 0, 0, 10)
        writer.flush(SECONDS)
        with stopped_head(replay):
            append(writer, 0, 10, 20)
            with pytest.raises(TimeoutError):
                writer.flush(1.0)
            # The call for another process, which says that it lives, is not behind the first.
            call = replay._actors[0].append.remote("somebody", 0, [])
            assert ray.wait([call], timeout=5.0)[0]
            with pytest.raises(TimeoutError):
                writer.flush(2.0)
        writer.flush(SECONDS)
        time.sleep(1.0)  # The head has worked on all that it was asked.
        stats = replay.stats()
        assert stats["inserted_steps"] == stats["committed_steps"] == 20


def test_a_prefetcher_outlives_a_head_that_does_not_answer(cluster):
    with make(shards=1, rate_limiter=LIMITER, answer_timeout=0.5) as replay:
        with replay.writer() as writer:
            append(writer, 0, 0, 100)
        with replay.prefetch(16, depth=2, timeout=SECONDS) as batches:
            check(next(batches))
            wait_for(lambda: len(batches._ready) == 2)
            with stopped_head(replay):
                for _ in range(2):
                    check(next(batches))
                time.sleep(5.0)  # More than four times as long as an answer may take.
            for _ in range(5):
                check(next(batches))


def test_writers_ship_what_the_shards_compress(cluster):
    """The writer's own buffer compresses nothing, and no row is another one for that."""
    frames = np.tri(61, 1024, -1, dtype=np.uint8)
    schema = reprise.Schema().observation("frame", "u1", (1024,)).reward().compress("frame")
    with reprise.ray.ReplayBuffer(schema, 1000, shards=1) as replay:
        with replay.writer() as writer:
            assert writer._box.prototype.schema == schema
            assert writer._box.prototype.schema.compressed == ()
            writer.append_episode(frame=frames, reward=np.arange(60))
            writer.flush(SECONDS)
        stats = replay.stats()
        assert 0 < stats["compressed_bytes"] < stats["uncompressed_bytes"] / 4
        batch = replay.sampler(seed=1).sample(200, timeout=SECONDS)
        step = batch["reward"].astype(int)
        np.testing.assert_array_equal(batch["frame"], frames[step])
        np.testing.assert_array_equal(batch["next_frame"], frames[step + 1])
