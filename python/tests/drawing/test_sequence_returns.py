"""n-step returns and discounts of each step of a sequence, against a plain model."""

import numpy as np
import pytest

import reprise


def filled(window, ends, own=False):
    """An episode of random rewards for each (steps, end), its state counting its steps."""
    schema = reprise.Schema().observation("state", np.float32).reward()
    schema = schema.discount("own") if own else schema
    replay = reprise.ReplayBuffer(
        schema, 1000, window=window, selectors=reprise.Uniform(), episode_index=True
    )
    random = np.random.default_rng(7)
    episodes = {}
    writer = replay.writer()
    for steps, end in ends:
        rewards = random.normal(size=steps).astype(np.float32)
        owns = random.choice([0.5, 1.0], size=steps).astype(np.float32)
        writer.append_episode(
            state=np.arange(steps + 1),
            reward=rewards,
            end=end,
            **({"own": owns} if own else {}),
        )
        episodes[writer.episode_id] = (rewards, owns if own else np.ones(steps), end)
    return replay, episodes


def target(rewards, owns, end, first, steps, gamma):
    """Of `steps` steps of an episode: their return, and the factor of the value behind them."""
    before = np.cumprod(np.r_[1.0, gamma * owns[first : first + steps]])
    terminates = end == reprise.End.TERMINATED and first + steps == len(rewards)
    return before[:-1] @ rewards[first : first + steps], 0.0 if terminates else before[-1]


ENDS = [(23, reprise.End.TERMINATED), (9, reprise.End.TRUNCATED), (4, reprise.End.TERMINATED)]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("end", ["truncate", "zero_pad", "drop", "overlap"])
@pytest.mark.parametrize("period", [1, 4, 9])
@pytest.mark.parametrize("n_step", [1, 2, 3, 5, 40])
def test_each_step_has_the_return_and_discount_of_its_steps(n_step, period, end, own):
    window = reprise.Sequences(
        length=5, period=period, burn_in=2, end=end, n_step=n_step, discount=0.9
    )
    replay, episodes = filled(window, ENDS, own)
    batch = replay.sampler(seed=1).sample(200)
    returns, discounts = batch.returns["reward"], batch.discounts
    assert returns.shape == discounts.shape == (200, 7)
    assert returns.dtype == discounts.dtype == np.float32
    # The item's observations by number: the value to bootstrap from is that of number t + n_step.
    observations = np.concatenate([batch["state"][:, :1], batch["next_state"]], axis=1)
    for i, (episode, first, length) in enumerate(
        zip(batch.episode_ids, batch.positions, batch.lengths)
    ):
        rewards, owns, how = episodes[int(episode)]
        for t in range(7):
            steps = min(n_step, length - t)
            if steps <= 0:
                assert returns[i, t] == discounts[i, t] == 0
                continue
            expected = target(rewards, owns, how, first + t, steps, np.float32(0.9))
            np.testing.assert_allclose((returns[i, t], discounts[i, t]), expected, 1e-5, 1e-6)
            assert observations[i, min(t + n_step, length)] == first + t + steps


def test_without_n_step_there_are_none():
    replay, _ = filled(reprise.Sequences(length=4, period=4), ENDS)
    batch = replay.sampler().sample(8)
    assert batch.returns == {} and batch.discounts.shape == (8,)
    with pytest.raises(
        KeyError, match="of Batch.returns: none: Sequences have returns with n_step"
    ):
        batch.returns["reward"]


def test_a_sequence_of_one_step_has_them_too():
    replay, _ = filled(reprise.Sequences(length=1, period=1, n_step=3, discount=0.5), ENDS)
    batch = replay.sampler(seed=2).sample(30)
    assert batch.discounts.shape == batch.returns["reward"].shape == (30, 1)
    np.testing.assert_array_equal(batch.returns["reward"], batch["reward"])
    assert set(batch.discounts[:, 0]) == {0.0, 0.5}


def test_items_that_are_gone_and_batches_of_two_samplers():
    replay, _ = filled(reprise.Sequences(length=4, period=4, n_step=2), ENDS)
    batch = replay.sampler(seed=1).sample(8)
    again = replay.gather(batch.item_keys)
    np.testing.assert_array_equal(again.returns["reward"], batch.returns["reward"])
    np.testing.assert_array_equal(again.discounts, batch.discounts)
    replay.remove(batch.item_keys[:1])
    gone = replay.gather(batch.item_keys[:1])
    assert not gone.discounts.any() and not gone.returns["reward"].any()
    mixed = reprise.mix([(replay, 3), (replay, 5)]).sample()
    assert mixed.discounts.shape == (8, 4)


def test_tensors():
    torch = pytest.importorskip("torch")
    replay, _ = filled(reprise.Sequences(length=4, period=4, n_step=2), ENDS)
    batch = replay.sampler(seed=1).sample(8)
    tensors = batch.torch()
    assert torch.equal(tensors.discounts, torch.from_numpy(batch.discounts))
    assert tensors.returns["reward"].shape == (8, 4)


def test_a_checkpoint_and_shards_keep_them(tmp_path):
    window = reprise.Sequences(length=4, period=4, n_step=2, discount=0.5)
    replay, _ = filled(window, ENDS)
    replay.save(str(tmp_path))
    loaded = reprise.ReplayBuffer.load(str(tmp_path))
    assert loaded.options["window"] == window
    batch = replay.sampler(seed=1).sample(8)
    again = loaded.gather(batch.item_keys)
    np.testing.assert_array_equal(again.returns["reward"], batch.returns["reward"])
    client = reprise.ShardClient(replay, 1)
    shard = reprise.ReplayShard(replay)
    client.answer(0, shard.exchange(client.request(0)))
    ticket = client.begin(4)
    while client.waits_for(ticket):
        client.answer(0, shard.exchange(client.request(0)))
    drawn, _, _ = client.finish(ticket)
    again = replay.gather(drawn.item_keys)
    np.testing.assert_array_equal(again.returns["reward"], drawn.returns["reward"])
    np.testing.assert_array_equal(again.discounts, drawn.discounts)
    other = reprise.ReplayBuffer(
        replay.schema, 100, window=reprise.Sequences(length=4, period=4, n_step=3, discount=0.5)
    )
    with pytest.raises(ValueError, match="another schema or window"):
        reprise.ReplayShard(other).exchange(client.request(0))


@pytest.mark.parametrize(
    "given, says",
    [({"n_step": 65536}, "n_step is 65536"), ({"n_step": -1}, "n_step"), ({"discount": 2}, "is 2")],
)
def test_refusals(given, says):
    with pytest.raises(ValueError, match=says):
        filled(reprise.Sequences(**given), [])
