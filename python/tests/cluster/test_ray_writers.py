"""reprise.ray: writers that a shard or the rate limiter refuses."""

import contextlib
import os
import signal
import threading
import time

import pytest

from testing.ray_cluster import ray, SECONDS, all_alive, answer_late, append, append_episode, check
from testing.ray_cluster import (
    append_until_no_room,
    kill_coordinator,
    make,
    most_ahead,
    pid_of,
    record,
    ship,
)
from testing.ray_cluster import stopped, wait_for
from testing.refusals import refuses

import reprise
import reprise.ray

LIMITER = reprise.SampleToInsertRatio(samples_per_insert=4.0, min_size=100, error_buffer=400.0)


def requests_of(replay):
    """Records all later requests with shipments."""
    calls, asked = replay._process.shipper._calls, []
    ask = calls.ask
    calls.ask = lambda request: (
        asked.extend([request] if request.carries[1] else []),
        ask(request),
    )
    return asked


def writers_of(replay):
    return [one["writers"] for one in replay.stats()["shards"]]


def nobody_lost_a_place(replay):
    stats = replay.stats()
    return stats["restarted_episodes"] == stats["silent_writers_closed"] == 0


def test_a_writer_beyond_max_writers_is_refused_and_no_other_one_notices(cluster):
    with make(shards=1, max_writers=2, answer_timeout=5.0) as replay:
        writers = [replay.writer() for _ in range(3)]
        for who in (0, 1):
            ship(writers[who], who, 0, 50)
        asked, began = requests_of(replay), time.monotonic()
        append(writers[2], 2, 0, 50)
        wait_for(lambda: writers[2]._recorder.lanes[0].reason)
        refuses(TimeoutError, "50 steps are here, .*max_writers is 2", writers[2].flush, 0.1)
        with pytest.raises(RuntimeError, match="max_writers is 2, and that many writers are alive"):
            writers[2].flush(SECONDS)
        # Refused shipments are sent again after pauses that double up to a second.
        assert 1 < len(asked) < 10 + time.monotonic() - began
        for who in (0, 1):
            ship(writers[who], who, 50, 100)
        assert nobody_lost_a_place(replay)
        writers[0].close(SECONDS)

        def there():
            with contextlib.suppress(RuntimeError):
                writers[2].flush(SECONDS)
                return True

        wait_for(there)
        assert replay.stats()["committed_steps"] == 250
        # The steps of a writer that ends without a place are counted as lost.
        refuses(RuntimeError, "max_writers is 2", record, replay, 3, 0, 50)
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] == 50)
        assert replay.stats()["committed_steps"] == 250


def test_the_places_of_a_process_that_was_killed_are_free_in_time(cluster):
    @ray.remote(num_cpus=0)
    class Act:
        def begin(self, replay):
            self.writers = [replay.writer() for _ in range(2)]
            for who, writer in enumerate(self.writers):
                ship(writer, who, 0, 50)
            return os.getpid()

    with make(shards=1, max_writers=2, answer_timeout=4.0) as replay:
        one = Act.remote()
        os.kill(ray.get(one.begin.remote(replay), timeout=SECONDS), signal.SIGKILL)
        for who in (2, 3):
            record(replay, who, 0, 50)
        stats = replay.stats()
        assert stats["committed_steps"] == len(replay) == 200  # The shard ended their episodes.
        assert stats["silent_writers_closed"] == 2 and stats["restarted_episodes"] == 0


def test_a_process_that_appends_nothing_keeps_its_places(cluster):
    with make(shards=1, max_writers=1, answer_timeout=4.0) as replay:
        kept = replay.writer()
        ship(kept, 0, 0, 50)
        act = ray.remote(num_cpus=0)(record)
        # The other writer asks for twice as long as a silent process would keep its place.
        one = act.remote(replay, 1, 0, 50)
        refuses(RuntimeError, "max_writers is 1", ray.get, one, timeout=SECONDS)
        ship(kept, 0, 50, 100)
        assert replay.stats()["committed_steps"] == 100 and nobody_lost_a_place(replay)


def test_a_task_that_appended_an_episode_keeps_no_place(cluster):
    @ray.remote(num_cpus=0)
    class Act:
        def append(self, handle, who):
            append_episode(handle, who, 20)

    with make(shards=1, max_writers=1) as replay:
        actors = [Act.remote() for _ in range(2)]
        for _ in range(3):
            for who, one in enumerate(actors):
                ray.get(one.append.remote(replay, who), timeout=SECONDS)
        assert replay.stats()["committed_steps"] == len(replay) == 120
        assert nobody_lost_a_place(replay)
        wait_for(lambda: replay.stats()["writers"] == 0)


def test_writers_of_a_lost_shard_are_guests_of_another_one_while_it_is_lost(cluster):
    """They give up their places in the other shard when their own is back, and wait if there are no
    places."""
    with make(max_writers=2, answer_timeout=4.0) as replay:
        writers = [replay.writer(timeout=SECONDS) for _ in range(4)]
        for first in (0, 20, 40):
            for who, writer in enumerate(writers):
                ship(writer, who, first, first + 20)
            if first == 0:
                assert writers_of(replay) == [2, 2]
                answer_late(replay._actors[0], "append", 3600.0, 2)
            wait_for(lambda: all_alive(replay))
        wait_for(lambda: writers_of(replay) == [2, 2])
        lanes = [lane for writer in writers for lane in writer._recorder.lanes]
        wait_for(lambda: all(lane.shard == lane.home for lane in lanes))

        def accounted():
            stats = replay.stats()
            return stats["committed_steps"] + stats["lost_in_flight_steps"] >= 4 * 60

        wait_for(accounted)


def test_an_error_of_a_shipment_comes_to_the_writer_that_made_it(cluster):
    with make(shards=1, rate_limiter=LIMITER) as replay:
        writers = [replay.writer() for _ in range(3)]
        for who, writer in enumerate(writers):
            ship(writer, who, 0, 20)
        lane = writers[1]._recorder.lanes[0]
        lane.used, lane.has_credit, lane.steps, lane.shipment = True, False, 7, b"no shipment"
        failures = {}

        def go_on(who):
            try:
                ship(writers[who], who, 20, 40)
            except Exception as error:
                failures[who] = error

        threads = [threading.Thread(target=go_on, args=(who,)) for who in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(SECONDS)
        assert list(failures) == [1] and isinstance(failures[1], ValueError), failures
        with pytest.raises(ValueError):
            writers[1].close(SECONDS)
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] >= 7)
        assert replay.stats()["committed_steps"] == 100
        wait_for(lambda: replay.stats()["writers"] == 2)
        # The credit of the shipment that no shard took makes room for others.
        wait_for(lambda: replay.stats()["inserted_steps"] == 100)


def test_all_writers_of_a_process_have_a_share_of_the_room(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writers = [replay.writer() for _ in range(4)]
        taken = [0] * 4

        def write(who):
            with contextlib.suppress(reprise.Closed):
                while True:
                    append(writers[who], who, taken[who], taken[who] + 1)
                    taken[who] += 1

        for who in range(4):
            threading.Thread(target=write, args=(who,), daemon=True).start()
        there = lambda: [taken[who] - writers[who]._recorder.steps for who in range(4)]
        sampler = replay.sampler()
        check(sampler.sample(32, timeout=SECONDS))
        wait_for(lambda: min(writer._recorder.steps for writer in writers) > 0)
        before = there()
        # Each batch makes room for 8 steps, and 100 of them for 200 of each writer. A shard that is
        # stopped for a while takes none meanwhile, so there may be more.
        for _ in range(1000):
            check(sampler.sample(32, timeout=SECONDS))
            gained = [now - then for now, then in zip(there(), before)]
            if min(gained) >= 200:
                break
        assert min(gained) >= 200, gained


def test_while_the_rate_limiter_has_no_room_nothing_is_sent_and_appends_time_out(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writer = replay.writer(timeout=2.0)
        taken = append_until_no_room(writer)
        asked = requests_of(replay)
        refuses(TimeoutError, "the rate limiter has no room", writer.flush, 2.0)
        assert len(asked) < 10
        sampler = replay.sampler()

        def drawn_until_there():
            # Once the last steps are there, the ratio may have no room for a batch any more.
            with contextlib.suppress(TimeoutError):
                check(sampler.sample(64, timeout=0.1))
            return not writer._recorder.steps

        wait_for(drawn_until_there)
        assert replay.stats()["committed_steps"] == taken
        wait_for(lambda: replay.stats()["inserted_steps"] == taken)


def test_a_coordinator_that_is_killed_goes_on_with_the_sums_of_the_rate_limiter(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writers, sampler = [replay.writer() for _ in range(2)], replay.sampler()
        batches = steps = 0

        def go_on(until):
            nonlocal batches, steps
            while batches < until:
                for who, writer in enumerate(writers):
                    ship(writer, who, steps, steps + 8)
                steps += 8
                if steps > 50:
                    check(sampler.sample(64, timeout=SECONDS))
                    batches += 1

        def are_counts(killed):
            """A call without an answer may have been counted, and is made again. What was counted
            too late for its caller is taken back."""
            stats = replay.stats()
            return (
                abs(stats["admitted_samples"] - 64 * batches) <= 64 * killed
                and abs(stats["inserted_steps"] - 2 * steps) <= 8 * killed
            )

        go_on(30)
        for killed in range(1, 3):
            kill_coordinator(replay)
            go_on(batches + 10)
            assert replay.stats()["committed_steps"] == 2 * steps
            wait_for(lambda: are_counts(killed))


def test_a_coordinator_that_does_not_answer_counts_nothing_twice(cluster):
    with make(shards=1, rate_limiter=LIMITER) as replay:
        writer = replay.writer()
        ship(writer, 0, 0, 10)
        with stopped(pid_of(replay._coordinator)):
            append(writer, 0, 10, 20)
            with pytest.raises(TimeoutError):
                writer.flush(1.0)
        writer.flush(SECONDS)
        assert replay.stats()["committed_steps"] == 20
        # The coordinator takes back what it counted too late.
        wait_for(lambda: replay.stats()["inserted_steps"] == 20)


def test_a_prefetcher_outlives_a_coordinator_that_does_not_answer(cluster):
    with make(shards=1, rate_limiter=LIMITER, answer_timeout=2.0) as replay:
        record(replay, 0, 0, 100)
        with replay.prefetch(16, depth=2, timeout=SECONDS) as batches:
            check(next(batches))
            wait_for(lambda: len(batches._ready) == 2)
            with stopped(pid_of(replay._coordinator)):
                for _ in range(2):
                    check(next(batches))
                # The prefetcher waits for four times answer_timeout.
                wait_for(lambda: batches._sampler._missing.startswith("answers of"))
            for _ in range(5):
                check(next(batches))


@pytest.mark.parametrize("placement", ["learner", "actors"])
def test_the_ratio_is_of_sums_whatever_shard_gets_the_steps(cluster, placement):
    """One of two shards gets nine tenths of the steps. The counts would drift from the ratio by a
    tenth of 38,400 items if the other ones did not count."""

    def write(local, shard, share):
        writer, i = local.writer(), 0
        with contextlib.suppress(reprise.Closed):
            while True:
                append(writer, shard, i, i + share)
                i += share
                time.sleep(0.002)

    replay = make(placement=placement, rate_limiter=LIMITER)
    shares = (9, 1)
    if placement == "actors":
        running = replay.run(lambda local, shard: write(local, shard, shares[shard]))
    else:
        remote = ray.remote(num_cpus=0)(write)
        running = [remote.remote(replay, i, share) for i, share in enumerate(shares)]
    sampler = replay.sampler()
    for _ in range(150):
        check(sampler.sample(256, timeout=SECONDS))
        sums = ray.get(replay._coordinator.stats.remote())
        balance = sums["admitted_samples"] - 4.0 * (sums["inserted_steps"] - 100)
        assert balance <= most_ahead(LIMITER)
        assert sums["inserted_steps"] <= 100 or balance >= -most_ahead(LIMITER)
    # Nobody draws: writers go as far as the bound, to one shipment and a block, and no further.
    most = 100 + (sums["admitted_samples"] + 400) / 4
    wait_for(lambda: replay.stats()["committed_steps"] >= most - 2 * replay._spec.run_steps - 4)
    time.sleep(0.5)
    assert replay.stats()["committed_steps"] <= most + 4 * replay._spec.run_steps
    replay.close()
    for one in running:
        with contextlib.suppress(ray.exceptions.RayActorError):  # Simulators end with their shard.
            ray.get(one, timeout=SECONDS)
