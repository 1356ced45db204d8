"""Passes over the buffer."""

import numpy as np
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses

import reprise


def test_a_sampler_counts_its_passes(buffer):
    fill(buffer, 60)
    sampler = buffer.sampler(seed=2)
    drawn = []
    for passes in (0, 1, 1, 2):
        batch = sampler.sample(30, draws="epoch")
        assert sampler.passes == passes and np.all(batch.weights == 1)
        drawn += batch["action"].tolist()
    assert sorted(drawn) == sorted(2 * list(range(60)))


def test_a_prefetcher_counts_only_passes_it_has_given_out(buffer):
    fill(buffer, 6)
    with buffer.prefetch(3, draws="epoch", depth=4) as batches:
        assert batches.passes == 0
        counted = []
        for _ in range(6):
            next(batches)
            counted.append(batches.passes)
    assert counted == [0, 1, 1, 2, 2, 3]


def test_passes_are_refused_of_selectors_that_draw_in_order():
    limited = plain_buffer(max_times_sampled=2)
    ordered = plain_buffer(selectors=reprise.Fifo())
    for replay in (limited, ordered):
        fill(replay, 5)
        for call in (replay.sampler().sample, replay.prefetch):
            said = r"^\w+\.\w+: draws is 'epoch', of a selector that draws in"
            refuses(ValueError, said, call, 2, draws="epoch")
