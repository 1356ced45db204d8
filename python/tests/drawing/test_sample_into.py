"""Sampler.sample_into draws into slots of the caller's batch."""

import numpy as np
import pytest
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses

import reprise


def test_sample_into_changes_only_the_named_slots(buffer):
    fill(buffer, 100)
    sampler = buffer.sampler(seed=1)
    batch = sampler.empty_batch(16)
    sampler.sample_into(batch, 0, 16)
    before = {name: array.copy() for name, array in batch.items()}
    keys = batch.item_keys.copy()
    own = sampler.sample(4)
    assert not own.views
    sampler.sample_into(own, 0, 4)
    assert own.views  # As a batch that a call fills again.
    buffer.sampler(seed=5).sample_into(batch, 4, 8, beta=1.0, draws="independent")
    kept = np.r_[0:4, 12:16]
    assert (batch.item_keys[kept] == keys[kept]).all()
    assert (batch.item_keys[4:12] != keys[4:12]).any()
    for name, array in batch.items():
        assert (array[kept] == before[name][kept]).all()
    assert (batch["next_state"][:, 0] == batch["state"][:, 0] + 1).all()


def test_sample_into_refuses_other_places_and_batches(buffer):
    fill(buffer, 10)
    sampler = buffer.sampler()
    batch = sampler.empty_batch(4)
    for offset, n in ((0, 5), (4, 1), (5, 1), (2**40, 1)):
        with pytest.raises(ValueError, match="allowed: places of the batch, which has 4"):
            sampler.sample_into(batch, offset, n)
    for n in (0, -1):
        refuses(ValueError, "allowed: at least 1", sampler.sample_into, batch, 0, n)
        refuses(ValueError, "allowed: at least 1", sampler.empty_batch, n)
    schema = reprise.Schema().observation("state", np.float32, (3,)).reward()
    foreign = reprise.ReplayBuffer(schema, 100).sampler().empty_batch(4)
    refuses(ValueError, "another schema", sampler.sample_into, foreign, 0, 1)
    with pytest.raises(TypeError):
        sampler.sample_into({}, 0, 1)
    empty = plain_buffer(10, window=buffer.options["window"])
    refuses(TimeoutError, "0 of the 1 items", empty.sampler().sample_into, batch, 0, 1, timeout=0)
