"""Sampler.sample_into and reprise.mix: exact parts of several buffers, with one set of weights."""

import numpy as np
import pytest
from conftest import fill, plain_schema

import reprise


def buffer_of(first, steps=50, alpha=1.0, **options):
    made = reprise.ReplayBuffer(
        plain_schema(),
        1000,
        selectors=reprise.Proportional(alpha=alpha, epsilon=0.0),
        shards=1,
        **options,
    )
    fill(made, steps, first)
    return made


def test_parts_are_exact_and_in_their_places():
    online, demonstrations = buffer_of(0.0), buffer_of(1000.0)
    both = reprise.mix([(online, 12), (demonstrations, 20)], seed=1)
    assert len(both) == 32 and both.parts == [slice(0, 12), slice(12, 32)]
    batch = both.sample()
    assert len(batch) == 32
    of_online = batch["state"][:, 0] < 1000
    assert of_online[:12].all() and not of_online[12:].any()
    assert (batch["next_state"][:, 0] == batch["state"][:, 0] + 1).all()
    np.testing.assert_array_equal(batch.returns["reward"], batch["reward"])


def test_weights_are_normalised_over_the_whole_batch():
    one, other = buffer_of(0.0, 10), buffer_of(1000.0, 40)
    batch = one.sampler().sample(10, draws="without_replacement")
    one.update_priorities(batch.item_keys, np.where(batch["state"][:, 0] == 0, 10.0, 1.0))
    both = reprise.mix([(one, 8), (other, 8)])
    batch = both.sample(beta=1.0)
    size = np.where(batch["state"][:, 0] < 1000, 10, 40)
    raw = 1.0 / (size * batch.probabilities)
    np.testing.assert_allclose(batch.weights, raw / raw.max(), rtol=1e-5)
    raw_batch = both.sample(beta=1.0, normalise="not")
    size = np.where(raw_batch["state"][:, 0] < 1000, 10, 40)
    np.testing.assert_allclose(raw_batch.weights, 1 / (size * raw_batch.probabilities), rtol=1e-5)


def test_one_update_reaches_both():
    one, other = buffer_of(0.0, 30, key_tag=7), buffer_of(1000.0, 50, key_tag=7)
    both = reprise.mix([(one, 200), (other, 200)])
    batch = both.sample()
    wanted = np.isin(batch["state"][:, 0], (3, 1005))
    assert both.update_priorities(batch.item_keys, wanted) == (400, 0)
    assert set(both.sample()["state"][:, 0].tolist()) == {3, 1005}
    for keys, priorities in ((batch.item_keys[:9], np.ones(400)), (batch.item_keys, [1.0])):
        with pytest.raises(ValueError, match="Mix.update_priorities: .* elements; allowed: 400"):
            both.update_priorities(keys, priorities)


def test_weights_by_buffer_are_for_one_buffer():
    one, other = buffer_of(0.0), buffer_of(1000.0)
    with pytest.raises(ValueError, match="normalise is 'by_buffer', and there are 2 buffers"):
        reprise.mix([(one, 4), (other, 4)]).sample(normalise="by_buffer")
    batch = reprise.mix([(one, 4)]).sample(normalise="by_buffer")
    np.testing.assert_allclose(batch.weights, 1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_wrong_priorities_change_no_buffer(wrong):
    one, other = buffer_of(0.0), buffer_of(1000.0)
    both = reprise.mix([(one, 4), (other, 4)])
    batch = both.sample()
    with pytest.raises(ValueError, match=r"priorities\[7\] is .*; allowed: finite, at least 0"):
        both.update_priorities(batch.item_keys, [2.0] * 7 + [wrong])
    assert one.stats()["applied_updates"] == other.stats()["applied_updates"] == 0


def test_what_does_not_fit_is_refused():
    schema = reprise.Schema().observation("state", np.float32, (3,)).reward()
    foreign = reprise.ReplayBuffer(schema, 100)
    longer = buffer_of(0.0, window=reprise.Transitions(n_step=3))
    mine = buffer_of(0.0)
    for parts, message in (
        ([], "parts is empty"),
        ([(mine, 1), (mine, 0)], r"parts\[1\] has 0 items"),
        ([(mine, 1), (foreign, 1)], "allowed: that of the first part, Schema"),
        ([(mine, 1), (longer, 1)], "allowed: that of the first part, Transitions"),
    ):
        with pytest.raises(ValueError, match=message):
            reprise.mix(parts)
    for wrong in (1.5, 2.0, "2", None):
        with pytest.raises(
            TypeError, match=r"mix: parts\[1\] is .*; allowed: a ReplayBuffer and an"
        ):
            reprise.mix([(mine, 1), (mine, wrong)])
    with pytest.raises(TypeError, match=r"mix: parts\[0\] is <reprise.ReplayBuffer"):
        reprise.mix([mine])
    assert len(reprise.mix([(mine, np.int64(3))])) == 3
    empty = reprise.ReplayBuffer(plain_schema(), 100)
    with pytest.raises(TimeoutError, match="0 of the 1 items"):
        reprise.mix([(mine, 2), (empty, 2)]).sample(timeout=0.0)


def test_sample_into_fills_its_places_alone(buffer):
    fill(buffer, 100)
    sampler = buffer.sampler(seed=1)
    batch = sampler.empty_batch(16)
    sampler.sample_into(batch, 0, 16)
    before = {name: array.copy() for name, array in batch.items()}
    keys = batch.item_keys.copy()
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
        with pytest.raises(ValueError, match="allowed: at least 1"):
            sampler.sample_into(batch, 0, n)
        with pytest.raises(ValueError, match="allowed: at least 1"):
            sampler.empty_batch(n)
    schema = reprise.Schema().observation("state", np.float32, (3,)).reward()
    foreign = reprise.ReplayBuffer(schema, 100).sampler().empty_batch(4)
    with pytest.raises(ValueError, match="another schema"):
        sampler.sample_into(foreign, 0, 1)
    with pytest.raises(TypeError):
        sampler.sample_into({}, 0, 1)
    empty = reprise.ReplayBuffer(plain_schema(), 10, window=buffer.options["window"])
    with pytest.raises(TimeoutError, match="0 of the 1 items"):
        empty.sampler().sample_into(batch, 0, 1, timeout=0)
