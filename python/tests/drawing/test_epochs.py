"""Passes over the buffer."""

import numpy as np
import pytest
from testing.buffers import fill, plain_buffer

import reprise


def test_each_item_comes_once_per_pass(buffer):
    fill(buffer, 60)
    sampler = buffer.sampler(seed=2)
    assert sampler.passes == 0
    sequences = []
    for done in range(3):
        drawn = []
        for b in range(6):
            batch = sampler.sample(10, draws="epoch")
            assert sampler.passes == done + (b == 5)
            assert np.all(batch.weights == 1) and np.all(batch.probabilities == 1 / 60)
            drawn += batch["action"].tolist()
        assert sorted(drawn) == list(range(60))
        sequences.append(drawn)
    assert sequences[0] != sequences[1]


def test_a_prefetcher_counts_the_passes_of_what_it_gave_out(buffer):
    fill(buffer, 6)
    with buffer.prefetch(3, draws="epoch", depth=4) as batches:
        assert batches.passes == 0
        counted = []
        for _ in range(6):
            next(batches)
            counted.append(batches.passes)
    assert counted == [0, 1, 1, 2, 2, 3]


def test_what_has_no_passes():
    limited = plain_buffer(max_times_sampled=2)
    ordered = plain_buffer(selectors=reprise.Fifo())
    for replay in (limited, ordered):
        fill(replay, 5)
        for call in (replay.sampler().sample, replay.prefetch):
            with pytest.raises(
                ValueError, match=r"^\w+\.\w+: draws is 'epoch', of a selector that draws in"
            ):
                call(2, draws="epoch")
