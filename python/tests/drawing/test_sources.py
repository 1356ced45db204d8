"""A sampler and mixes are sources of batches, over which every stage works."""

from types import SimpleNamespace

import numpy as np
import pytest
from testing.refusals import refuses
from testing.sources import (
    SOURCES,
    STAGES,
    buffer_of,
    check_priorities_come_back,
    check_targets_of_the_call,
    parts,
)

import reprise


def state(batch):
    return batch["state"][:, 0]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", SOURCES)
def test_priorities_come_back_through_every_stage(name, stage):
    check_priorities_come_back(stage, SOURCES[name](), 16, state)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", SOURCES)
def test_returns_are_those_of_the_call(name, stage):
    window = reprise.Transitions(n_step=3, discount=0.5)
    source = SOURCES[name](lambda: parts(window=window))
    check_targets_of_the_call(stage, source, 16, "reward")
    refuses(
        ValueError, "n_step is 4; allowed: 1 to that of the window, 3", source.sample, 16, n_step=4
    )
    refuses(ValueError, "discount is 2; allowed: 0 to 1", source.prefetch, 16, discount=2.0)
    assert source.sample(16).discounts.min() == 0.125


def test_a_samplers_updates_and_prefetched_batches_use_its_own_selector():
    selectors = [reprise.Uniform(), reprise.Proportional(alpha=1.0, epsilon=0.0)]
    replay = buffer_of(0.0, selectors=selectors)
    sampler = replay.selector(1).sampler()
    check_priorities_come_back("prefetch", sampler, 16, state)
    assert (state(sampler.sample(64)) % 2 == 1).all()
    assert (state(replay.sampler().sample(64)) % 2 == 0).any()


@pytest.mark.parametrize("name", ["sampler", "guest"])
def test_a_prefetching_thread_draws_no_more_items_than_it_gives(name):
    source, same = SOURCES[name](), SOURCES[name]()
    source.sample(64)  # The memory of this larger batch may be used again.
    with source.prefetch(16) as batches:
        for _, batch in zip(range(8), batches):
            assert (state(batch) == state(same.sample(16))).all()


@pytest.mark.parametrize("name", SOURCES)
def test_prefetched_batches_equal_those_of_a_second_source(name):
    source, same = SOURCES[name](), SOURCES[name]()
    with source.prefetch(16, depth=3, beta=0.7) as batches:
        for _, batch in zip(range(20), batches):
            expected = same.sample(16, beta=0.7)
            assert (state(batch) == state(expected)).all()
            assert (batch.weights == expected.weights).all()
        with pytest.raises(TimeoutError, match="Prefetcher.get"):
            for _ in range(100_000):  # The prefetching thread may keep ahead for a while.
                batches.get(timeout=0)
    assert (state(source.sample(16)) == state(SOURCES[name]().sample(16))).all()
    refuses(ValueError, "depth is 0; allowed: 1 to 1024", source.prefetch, 16, depth=0)
    refuses(ValueError, "beta is 2; allowed: 0 to 1", source.prefetch, 16, beta=2.0)


def first_batches(source, count=3):
    """Returns the first batch of each of `count` prefetchers."""
    made = []
    for _ in range(count):
        with source.prefetch(16) as batches:
            made.append(tuple(state(next(batches))))
    return made


@pytest.mark.parametrize("name", SOURCES)
def test_each_prefetcher_of_a_source_draws_other_batches(name):
    made = first_batches(SOURCES[name]())
    assert len(set(made)) == 3 and made == first_batches(SOURCES[name]())
    assert made[0] == tuple(state(SOURCES[name]().sample(16)))


def test_the_first_prefetcher_of_a_resumed_sampler_continues_its_draws(tmp_path):
    sampler = buffer_of(0.0).sampler(seed=5)
    replay = buffer_of(0.0)
    saved = replay.sampler(seed=5)
    for each in (sampler, saved):
        each.sample(16)
    replay.save(tmp_path, samplers=[saved])
    resumed = reprise.ReplayBuffer.load(tmp_path)[0].sampler(resume=0)
    made = first_batches(resumed)
    assert len(set(made)) == 3 and made[0] == tuple(state(sampler.sample(16)))


@pytest.mark.parametrize("name", SOURCES)
def test_batches_are_in_the_memory_of_the_source_or_of_the_call(name):
    def allocator(made):
        def allocate(nbytes):
            made.append(np.empty(nbytes, np.uint8))
            return made[-1]

        return allocate

    def is_in(memory, batch):
        return any(np.shares_memory(batch["state"], each) for each in memory)

    own, other = [], []
    source = SOURCES[name](allocator=allocator(own))
    assert is_in(own, source.sample(16))
    with source.prefetch(16) as batches:
        assert is_in(own, next(batches))
    with source.prefetch(16, allocator=allocator(other)) as batches:
        assert is_in(other, next(batches))


def test_a_mix_gives_batches_of_its_length():
    for kind in ("exact parts", "common total"):
        mix = SOURCES[kind]()
        assert len(mix.sample(16)) == len(mix.sample()) == 16
        for call in (mix.sample, mix.prefetch):
            refuses(ValueError, "n is 7; allowed: the length of the mix, 16", call, 7)


def test_another_sampler_is_made_after_a_restore(tmp_path):
    replay = buffer_of(0.0)
    sampler = replay.sampler()
    keys = sampler.sample(4).item_keys
    replay.save(tmp_path)
    replay.restore(tmp_path)
    for call in (lambda: sampler.update_priorities(keys, np.ones(4)), lambda: sampler.prefetch(4)):
        refuses(reprise.Closed, "the buffer was restored since; make another sampler", call)
    assert replay.sampler().update_priorities(keys, np.ones(4)) == (4, 0)


def test_closing_a_loader_waits_for_updates_that_the_source_makes_in_the_background():
    pytest.importorskip("torch")
    from reprise.torch import loader

    sampler, waited = buffer_of(0.0).sampler(), []

    def wait(closed):
        waited.append(closed)
        if closed:
            raise reprise.Closed

    for closed in (False, True):
        under_way = SimpleNamespace(wait=lambda: wait(closed))
        source = SimpleNamespace(sample=sampler.sample, update_priorities=lambda *_: under_way)
        with loader(source, 16, device="cpu", thread=False) as batches:
            batch = next(batches)
            batches.update_priorities(batch.item_keys, batch.weights)
            assert waited == [False] * closed
    assert waited == [False, True]
