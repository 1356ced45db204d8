"""Items that nobody has drawn before."""

import pytest
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses

import reprise


def test_fresh_items_come_first_and_once():
    # One item outweighs all others, so that no other is drawn by weight.
    replay = plain_buffer(selectors=reprise.Proportional(), shards=1)
    sampler = replay.sampler(fresh=0.25)
    with replay.writer() as writer:
        writer.begin_episode(state=[0, 0])
        for i in range(10):
            writer.append(
                action=i, reward=0, next_state=[0, 0], priorities=[1e30 if i == 0 else 1e-3]
            )
    for expected in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []):
        actions = sampler.sample(16)["action"].tolist()
        assert sampler.fresh == len(expected)
        assert actions == expected + [0] * (16 - len(expected))


def test_a_prefetcher_counts_the_fresh_items_of_its_last_batch():
    replay = plain_buffer(selectors=reprise.Uniform(), rate_limiter=reprise.MinSize(20))
    with replay.prefetch(4, fresh=0.5, depth=3) as batches:
        assert batches.fresh == 0
        fill(replay, 20)
        seen, counts = [], []
        for _ in range(12):
            actions = next(batches)["action"]
            seen += actions[: batches.fresh].tolist()
            counts.append(batches.fresh)
    assert counts[0] == 2 and counts[-1] == 0 and max(counts) == 2
    assert len(set(seen)) == len(seen) == sum(counts)


def test_a_loader_takes_fresh_items(buffer):
    torch = pytest.importorskip("torch")
    from reprise.torch import loader

    with loader(buffer, 4, device="cpu", thread=False, fresh=1.0) as batches:
        fill(buffer, 20)
        drawn = torch.cat([next(batches)["action"] for _ in range(5)])
    assert sorted(drawn.tolist()) == list(range(20))


def test_fresh_items_are_refused_where_draws_do_not_take_them():
    limited = plain_buffer(max_times_sampled=2)
    ordered = plain_buffer(selectors=reprise.Fifo())
    for replay in (limited, ordered):
        refuses(ValueError, "fresh is 0.5", replay.sampler, fresh=0.5)
    plain = plain_buffer()
    refuses(ValueError, "fresh is 2; allowed: 0 to 1", plain.sampler, fresh=2)
    for draws in ("epoch", "without_replacement"):
        with pytest.raises(ValueError) as refused:
            plain.sampler(fresh=0.5).sample(2, draws=draws, timeout=0)
        assert str(refused.value) == (
            f"Sampler.sample: draws is '{draws}'; allowed of a sampler with fresh: 'stratified' and 'independent'"
        )
