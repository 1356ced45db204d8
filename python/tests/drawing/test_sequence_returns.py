"""n-step returns and discounts of each step of a sequence."""

import numpy as np
import pytest

from testing.refusals import refuses
import reprise


def filled(window):
    """Returns a buffer of two episodes whose rewards are 1, 2, 3 and so on."""
    schema = reprise.Schema().observation("state", np.float32).reward()
    replay = reprise.ReplayBuffer(schema, 1000, window=window, selectors=reprise.Uniform())
    writer = replay.writer()
    for steps in (8, 3):
        state, reward = np.arange(steps + 1), np.arange(1, steps + 1)
        writer.append_episode(state=state, reward=reward, end=reprise.End.TERMINATED)
    return replay


def test_sequences_without_n_step_have_no_returns():
    batch = filled(reprise.Sequences(length=4, period=4)).sampler().sample(8)
    assert batch.returns == {} and batch.discounts.shape == (8,)
    with pytest.raises(KeyError, match="of Batch.returns: none: sequences have returns with n_ste"):
        batch.returns["reward"]


def test_returns_of_sequences_are_in_every_kind_of_batch():
    replay = filled(reprise.Sequences(length=4, period=4, n_step=2, discount=0.5))
    batch = replay.sampler(seed=1).sample(8)
    assert batch.discounts.dtype == batch.returns["reward"].dtype == np.float32
    again = replay.gather(batch.item_keys)
    np.testing.assert_array_equal(again.returns["reward"], batch.returns["reward"])
    np.testing.assert_array_equal(again.discounts, batch.discounts)
    mixed = reprise.mix([(replay, 3), (replay, 5)]).sample()
    assert mixed.discounts.shape == mixed.returns["reward"].shape == (8, 4)
    one = filled(reprise.Sequences(length=1, period=1, n_step=3)).sampler().sample(30)
    assert one.discounts.shape == one.returns["reward"].shape == (30, 1)


def test_tensors():
    torch = pytest.importorskip("torch")
    batch = filled(reprise.Sequences(length=4, period=4, n_step=2)).sampler(seed=1).sample(8)
    tensors = batch.torch()
    assert torch.equal(tensors.discounts, torch.from_numpy(batch.discounts))
    assert tensors.returns["reward"].shape == (8, 4)


@pytest.mark.parametrize(
    "given, says",
    [({"n_step": 65536}, "n_step is 65536"), ({"n_step": -1}, "n_step"), ({"discount": 2}, "is 2")],
)
def test_refusals(given, says):
    refuses(ValueError, says, filled, reprise.Sequences(**given))
