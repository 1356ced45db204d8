"""Writers of reprise.ray that a shard or the rate limiter refuses."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest

from testing.ray_cluster import ray, SECONDS, all_alive, append, append_until_no_room, check, make
from testing.ray_cluster import delay_answers, max_ahead, pid_of, append_and_wait, spec, wait_for
from testing.refusals import refuses
from testing.threads import running

import reprise
import reprise.ray
from reprise.ray import _writer
from reprise.ray._local import Local
from reprise.ray._shard import Shipment

LIMITER = reprise.SampleToInsertRatio(samples_per_insert=4.0, min_size=100, error_buffer=400.0)


def calls_of(replay):
    """Returns a list to which all later calls of the shipper add their shipments."""
    shipper, calls = replay._process.shipper, []
    ask = shipper._ask
    shipper._ask = lambda request: (calls.append(request.shipments), ask(request))[1]
    return calls


def test_a_writer_beyond_max_writers_is_refused_without_effect_on_others(cluster):
    with make(shards=1, max_writers=2, answer_timeout=5.0) as replay:
        writers = [replay.writer() for _ in range(3)]
        for who in (0, 1):
            append(writers[who], who, 0, 50)
            writers[who].flush(SECONDS)
        calls, began = calls_of(replay), time.monotonic()
        append(writers[2], 2, 0, 50)
        wait_for(lambda: writers[2]._recorder.queues[0].refusal)
        refuses(TimeoutError, "50 steps are here, .*max_writers is 2", writers[2].flush, 0.1)
        with pytest.raises(RuntimeError, match="max_writers is 2, and that many writers are alive"):
            writers[2].flush(SECONDS)
        # A refused shipment is sent again after pauses that double up to a second, so some ten
        # times at first and then once a second.
        assert 1 < len([one for one in calls if one]) < 10 + time.monotonic() - began
        for who in (0, 1):
            append(writers[who], who, 50, 100)
            writers[who].flush(SECONDS)
        stats = replay.stats()
        assert stats["restarted_episodes"] == stats["silent_writers_closed"] == 0
        assert stats["committed_steps"] == 200
        writers[0].close(SECONDS)

        def there():
            try:
                writers[2].flush(SECONDS)
            except RuntimeError:
                return False
            return True

        wait_for(there)
        assert replay.stats()["committed_steps"] == 250
        # The steps of a writer that is closed while it is refused are counted as lost.
        refuses(RuntimeError, "max_writers is 2", append_and_wait, replay, 3, 0, 50)
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] == 50)
        assert replay.stats()["committed_steps"] == 250


def test_writers_of_a_killed_process_make_place_for_others(cluster):
    @ray.remote(num_cpus=0)
    class Act:
        def begin(self, replay):
            self.writers = [replay.writer() for _ in range(2)]
            for who, writer in enumerate(self.writers):
                append(writer, who, 0, 50)
                writer.flush(SECONDS)
            return os.getpid()

    with make(shards=1, max_writers=2, answer_timeout=4.0) as replay:
        one = Act.remote()
        os.kill(ray.get(one.begin.remote(replay), timeout=SECONDS), signal.SIGKILL)
        for who in (2, 3):
            append_and_wait(replay, who, 0, 50)
        stats = replay.stats()
        assert stats["committed_steps"] == len(replay) == 200  # The shard ended their episodes.
        assert stats["silent_writers_closed"] == 2 and stats["restarted_episodes"] == 0


def test_a_process_that_appends_nothing_keeps_its_places(cluster):
    with make(shards=1, max_writers=1, answer_timeout=4.0) as replay:
        kept = replay.writer()
        append(kept, 0, 0, 50)
        kept.flush(SECONDS)

        @ray.remote(num_cpus=0)
        def act(handle):
            append_and_wait(handle, 1, 0, 50)

        # The other writer asks for twice the time after which a silent process loses its places.
        refuses(RuntimeError, "max_writers is 1", ray.get, act.remote(replay), timeout=SECONDS)
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

    with make(shards=1, max_writers=1) as replay:
        actors = [Act.remote() for _ in range(2)]
        for _ in range(3):
            for who, one in enumerate(actors):
                ray.get(one.append.remote(replay, who), timeout=SECONDS)
        stats = replay.stats()
        assert stats["committed_steps"] == len(replay) == 120
        assert stats["restarted_episodes"] == stats["silent_writers_closed"] == 0
        wait_for(lambda: replay.stats()["writers"] == 0)


def test_writers_of_a_lost_shard_use_another_shard_until_theirs_is_back(cluster):
    """They give up their places in the other shard when their own shard is back, and wait if the
    other shard has no places left."""
    with make(max_writers=2, answer_timeout=4.0) as replay:
        writers = [replay.writer(timeout=SECONDS) for _ in range(4)]
        for who, writer in enumerate(writers):
            append(writer, who, 0, 20)
            writer.flush(SECONDS)
        assert [one["writers"] for one in replay.stats()["shards"]] == [2, 2]
        delay_answers(replay._actors[0], "append", 3600.0, 2)
        for who, writer in enumerate(writers):
            append(writer, who, 20, 40)
            writer.flush(SECONDS)
        wait_for(lambda: all_alive(replay))
        for who, writer in enumerate(writers):
            append(writer, who, 40, 60)
            writer.flush(SECONDS)
        wait_for(lambda: [one["writers"] for one in replay.stats()["shards"]] == [2, 2])
        queues = [queue for writer in writers for queue in writer._recorder.queues]
        wait_for(lambda: all(queue.shard == queue.home_shard for queue in queues))

        def accounted():
            stats = replay.stats()
            return stats["committed_steps"] + stats["lost_in_flight_steps"] >= 4 * 60

        wait_for(accounted)


def test_an_error_of_a_shipment_is_raised_by_the_writer_that_made_it(cluster):
    with make(shards=1, rate_limiter=LIMITER) as replay:
        writers = [replay.writer() for _ in range(3)]
        for who, writer in enumerate(writers):
            append(writer, who, 0, 20)
            writer.flush(SECONDS)
        queue = writers[1]._recorder.queues[0]
        queue.shipped.append(Shipment(queue.writer_id, 7, b"no shipment"))
        failures = {}

        def go_on(who):
            try:
                append(writers[who], who, 20, 40)
                writers[who].flush(SECONDS)
            except Exception as error:
                failures[who] = error

        with running(*[lambda who=who: go_on(who) for who in range(3)]):
            pass
        assert list(failures) == [1] and isinstance(failures[1], ValueError), failures
        with pytest.raises(ValueError):
            writers[1].close(SECONDS)
        wait_for(lambda: replay.stats()["lost_in_flight_steps"] >= 7)
        assert replay.stats()["committed_steps"] == 100
        wait_for(lambda: replay.stats()["writers"] == 2)
        # The room that was taken for the broken shipment was returned.
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
        stored = lambda: [taken[who] - writers[who]._recorder.steps for who in range(4)]
        sampler = replay.sampler()
        check(sampler.sample(32, timeout=SECONDS))
        wait_for(lambda: min(writer._recorder.steps for writer in writers) > 0)
        before = stored()
        # Each batch of 32 makes room for 8 steps, so 100 batches for 200 steps of each writer. A
        # shard that the system stops for a while takes no steps meanwhile, so up to 1000 batches
        # are drawn.
        for _ in range(1000):
            check(sampler.sample(32, timeout=SECONDS))
            gained = [now - then for now, then in zip(stored(), before)]
            if min(gained) >= 200:
                break
        assert min(gained) >= 200, gained


def test_a_shipment_without_room_is_not_sent_again_and_again(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writer = replay.writer(timeout=2.0)
        taken = append_until_no_room(writer)
        with pytest.raises(TimeoutError):
            writer.flush(0.5)
        calls = calls_of(replay)
        refuses(TimeoutError, "the rate limiter has no room", writer.flush, 2.0)
        assert sum(bool(one) for one in calls) < 10
        sampler = replay.sampler()

        def drawn_until_there():
            # Once the last steps are appended, the ratio may allow no further batch.
            with contextlib.suppress(TimeoutError):
                check(sampler.sample(64, timeout=0.1))
            return not writer._recorder.steps

        wait_for(drawn_until_there)
        writer.flush(SECONDS)
        assert replay.stats()["committed_steps"] == taken
        wait_for(lambda: replay.stats()["inserted_steps"] == taken)


def counts_of(actor):
    return actor._counts


def test_a_restarted_coordinator_continues_with_the_limiters_counts(cluster):
    with make(100_000, rate_limiter=LIMITER) as replay:
        writers, sampler = [replay.writer() for _ in range(2)], replay.sampler()
        batches = steps = 0

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

        def shards_have_counts():
            """Returns whether all shards have the coordinator's newest counts."""
            counts = [ray.get(one.__ray_call__.remote(counts_of)) for one in replay._actors]
            return min(counts) == ray.get(replay._coordinator.__ray_call__.remote(counts_of))

        def are_counts(admitted, inserted, killed):
            """Returns whether the counts differ by at most a call per kill. A call that the killed
            coordinator did not answer may have been counted, and was made again."""
            stats = replay.stats()
            return (
                abs(stats["admitted_samples"] - admitted) <= 64 * killed
                and abs(stats["inserted_steps"] - inserted) <= 8 * killed
            )

        go_on(30)
        for killed in range(1, 3):
            wait_for(shards_have_counts)  # The restarted coordinator gets these from the shards.
            ray.kill(replay._coordinator, no_restart=False)
            go_on(batches + 10)
            assert replay.stats()["committed_steps"] == 2 * steps
            wait_for(lambda: are_counts(64 * batches, 2 * steps, killed))


@contextlib.contextmanager
def stopped_coordinator(replay):
    pid = pid_of(replay._coordinator)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_stopped_coordinator_blocks_no_call_of_a_shard_and_counts_no_step_twice(
    cluster,
):
    with make(shards=1, rate_limiter=LIMITER, answer_timeout=10.0) as replay:
        writer = replay.writer()
        append(writer, 0, 0, 10)
        writer.flush(SECONDS)
        with stopped_coordinator(replay):
            append(writer, 0, 10, 20)
            with pytest.raises(TimeoutError):
                writer.flush(1.0)
            # The heartbeat of another process does not wait for the first call.
            lives = reprise.ReplayShard.shipments_of(5, 0, [])
            call = replay._actors[0].append.remote("somebody", 5, lives, [])
            assert ray.wait([call], timeout=SECONDS)[0]
            with pytest.raises(TimeoutError):
                writer.flush(2.0)
        writer.flush(SECONDS)
        assert replay.stats()["committed_steps"] == 20
        # The coordinator, once it runs again, counts the steps of calls that the shard has given
        # up, and then takes these steps back.
        wait_for(lambda: replay.stats()["inserted_steps"] == 20)


def test_a_prefetcher_continues_after_its_coordinator_was_stopped(cluster):
    with make(shards=1, rate_limiter=LIMITER, answer_timeout=2.0) as replay:
        append_and_wait(replay, 0, 0, 100)
        with replay.prefetch(16, depth=2, timeout=SECONDS) as batches:
            check(next(batches))
            wait_for(lambda: len(batches._ready) == 2)
            with stopped_coordinator(replay):
                for _ in range(2):
                    check(next(batches))
                # The prefetcher waits for four times answer_timeout.
                wait_for(lambda: batches._sampler._wait_reason.startswith("answers of"))
            for _ in range(5):
                check(next(batches))


def test_fields_that_shards_compress_are_shipped_uncompressed(cluster):
    frames = np.tri(61, 1024, -1, dtype=np.uint8)
    schema = reprise.Schema().observation("frame", "u1", (1024,)).reward().compress("frame")
    with make(1000, schema, shards=1) as replay:
        with replay.writer() as writer:
            writer.append_episode(frame=frames, reward=np.arange(60))
            writer.flush(SECONDS)
        stats = replay.stats()
        assert 0 < stats["compressed_bytes"] < stats["uncompressed_bytes"] / 4
        batch = replay.sampler(seed=1).sample(200, timeout=SECONDS)
        step = batch["reward"].astype(int)
        np.testing.assert_array_equal(batch["frame"], frames[step])
        np.testing.assert_array_equal(batch["next_frame"], frames[step + 1])


def test_simulators_in_a_shard_take_room_for_exactly_the_steps_they_append():
    described, room, credit = spec(rate_limiter=LIMITER), [True], []
    replay = described.buffer(0)
    take = lambda steps: room[0] and (credit.append(steps) or True)
    local = Local(replay, take, lambda steps: credit.append(-steps), described)

    def steps(n):
        return {"writer": np.zeros(n, int), "step": np.arange(n), "reward": np.zeros(n)}

    def taken():
        local.give_back()
        assert sum(credit) == replay.stats()["committed_steps"]
        return sum(credit)

    with local.vector_writer(3, autoreset="next_step") as writers:
        writers.begin(at=np.zeros(3, int))
        for end in ([0, 1, 2], [0, 0, 0], [2, 0, 0]):  # The second row of two is a reset.
            writers.append(next_at=np.zeros(3, int), end=end, **steps(3))
        assert taken() == 7
        writers.append(next_at=[0, 0], end=[0, 0], env_ids=[0, 2], **steps(2))
        assert taken() == 8
        at = {"at": [1, 2], "next_at": [2, 3], **steps(2)}
        writers.append_transitions(end=[0, 0], env_ids=[0, 1], **at)
        assert taken() == 10
        writers.append_transitions(end=[1, 0], env_ids=[0, 1], **at)
        next_at = {"at": [2, 3], "next_at": [0, 4], **steps(2)}  # The first row is a reset.
        writers.append_transitions(end=[0, 0], env_ids=[0, 1], **next_at)
        writers.append_transitions(end=[0, 0], env_ids=[0, 1], **at)
        assert taken() == 15
    with local.writer(timeout=0.01) as writer:
        writer.append_transitions(end=[0, 2], **at)
        writer.append_transition(at=0, next_at=1, writer=0, step=0, reward=0)
        writer.append_episode(at=np.zeros(61, int), **steps(60))
        assert taken() == 78
        room[0] = False
        says = "append_transitions: timed out: the rate limiter has no room"
        refuses(TimeoutError, says, writer.append_transitions, end=[0, 2], **at)
    assert taken() == 78
    room[0] = True
    for _ in range(5):  # All writers of a shard together take room ahead for one shipment at most.
        local.writer().append_transition(at=0, next_at=1, writer=0, step=0, reward=0)
    assert sum(credit) == 78 + described.shipment_steps
    for name in ("share", "capsule"):
        refuses(RuntimeError, f"{name}: writers in C.* would pass by", getattr, local, name)


@pytest.mark.parametrize("placement", ["learner", "actors"])
def test_the_ratio_holds_over_all_shards_however_steps_are_spread(cluster, placement):
    """One of two shards gets nine tenths of the steps. If the other shard's steps were not counted,
    the counts would be off the ratio by a tenth of the 38,400 items drawn."""

    def write(local, shard, share):
        writer, i = local.writer(), 0
        try:
            while True:
                append(writer, shard, i, i + share)
                i += share
                time.sleep(0.002)
        except reprise.Closed:
            return i

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
        stats = replay._coordinator.stats.remote()
        sums = ray.get(stats)
        balance = sums["admitted_samples"] - 4.0 * (sums["inserted_steps"] - 100)
        assert balance <= max_ahead(LIMITER)
        assert sums["inserted_steps"] <= 100 or balance >= -max_ahead(LIMITER)
    # Nobody draws any more. Writers now append up to the bound and no further; each may stop a
    # shipment short of the bound, and a block of 4 steps that was granted and not used.
    most = 100 + (sums["admitted_samples"] + 400) / 4
    wait_for(
        lambda: replay.stats()["committed_steps"] >= most - 2 * replay._spec.shipment_steps - 4
    )
    time.sleep(0.5)
    assert replay.stats()["committed_steps"] <= most
    replay.close()
    for one in running:
        try:
            ray.get(one, timeout=SECONDS)
        except ray.exceptions.RayActorError:
            pass  # Simulators in a shard end with it.


def test_leaving_a_writers_block_waits_for_its_timeout_but_not_after_an_error(cluster, monkeypatch):
    class Noted(_writer.Wait):
        def __init__(self, what, timeout, missing):
            waits.append((what, timeout))
            super().__init__(what, timeout, missing)

    waits = []
    monkeypatch.setattr(_writer, "Wait", Noted)
    with make(rate_limiter=LIMITER) as replay:
        for timeout in (None, SECONDS):
            with replay.writer(timeout=timeout) as writer:
                append(writer, 0, 0, 5)
        assert [wait for wait in waits if wait[0] == "close"] == [
            ("close", None),
            ("close", SECONDS),
        ]
        with pytest.raises(ZeroDivisionError), replay.writer(timeout=0.01) as writer:
            append_until_no_room(writer)
            1 / 0


def test_every_kind_of_append_waits_for_room_and_is_refused_once_closed(cluster):
    one = {"at": 0, "next_at": 1, "writer": 0, "step": 0, "reward": 0}
    rows = {name: [value] for name, value in one.items()} | {"end": [reprise.End.TRUNCATED]}
    replay = make(rate_limiter=LIMITER)
    writer = replay.writer(timeout=0.01)
    append_until_no_room(writer)
    calls = (
        lambda: append(writer, 0, 0, 1),
        lambda: writer.append_episode(at=[0, 1], writer=[0], step=[0], reward=[0]),
        lambda: writer.append_transition(**one),
        lambda: writer.append_transitions(**rows),
    )
    for call in calls:
        refuses(TimeoutError, "steps are here, and shard", call)
    replay.close()
    for call in calls:
        refuses(reprise.Closed, "append: .* is closed", call)
