"""The rate limiter of reprise.ray serves the process that has waited longest first."""

import time

import pytest

from testing.refusals import refuses
from testing.ray_cluster import (
    ray,
    SECONDS,
    append,
    check,
    local_coordinator,
    make,
    append_and_wait,
)
from testing.ray_cluster import wait_for

import reprise
import reprise.ray
from reprise.ray import _coordinator
from reprise.ray._coordinator import Counts

LIMITER = reprise.SampleToInsertRatio(samples_per_insert=4.0, min_size=100, error_buffer=400.0)
ONE_EACH = reprise.SampleToInsertRatio(samples_per_insert=1.0, min_size=1, error_buffer=512.0)


def insert(coordinator, who, steps):
    return coordinator.insert(0, 1, who, [steps], 1000, Counts())[0]


def sample(coordinator, who, n):
    return coordinator.sample(who, n, Counts())[0]


def coordinator_without_room():
    """A coordinator whose limiter refuses inserts; "first" waits for room."""
    coordinator = local_coordinator(LIMITER, 100_000)
    while insert(coordinator, "first", 20):
        pass
    return coordinator


def coordinator_without_samples():
    """A coordinator whose limiter refuses samples, and for which nobody waits."""
    coordinator = local_coordinator(ONE_EACH, 100_000)
    assert insert(coordinator, "writer", 100)
    while sample(coordinator, "first", 32):
        pass
    coordinator.leave("first")
    return coordinator


def test_processes_get_room_by_turns_however_often_they_ask(monkeypatch):
    monkeypatch.setattr(_coordinator, "SILENT_SECONDS", SECONDS)
    coordinator = coordinator_without_room()
    coordinator._waiting_inserts.remove("first")
    counts = dict.fromkeys("abc", 0)
    for _ in range(300):
        assert sample(coordinator, "learner", 80)  # Makes room for one shipment of 20 steps.
        # "a" asks four times a round and "b" once. "c" asks whether there is room before it
        # inserts.
        for who in "aaabaac":
            if who == "c" and not coordinator.credit("c", [20]):
                continue
            counts[who] += coordinator.insert(0, 1, who, [20, 20], 1000, Counts())[0]
    assert sum(counts.values()) >= 295  # Nearly every one of the 300 shipments' room was used.
    assert max(counts.values()) - min(counts.values()) <= 2, counts


def test_a_process_that_stops_asking_for_room_holds_up_no_other(monkeypatch):
    coordinator = coordinator_without_room()
    assert not insert(coordinator, "gone", 20)
    assert not insert(coordinator, "here", 20)
    assert sample(coordinator, "learner", 80)
    assert not insert(coordinator, "here", 20)  # "gone" has waited longer.
    monkeypatch.setattr(_coordinator, "SILENT_SECONDS", 0.0)
    wait_for(lambda: insert(coordinator, "here", 20))


def test_samplers_are_let_in_by_turns_however_often_they_ask(monkeypatch):
    monkeypatch.setattr(_coordinator, "SILENT_SECONDS", SECONDS)
    coordinator = coordinator_without_samples()
    sizes = {"large": 256, "small": 32, "often": 32}
    counts = dict.fromkeys(sizes, 0)
    for _ in range(4000):
        assert insert(coordinator, "writer", 8)
        for who in ("often", "small", "often", "large", "often"):
            counts[who] += sample(coordinator, who, sizes[who])
    assert sum(counts.values()) >= 290
    assert max(counts.values()) - min(counts.values()) <= 2, counts


def test_a_sampler_may_pass_one_that_waits_if_there_is_enough_for_both():
    coordinator = coordinator_without_samples()
    assert not sample(coordinator, "large", 256)
    assert insert(coordinator, "writer", 256) and not sample(coordinator, "small", 32)
    assert insert(coordinator, "writer", 32) and sample(coordinator, "small", 32)
    assert sample(coordinator, "large", 256)


@pytest.mark.parametrize("how", ["leaves", "is silent"])
def test_a_sampler_that_stops_asking_holds_up_no_other(monkeypatch, how):
    coordinator = coordinator_without_samples()
    assert not sample(coordinator, "gone", 256)
    assert insert(coordinator, "writer", 64) and not sample(coordinator, "here", 32)
    if how == "leaves":
        coordinator.leave("gone")
    else:
        monkeypatch.setattr(_coordinator, "SILENT_SECONDS", 0.0)
    wait_for(lambda: sample(coordinator, "here", 32))


def test_a_batch_that_the_limiter_can_never_allow_is_refused_at_once():
    coordinator = coordinator_without_samples()
    assert not sample(coordinator, "waits", 256)
    refuses(ValueError, "batch size is 5000", sample, coordinator, "wrong", 5000)
    assert insert(coordinator, "writer", 256) and sample(coordinator, "waits", 256)


def test_a_call_that_is_undone_gives_up_its_turn(monkeypatch):
    monkeypatch.setattr(_coordinator, "SILENT_SECONDS", SECONDS)
    coordinator = coordinator_without_samples()
    coordinator.undo_admitted(coordinator.sample("gone", 256, Counts()), "gone", 256)
    assert insert(coordinator, "writer", 64) and sample(coordinator, "here", 32)


class BatchCounts:
    """Counts the batches of each learner."""

    def __init__(self):
        self.counts = {}

    def add(self, who, batches):
        self.counts[who] = self.counts.get(who, 0) + batches

    def all(self):
        return self.counts


def learn(replay, n, counts):
    sampler = replay.sampler()
    ray.get(counts.add.remote(n, 0))
    try:
        while True:
            check(sampler.sample(n))
            ray.get(counts.add.remote(n, 1))
    except reprise.Closed:
        pass


def test_a_large_batch_is_not_starved_by_small_ones_of_another_process(cluster):
    """The writer appends a few steps at a time. If small batches took each step's samples at once,
    there would never be enough for a large batch."""
    with make(100_000, rate_limiter=LIMITER) as replay:
        writer, steps = replay.writer(timeout=SECONDS), 0
        counts = ray.remote(BatchCounts).options(num_cpus=0).remote()
        learner = ray.remote(num_cpus=0)(learn)
        learning = [learner.remote(replay, n, counts) for n in (256, 32)]
        wait_for(lambda: len(ray.get(counts.all.remote())) == 2)
        end = time.monotonic() + SECONDS
        while ray.get(counts.all.remote())[256] < 10:
            assert time.monotonic() < end, ray.get(counts.all.remote())
            append(writer, 0, steps, steps + 4)
            writer.flush(SECONDS)
            steps += 4
        replay.close()
        ray.get(learning, timeout=SECONDS)


def waiting_samplers(coordinator):
    return list(coordinator._waiting_draws._waiting)


def test_calls_and_prefetchers_give_up_their_turns_when_they_end_or_are_served(cluster):
    with make(rate_limiter=ONE_EACH) as replay:
        waiting = lambda: ray.get(replay._coordinator.__ray_call__.remote(waiting_samplers))
        append_and_wait(replay, 0, 0, 100)
        sampler = replay.sampler()
        check(sampler.sample(512, timeout=SECONDS))

        def says_why():  # The call may also time out before the coordinator has answered.
            with pytest.raises(TimeoutError) as caught:
                sampler.sample(256, timeout=0.05)
            return "ahead of the ratio" in str(caught.value)

        wait_for(says_why)
        wait_for(lambda: not waiting())
        # Three of four batches are drawn ahead: the prefetcher asks for two at a time, and the
        # ratio allows no more.
        with replay.prefetch(32, depth=4) as prefetcher:
            wait_for(lambda: len(prefetcher._ready) == 3)
            wait_for(lambda: not waiting())
            next(prefetcher)
            wait_for(waiting)
        wait_for(lambda: not waiting())
