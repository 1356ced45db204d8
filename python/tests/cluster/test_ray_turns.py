"""reprise.ray: who waits longest for the rate limiter is let in first."""

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

import ray
import reprise
import reprise.ray
from testing.ray_cluster import (
    SECONDS,
    append,
    check,
    make,
    numbered_schema,
    record,
    started,
    wait_for,
)
from reprise.ray import _head
from reprise.ray._head import Head, Sums
from reprise.ray._options import spec_of

LIMITER = reprise.SampleToInsertRatio(samples_per_insert=4.0, min_size=100, error_buffer=400.0)
ONE_EACH = reprise.SampleToInsertRatio(samples_per_insert=1.0, min_size=1, error_buffer=512.0)


@pytest.fixture(scope="module")
def cluster():
    with started() as made:
        yield made


def new_head(limiter):
    options = {"rate_limiter": limiter}
    head = Head(spec_of(numbered_schema(), 100_000, "alone", 1, "learner", 1.0, False, options))
    head.begin()
    head.started(0, 1, 0, "")
    return head


def insert(head, who, steps):
    return head.insert(0, 1, who, [steps], 1000, Sums())[0]


def sample(head, who, n):
    return head.sample(who, n, Sums())[0]


def head_without_room():
    head = new_head(LIMITER)
    while insert(head, "first", 20):
        pass
    return head


def head_without_samples():
    head = new_head(ONE_EACH)
    assert insert(head, "writer", 100)
    while sample(head, "first", 32):
        pass
    head.leave("first")
    return head


def test_processes_get_room_by_turns_however_often_they_ask(monkeypatch):
    monkeypatch.setattr(_head, "SILENT_SECONDS", SECONDS)
    head = head_without_room()
    head._turns.served("first")
    got = dict.fromkeys("abc", 0)
    for _ in range(300):
        assert sample(head, "learner", 80)  # Makes room for one shipment.
        # `a` asks all the time, `b` now and then; `c` asks first whether there would be room.
        for who in "aaabaac":
            if who == "c" and not head.room("c", [20]):
                continue
            got[who] += head.insert(0, 1, who, [20, 20], 1000, Sums())[0]
    assert sum(got.values()) >= 295
    assert max(got.values()) - min(got.values()) <= 2, got


def test_who_asks_no_more_for_room_holds_nobody(monkeypatch):
    head = head_without_room()
    assert not insert(head, "gone", 20)
    assert not insert(head, "here", 20)
    assert sample(head, "learner", 80)
    assert not insert(head, "here", 20)  # The other one waits longer.
    monkeypatch.setattr(_head, "SILENT_SECONDS", 0.0)
    wait_for(lambda: insert(head, "here", 20))


def test_samplers_are_let_in_by_turns_however_often_they_ask(monkeypatch):
    monkeypatch.setattr(_head, "SILENT_SECONDS", SECONDS)
    head = head_without_samples()
    sizes = {"large": 256, "small": 32, "often": 32}
    got = dict.fromkeys(sizes, 0)
    for _ in range(4000):
        assert insert(head, "writer", 8)
        for who in ("often", "small", "often", "large", "often"):
            got[who] += sample(head, who, sizes[who])
    assert sum(got.values()) >= 290
    assert max(got.values()) - min(got.values()) <= 2, got


def test_a_sampler_passes_who_waits_where_there_is_enough_for_both():
    head = head_without_samples()
    assert not sample(head, "large", 256)
    assert insert(head, "writer", 256) and not sample(head, "small", 32)
    assert insert(head, "writer", 32) and sample(head, "small", 32)
    assert sample(head, "large", 256)


@pytest.mark.parametrize("how", ["leaves", "is silent"])
def test_a_sampler_that_asks_no_more_holds_nobody(monkeypatch, how):
    head = head_without_samples()
    assert not sample(head, "gone", 256)
    assert insert(head, "writer", 64) and not sample(head, "here", 32)
    if how == "leaves":
        head.leave("gone")
    else:
        monkeypatch.setattr(_head, "SILENT_SECONDS", 0.0)
    wait_for(lambda: sample(head, "here", 32))


def test_a_batch_that_never_could_be_is_refused_whoever_waits():
    head = head_without_samples()
    assert not sample(head, "waits", 256)
    with pytest.raises(ValueError, match="batch size is 5000"):
        sample(head, "wrong", 5000)
    assert insert(head, "writer", 256) and sample(head, "waits", 256)


def test_a_call_that_is_undone_leaves_its_turn(monkeypatch):
    monkeypatch.setattr(_head, "SILENT_SECONDS", SECONDS)
    head = head_without_samples()
    head.undo_admitted(head.sample("gone", 256, Sums()), "gone", 256)
    assert insert(head, "writer", 64) and sample(head, "here", 32)


class Got:
    """Counts batches of learners."""

    def __init__(self):
        self.got = {}

    def add(self, who, batches):
        self.got[who] = self.got.get(who, 0) + batches

    def all(self):
        return self.got


def learn(replay, n, got):
    sampler = replay.sampler()
    ray.get(got.add.remote(n, 0))
    try:
        while True:
            check(sampler.sample(n))
            ray.get(got.add.remote(n, 1))
    except reprise.Closed:
        pass


def test_a_large_batch_is_not_starved_by_small_ones_of_another_process(cluster):
    """The writer appends a few steps at a time, so that there never is room for a large batch while
    the small ones take it all."""
    with make(100_000, rate_limiter=LIMITER) as replay:
        writer, steps = replay.writer(timeout=SECONDS), 0
        got = ray.remote(Got).options(num_cpus=0).remote()
        learner = ray.remote(num_cpus=0)(learn)
        learning = [learner.remote(replay, n, got) for n in (256, 32)]
        wait_for(lambda: len(ray.get(got.all.remote())) == 2)
        while sum(ray.get(got.all.remote()).values()) < 60:
            append(writer, 0, steps, steps + 4)
            writer.flush(SECONDS)
            steps += 4
        batches = ray.get(got.all.remote())
        replay.close()
        ray.get(learning, timeout=SECONDS)
    # One may be passed while its process stands still for longer than a turn lasts.
    assert batches[32] <= 5 * batches[256], batches


def waiting_samplers(head):
    return list(head._draws._waiting)


def test_calls_and_prefetchers_that_end_or_have_what_they_want_give_up_their_turns(cluster):
    with make(rate_limiter=ONE_EACH) as replay:
        waiting = lambda: ray.get(replay._head.__ray_call__.remote(waiting_samplers))
        record(replay, 0, 0, 100)
        sampler = replay.sampler()
        check(sampler.sample(512, timeout=SECONDS))
        with pytest.raises(TimeoutError, match="ahead of the ratio"):
            sampler.sample(256, timeout=0.05)
        wait_for(lambda: not waiting())
        # Three batches of four places, of which two are asked for at a time.
        with replay.prefetch(32, depth=4) as prefetcher:
            wait_for(lambda: len(prefetcher._ready) == 3)
            wait_for(lambda: not waiting())
            next(prefetcher)
            wait_for(waiting)
        wait_for(lambda: not waiting())
