"""Faults of reprise.ray at random moments: what is lost then, and what must not be.

REPRISE_TEST_SCALE=12 repeats every fault 12 times as often.
"""

import logging
import os
import random
import shutil
import signal
import threading
import time

import numpy as np
import pytest

from testing.refusals import refuses
from testing.ray_cluster import ray, SECONDS, add_node, all_alive, append, check, kill_shard
from testing.ray_cluster import (
    PATIENT,
    delay_answers,
    local_coordinator,
    make,
    max_ahead,
    numbered_schema,
    append_and_wait,
    scaled_count,
    wait_for,
)

import reprise
import reprise.ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from reprise.ray._coordinator import Counts

TIMES = scaled_count(2)


def moment_of(repetition):
    """Seconds until a fault, random with a fixed seed for each repetition."""
    return random.Random(repetition).uniform(0.0, 0.8)


@pytest.fixture(params=range(TIMES))
def moment(request):
    return moment_of(request.param)


@ray.remote(num_cpus=0)
class AppendingActor:
    """A writer that appends until `end` is called."""

    def __init__(self, replay, who):
        self.replay, self.who, self.done, self.ended = replay, who, 0, threading.Event()

    def pid(self):
        return os.getpid()

    def steps(self):
        return self.done

    def run(self, pause):
        writer = self.replay.writer(timeout=SECONDS)
        while not self.ended.is_set():
            append(writer, self.who, self.done, self.done + 5)
            self.done += 5
            time.sleep(pause)
        writer.close(SECONDS)
        return self.done

    def end(self):
        self.ended.set()


def on(node, soft=False):
    return NodeAffinitySchedulingStrategy(node, soft=soft)


def actor(replay, who, **options):
    return AppendingActor.options(max_concurrency=3, **options).remote(replay, who)


class LearnerThread:
    """Draws and updates in a thread. `end` returns the number of batches, and raises the thread's
    error. An item's priority is a function of its contents, so that a wrong priority is found."""

    def __init__(self, replay):
        self.replay, self.batches, self.failure = replay, 0, None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            sampler = self.replay.sampler(seed=1)
            while not self.ended.is_set():
                batch = sampler.sample(64, timeout=SECONDS)
                check(batch)
                self.replay.update_priorities(batch.item_keys, priority_of(batch))
                self.batches += 1
        except BaseException as error:
            self.failure = error

    def end(self):
        self.ended.set()
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        if self.failure is not None:
            raise self.failure
        return self.batches


def priority_of(batch):
    """The priority of each item: from 1 to 4, and the number of its writer."""
    return 1.0 + batch["step"] % 4 + batch["writer"]


def check_priorities(replay):
    """Updates items until every item drawn has a probability in proportion to its priority."""
    sampler = replay.sampler(seed=2)
    wait_for(lambda: all_alive(replay))
    for _ in range(2000):  # Updates nearly every item.
        batch = sampler.sample(512, draws="independent", timeout=SECONDS)
        replay.update_priorities(batch.item_keys, priority_of(batch)).wait(SECONDS)
        ratios = batch.probabilities / priority_of(batch)
        if np.allclose(ratios, ratios[0], rtol=1e-6):
            return
    raise AssertionError("priorities are not those that were set")


def check_all_steps_accounted(replay, done):
    """Checks that each of the `done` steps is in a shard, or counted as lost."""
    wait_until_accounted(replay, done)
    stats = replay.stats()
    assert stats["committed_steps"] <= done
    assert len(replay) <= done
    return stats


def wait_until_accounted(replay, done):
    wait_for(lambda: all_alive(replay))

    def known():
        stats = replay.stats()
        lost = stats["lost_steps"] + stats["lost_in_flight_steps"]
        return stats["committed_steps"] + lost >= done

    wait_for(known)  # Processes report their counts only from time to time.


def test_a_killed_shard_is_counted_as_lost_and_comes_back(cluster, tmp_path, moment, caplog):
    with make(100_000) as replay, caplog.at_level(logging.WARNING, logger="reprise.ray"):
        actors = [actor(replay, who) for who in range(2)]
        running = [one.run.remote(0.02) for one in actors]
        learner = LearnerThread(replay)
        wait_for(lambda: learner.batches > 3 or learner.failure)
        replay.save(tmp_path, timeout=SECONDS)
        saved = [one["committed_steps"] for one in replay.stats()["shards"]]
        time.sleep(moment)
        kill_shard(replay, 0)
        before = learner.batches
        # The shard may be back before anybody notices the loss.
        wait_for(lambda: replay.stats()["lost_shards"] or learner.failure)
        wait_for(lambda: all_alive(replay) or learner.failure)
        wait_for(lambda: learner.batches > before + 5 or learner.failure)
        ray.get([one.end.remote() for one in actors])
        done = sum(ray.get(running, timeout=SECONDS))
        learner.end()
        stats = check_all_steps_accounted(replay, done)
        assert stats["lost_shards"] == stats["restarts"] == 1
        assert not stats["notes"]
        assert stats["shards"][0]["loaded_steps"] <= saved[0]
        check_priorities(replay)
    messages = [one.getMessage() for one in caplog.records if "is lost" in one.getMessage()]
    assert len(messages) == 1 and "shard 0 is lost" in messages[0]


def wait_in_shard(local, shard, where):
    (where / f"shard-{shard}").touch()
    wait_for((where / f"end-{shard}").exists, 10 * SECONDS)


def test_an_error_read_after_the_restart_is_not_counted_as_a_second_loss(cluster, tmp_path):
    with make() as replay:
        call = threading.Thread(
            target=replay._call_all,
            args=("run", wait_in_shard, (tmp_path,)),
            kwargs={"timeout": SECONDS},
        )
        call.start()  # The call reads shard 0's answer before shard 1's.
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        kill_shard(replay, 1)
        wait_for(lambda: replay.stats()["restarts"] and all_alive(replay))
        (tmp_path / "end-0").touch()
        call.join(SECONDS)
        assert not call.is_alive()
        time.sleep(0.1)
        stats = replay.stats()
        assert stats["lost_shards"] == stats["restarts"] == 1


def test_a_loss_seen_late_is_not_counted_for_the_restarted_shard(cluster):
    @ray.remote(num_cpus=0)
    class Late:
        def __init__(self, replay):
            self.replay = replay

        def pid(self):
            return os.getpid()

        def lose(self):
            membership = self.replay._process.membership
            assert membership.remotes[0].info.incarnation == 0
            membership.take_out(membership.remotes[0], RuntimeError("an error of before"), 0)
            return self.replay.stats()

    with make() as replay:
        late = Late.remote(replay)
        ray.get(late.pid.remote(), timeout=SECONDS)
        kill_shard(replay, 0)
        wait_for(lambda: replay.stats()["restarts"] and all_alive(replay))
        stats = ray.get(late.lose.remote(), timeout=SECONDS)
        assert stats["lost_shards"] == stats["restarts"] == 1


def test_late_reports_of_a_lost_shard_do_not_change_its_successor():
    limiter = reprise.SampleToInsertRatio(samples_per_insert=1.0, min_size=10, error_buffer=10.0)
    coordinator = local_coordinator(limiter)
    coordinator.started(0, 2, 0, "")
    coordinator.heartbeat(0, 2, 20, 0, 20, None, Counts())
    coordinator.insert(0, 2, "a", [1] * 20, 20, Counts())
    assert coordinator.credit("a", [1]) == 0
    for tell in (
        lambda: coordinator.report("a", {}, Counts(), [(0, 1, 5)]),
        lambda: coordinator.heartbeat(0, 1, 5, 0, 5, None, Counts()),
        lambda: coordinator.insert(0, 1, "a", [], 5, Counts()),
        lambda: coordinator.started(0, 1, 0, ""),
        lambda: coordinator.started(0, 2, 0, ""),
    ):
        tell()
        assert coordinator.starting_state(0)["last_incarnation"] == 2
        assert coordinator.stats()["lost_shards"] == coordinator.stats()["restarts"] == 1
        assert coordinator.credit("a", [1]) == 0  # With 20 items, above min_size, the ratio holds.
        assert coordinator.incarnations() == [2]
    assert coordinator.stats()["lost_shards"] == coordinator.stats()["restarts"] == 1
    coordinator.report("a", {}, Counts(), [(0, 2, 20)])
    assert coordinator.credit("a", [1]) > 0


def test_samples_that_were_undone_may_be_admitted_again():
    limiter = reprise.SampleToInsertRatio(samples_per_insert=1.0, min_size=10, error_buffer=10.0)
    coordinator = local_coordinator(limiter)
    coordinator.insert(0, 1, "a", [1] * 20, 20, Counts())
    coordinator.heartbeat(0, 1, 20, 0, 20, None, Counts())
    admitted = 0
    while coordinator.sample("learner", 4, Counts())[0]:
        admitted += 4
    assert admitted >= 8
    for _ in range(3):
        coordinator.undo_sample(4)
        assert (
            coordinator.sample("learner", 4, Counts())[0]
            and not coordinator.sample("learner", 4, Counts())[0]
        )


def test_a_writer_that_is_killed_holds_nobody_up(cluster, moment):
    with make(100_000) as replay:
        dies, lives = actor(replay, 0), actor(replay, 1)
        dies.run.remote(0.02)
        running = lives.run.remote(0.02)
        learner = LearnerThread(replay)
        wait_for(lambda: learner.batches > 3 or learner.failure)
        time.sleep(moment)
        os.kill(ray.get(dies.pid.remote()), signal.SIGKILL)
        before, had = learner.batches, ray.get(lives.steps.remote())
        wait_for(lambda: learner.batches > before + 20 or learner.failure)
        wait_for(lambda: ray.get(lives.steps.remote()) > had + 50)
        ray.get(lives.end.remote())
        done = ray.get(running, timeout=SECONDS)
        learner.end()
        sampler = replay.sampler()

        def newest():
            batch = sampler.sample(512, timeout=SECONDS)
            check(batch)
            return int(batch["step"][batch["writer"] == 1].max(initial=0))

        wait_for(lambda: done > newest() >= had)  # Draws a step from after the kill.
        assert replay.stats()["lost_shards"] == 0


def test_a_learner_that_is_killed_leaves_the_buffer_to_the_next_one(cluster, moment):
    @ray.remote(num_cpus=0)
    class Learner:
        def __init__(self, replay):
            self.replay = replay

        def run(self, n):
            sampler = self.replay.sampler()
            for _ in range(n):
                batch = sampler.sample(64, timeout=SECONDS)
                check(batch)
                self.replay.update_priorities(batch.item_keys, priority_of(batch))
            return os.getpid()

    with make(100_000) as replay:
        writes = actor(replay, 0)
        running = writes.run.remote(0.02)
        first = Learner.remote(replay)
        pid = ray.get(first.run.remote(2), timeout=SECONDS)
        first.run.remote(1_000_000)
        time.sleep(moment)
        os.kill(pid, signal.SIGKILL)
        ray.get(Learner.remote(replay).run.remote(20), timeout=SECONDS)
        ray.get(writes.end.remote())
        done = ray.get(running, timeout=SECONDS)
        stats = replay.stats()
        assert stats["committed_steps"] == done and stats["lost_shards"] == 0
        check_priorities(replay)


@pytest.mark.parametrize("repetition", range(scaled_count(1)))
@pytest.mark.parametrize("place", ["anywhere", "on a node like it"])
def test_a_shard_of_a_lost_node_comes_back_once_there_is_a_node_for_it(
    cluster, tmp_path, repetition, place
):
    """A writer is lost with the node. The shard comes back from its checkpoint, on another node."""
    node = add_node(cluster, 0)
    waits = place == "on a node like it"
    where = {"resources": {"a0": 1}} if waits else {"scheduling_strategy": on(node.node_id, True)}
    here = on(ray.get_runtime_context().get_node_id())
    try:
        with make(100_000, shard_options=[{}, where]) as replay:
            for who in (3, 4):  # One writer for each shard.
                append_and_wait(replay, who, 0, 50)
            stay = [actor(replay, who, scheduling_strategy=here) for who in range(2)]
            running = [one.run.remote(0.02) for one in stay]
            goes = actor(replay, 2, scheduling_strategy=on(node.node_id))
            goes.run.remote(0.02)
            learner = LearnerThread(replay)
            wait_for(lambda: learner.batches > 3 or learner.failure)
            replay.save(tmp_path, timeout=SECONDS)
            time.sleep(moment_of(repetition))
            cluster.remove_node(node, allow_graceful=False)
            node = None
            wait_for(lambda: replay.stats()["lost_shards"] or learner.failure)
            before = learner.batches
            wait_for(lambda: learner.batches > before + 20 or learner.failure)
            if waits:
                assert not all_alive(replay)
                node = add_node(cluster, 0)
            wait_for(lambda: all_alive(replay) or learner.failure, 2 * SECONDS)
            before = learner.batches
            wait_for(lambda: learner.batches > before + 20 or learner.failure)
            ray.get([one.end.remote() for one in stay], timeout=SECONDS)
            done = 100 + sum(ray.get(running, timeout=SECONDS))
            learner.end()
            stats = replay.stats()
            assert stats["lost_shards"] == stats["restarts"] == 1
            assert not stats["notes"]
            assert stats["shards"][1]["loaded_steps"] > 0
            wait_until_accounted(replay, done)
            check_priorities(replay)
    finally:
        if node is not None:
            cluster.remove_node(node)


@pytest.mark.parametrize("call", ["exchange", "append"])
@pytest.mark.parametrize("seconds", [5.5, 12.0], ids=["late", "lost"])
def test_a_request_repeated_for_a_late_answer_is_done_once(cluster, call, seconds):
    with make(100_000, answer_timeout=5.0) as replay:
        append_and_wait(replay, 0, 0, 100)
        sampler = replay.sampler()
        for _ in range(scaled_count(1)):
            for shard in replay._actors:
                delay_answers(shard, call, seconds)
            before = replay.stats()["applied_updates"]
            append_and_wait(replay, 1, 0, 100)
            batch = sampler.sample(64, timeout=SECONDS)
            check(batch)
            replay.update_priorities(batch.item_keys, priority_of(batch)).wait(SECONDS)
            assert replay.stats()["applied_updates"] == before + 64
        time.sleep(1.0)
        stats = replay.stats()
        # If this process itself was stopped for a while, it may find the late answer in time.
        assert stats["asked_again"] >= (1 if seconds > 10.0 else 0)
        assert stats["committed_steps"] == 100 * (1 + scaled_count(1))
        assert stats["lost_shards"] == 0


def test_a_silent_shard_is_left_out_of_draws(cluster):
    with make(100_000, answer_timeout=1.0) as replay:
        for who in range(2):
            append_and_wait(replay, who, 0, 100)
        sampler = replay.sampler()
        check(sampler.sample(64, timeout=SECONDS))
        delay_answers(replay._actors[0], "exchange", 3600.0, 2)
        wait_for(lambda: sampler.sample(64, timeout=SECONDS) and replay.stats()["asked_again"])
        for shard in replay._actors:
            delay_answers(shard, "exchange", 3600.0, 1000)
        with pytest.raises(TimeoutError):
            sampler.sample(64, timeout=0.3)


def test_a_shard_without_its_checkpoint_directory_comes_back_empty(cluster, tmp_path):
    with make(100_000) as replay:
        for who in range(2):
            append_and_wait(replay, who, 0, 100)
        where = tmp_path / "gone"
        replay.save(where)
        shutil.rmtree(where)
        sampler = replay.sampler()
        check(sampler.sample(64, timeout=SECONDS))
        for killed in range(1, TIMES + 1):
            kill_shard(replay, 0)
            for _ in range(3):
                check(sampler.sample(64, timeout=SECONDS))
            wait_for(lambda: replay.stats()["restarts"] == killed and all_alive(replay))
        stats = replay.stats()
        assert stats["shards"][0]["loaded_steps"] == 0
        assert any("came back empty" in note for note in stats["notes"])
        assert stats["lost_steps"] == 100
        where.write_text("a file where the directory was")
        with pytest.raises(OSError):
            replay.save(where)


def test_keys_from_before_a_restart_are_valid_if_the_checkpoint_had_their_items(cluster, tmp_path):
    with make(100_000, shards=1) as replay:
        append_and_wait(replay, 0, 0, 50)
        sampler = replay.sampler()
        saved = sampler.sample(64, timeout=SECONDS)
        replay.save(tmp_path)
        append_and_wait(replay, 1, 0, 50)
        after = sampler.sample(64, timeout=SECONDS)
        while not (after["writer"] == 1).any():
            after = sampler.sample(64, timeout=SECONDS)
        later = after.item_keys[after["writer"] == 1]
        kill_shard(replay, 0)
        wait_for(lambda: replay.stats()["restarts"] == 1 and all_alive(replay))
        # These steps may take the rows that writer 1's steps had.
        append_and_wait(replay, 2, 0, 50)
        check(sampler.sample(64, timeout=SECONDS))
        stale = replay.stats()["stale_updates"]
        replay.update_priorities(later, np.full(len(later), 100.0)).wait(SECONDS)
        replay.update_priorities(saved.item_keys, np.full(64, 3.0)).wait(SECONDS)
        stats = replay.stats()
        assert stats["applied_updates"] == 64
        assert stats["stale_updates"] - stale == len(later)
        batch = sampler.sample(512, draws="independent", timeout=SECONDS)
        raised = np.isin(batch.item_keys["key"], saved.item_keys["key"])
        ones = batch.probabilities[~raised]
        assert len(ones) and np.allclose(ones, ones[0])
        assert np.allclose(batch.probabilities[raised], 3 * ones[0], rtol=1e-6)


def test_a_loaded_shard_has_its_rows_in_a_file_again(cluster, tmp_path):
    (tmp_path / "files").mkdir()
    options = {"storage": str(tmp_path / "files"), "shards": 1}
    has_file = lambda replay: len(replay) == 50 and replay.stats()["file_bytes"] > 0
    with make(**options) as replay:
        append_and_wait(replay, 0, 0, 50)
        replay.save(tmp_path)
        kill_shard(replay, 0)
        wait_for(lambda: replay.stats()["restarts"] == 1 and all_alive(replay))
        assert has_file(replay)
    with reprise.ray.ReplayBuffer.load(
        tmp_path, numbered_schema(), 10_000, **options, **PATIENT
    ) as again:
        assert has_file(again)


def test_a_shard_killed_at_the_bound_of_the_ratio_stops_no_learner(cluster, moment):
    limiter = reprise.SampleToInsertRatio(samples_per_insert=2.0, min_size=100, error_buffer=200.0)
    with make(100_000, rate_limiter=limiter) as replay:
        writes = actor(replay, 0), actor(replay, 1)
        running = [one.run.remote(0.001) for one in writes]
        learner = LearnerThread(replay)
        wait_for(lambda: learner.batches > 10 or learner.failure)
        time.sleep(moment)
        kill_shard(replay, 0)
        before = learner.batches
        wait_for(lambda: learner.batches > before + 20 or learner.failure)
        learner.end()
        stats = replay.stats()
        balance = stats["admitted_samples"] - 2.0 * (stats["inserted_steps"] - 100)
        assert balance <= max_ahead(limiter)
        replay.close()
        for one in running:
            refuses(Exception, "losed", ray.get, one, timeout=SECONDS)
