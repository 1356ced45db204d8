"""reprise.ray: who waits longest for the rate limiter is let in first."""

import pytest

from testing.ray_cluster import ray, SECONDS, check, lone_coordinator, make, record, wait_for

import reprise
import reprise.ray
from reprise.ray import _coordinator

LIMITER = reprise.SampleToInsertRatio(samples_per_insert=4.0, min_size=100, error_buffer=400.0)
ONE_EACH = reprise.SampleToInsertRatio(samples_per_insert=1.0, min_size=1, error_buffer=512.0)


class Gates:
    """A coordinator of a shard that has enough items."""

    def __init__(self, limiter):
        self.coordinator = lone_coordinator(limiter, 100_000)
        self.heartbeat(0, 1000)

    def heartbeat(self, committed, items=1000):
        self.coordinator.heartbeat(0, 1, committed, items)

    def enter(self, gate, who, *sizes):
        return self.coordinator.enter(gate, who, sizes).done

    def insert(self, who, *sizes):
        return self.enter("insert", who, *sizes)

    def sample(self, who, *sizes):
        return self.enter("sample", who, *sizes)


@pytest.fixture
def patient(monkeypatch):
    """Who asks no more keeps its turn."""
    monkeypatch.setattr(_coordinator, "SILENT_SECONDS", SECONDS)
    monkeypatch.setattr(_coordinator, "UNUSED_SECONDS", SECONDS)


def without_room():
    gates = Gates(LIMITER)
    while gates.insert("first", 20):
        pass
    gates.coordinator.leave("insert", "first")
    return gates


def without_samples():
    gates = Gates(ONE_EACH)
    assert gates.insert("writer", 100)
    while gates.sample("first", 32):
        pass
    gates.coordinator.leave("sample", "first")
    return gates


def test_processes_get_room_by_turns_however_often_they_ask(patient):
    gates, counts = without_room(), dict.fromkeys("abc", 0)
    for _ in range(300):
        assert gates.sample("learner", 80)  # Makes room for one shipment.
        for who in "aaabaac":
            counts[who] += gates.insert(who, 20, 20)
    assert sum(counts.values()) >= 295
    assert max(counts.values()) - min(counts.values()) <= 2, counts


def test_samplers_are_let_in_by_turns_however_often_they_ask(patient):
    gates, sizes = without_samples(), {"large": 256, "small": 32, "often": 32}
    counts = dict.fromkeys(sizes, 0)
    for _ in range(4000):
        assert gates.insert("writer", 8)
        for who in ("often", "small", "often", "large", "often"):
            counts[who] += gates.sample(who, sizes[who])
    assert sum(counts.values()) >= 290
    assert max(counts.values()) - min(counts.values()) <= 2, counts


@pytest.mark.parametrize("how", ["leaves", "is silent", "is undone"])
@pytest.mark.parametrize("gate", ["insert", "sample"])
def test_who_asks_no_more_holds_nobody(monkeypatch, gate, how):
    monkeypatch.setattr(_coordinator, "SILENT_SECONDS", 0.0 if how == "is silent" else SECONDS)
    gates = without_room() if gate == "insert" else without_samples()
    large, small = (40, 20) if gate == "insert" else (256, 32)
    entered = gates.coordinator.enter(gate, "gone", [large])
    assert not entered.done
    assert gates.sample("learner", 80) if gate == "insert" else gates.insert("writer", 64)
    if how != "is silent":
        assert not gates.enter(gate, "here", small)  # "gone" waits longer.
    if how == "leaves":
        gates.coordinator.leave(gate, "gone")
    elif how == "is undone":
        gates.coordinator.undo(entered, gate, "gone", [large])
    wait_for(lambda: gates.enter(gate, "here", small))


def test_a_sampler_passes_who_waits_where_there_is_enough_for_both():
    gates = without_samples()
    assert not gates.sample("large", 256)
    assert gates.insert("writer", 256) and not gates.sample("small", 32)
    assert gates.insert("writer", 32) and gates.sample("small", 32)
    assert gates.sample("large", 256)


def test_a_batch_that_never_could_be_is_refused_whoever_waits():
    gates = without_samples()
    assert not gates.sample("waits", 256)
    with pytest.raises(ValueError, match="batch size is 5000"):
        gates.sample("wrong", 5000)
    assert gates.insert("writer", 256) and gates.sample("waits", 256)


def test_samples_that_are_taken_back_may_be_admitted_again():
    gates = without_samples()
    for _ in range(3):
        gates.coordinator.undo_samples(32)
        assert gates.sample("learner", 32) and not gates.sample("learner", 32)
    late = gates.coordinator.enter("sample", "learner", [32])._replace(done=1)
    gates.coordinator.undo(late, "sample", "learner", [32])
    assert gates.sample("learner", 32) and not gates.sample("learner", 32)


def test_steps_that_were_let_in_and_do_not_come_make_room_for_others(monkeypatch):
    gates = without_room()
    let_in = gates.coordinator.stats()["inserted_steps"]
    gates.heartbeat(let_in - 40)
    monkeypatch.setattr(_coordinator, "UNUSED_SECONDS", 0.0)
    wait_for(lambda: gates.heartbeat(let_in - 40) or gates.insert("other", 40))
    assert gates.coordinator.stats()["inserted_steps"] == let_in
    gates.heartbeat(let_in + 40)  # They came after all.
    assert gates.coordinator.stats()["inserted_steps"] == let_in + 40
    assert gates.sample("learner", 80) and not gates.insert("other", 20)
    assert gates.sample("learner", 160) and gates.insert("other", 20)


def test_steps_that_were_let_in_count_as_items_before_shards_tell_those(patient):
    gates = Gates(ONE_EACH)
    gates.heartbeat(0, items=0)
    assert gates.insert("writer", *[1] * 1000) <= 1 + 512 + 64


def waiting_samplers(coordinator):
    return list(coordinator._gates["sample"]._waiting)


def test_calls_and_prefetchers_that_end_or_have_what_they_want_give_up_their_turns(cluster):
    with make(rate_limiter=ONE_EACH) as replay:
        waiting = lambda: ray.get(replay._coordinator.__ray_call__.remote(waiting_samplers))
        record(replay, 0, 0, 100)
        sampler = replay.sampler()
        check(sampler.sample(512, timeout=SECONDS))

        def says_why():  # It may also time out before the coordinator has answered.
            with pytest.raises(TimeoutError) as caught:
                sampler.sample(256, timeout=0.05)
            return "ahead of the ratio" in str(caught.value)

        wait_for(says_why)
        wait_for(lambda: not waiting())
        # Three batches of four places, of which two are asked for at a time.
        with replay.prefetch(32, depth=4) as prefetcher:
            wait_for(lambda: len(prefetcher._ready) == 3)
            wait_for(lambda: not waiting())
            next(prefetcher)
            wait_for(waiting)
        wait_for(lambda: not waiting())
