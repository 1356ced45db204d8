"""A sampler over a cluster is a source of batches, over which every stage works."""

import numpy as np
import pytest

from testing.ray_cluster import SECONDS, check, filled, make
from testing.refusals import refuses
from testing.threads import running
from testing.sources import STAGES, check_priorities_come_back, check_targets_of_the_call

import reprise
import reprise.ray


@pytest.fixture
def replay(cluster):
    with make() as made:
        yield filled(made, 40)


def step(batch):
    return batch["step"]


@pytest.mark.parametrize("stage", STAGES)
def test_priorities_come_back_through_every_stage(replay, stage):
    check_priorities_come_back(stage, replay.sampler(seed=1), 32, step)


@pytest.mark.parametrize("stage", STAGES)
def test_returns_are_those_of_the_call(cluster, stage):
    with make(window=reprise.Transitions(n_step=3, discount=0.5)) as replay:
        sampler = filled(replay, 40).sampler(seed=1)
        check_targets_of_the_call(stage, sampler, 32, "reward")
        refuses(ValueError, "n_step is 4; allowed: 1 to that", sampler.sample, 32, n_step=4)


def test_a_samplers_updates_and_prefetched_batches_use_its_own_selector(cluster):
    selectors = [reprise.Uniform(), reprise.Proportional(alpha=1.0, epsilon=0.0)]
    with make(selectors=selectors) as replay:
        sampler = filled(replay, 40).sampler(selector=1)
        check_priorities_come_back("prefetch", sampler, 32, step)  # Even steps get priority 0.
        assert (sampler.sample(64, timeout=SECONDS)["step"] % 2 == 1).all()
        assert (replay.sampler().sample(64, timeout=SECONDS)["step"] % 2 == 0).any()


@pytest.mark.parametrize("stage", ["loader", "loader without a thread"])
def test_priorities_come_back_from_a_device(replay, stage, monkeypatch):
    pytest.importorskip("torch")
    from testing.late_device import LateCopyDevice, use_device

    device = use_device(LateCopyDevice(), monkeypatch)
    # With a thread the loader passes the device's allocator to the source. Without one, the source
    # has to have it.
    source = replay.sampler(allocator=None if stage == "loader" else device.allocator)
    check_priorities_come_back(stage, source, 32, step)
    assert device.sent > 20


@pytest.mark.parametrize("thread", [False, True])
def test_a_loader_gives_tensors_of_a_cluster(replay, thread):
    torch = pytest.importorskip("torch")
    from reprise.torch import loader

    with loader(replay, 32, device="cpu", thread=thread, timeout=SECONDS) as batches:
        batch = next(batches)
        assert isinstance(batch["step"], torch.Tensor)
        arrays = {name: tensor.numpy() for name, tensor in batch.items()}
        assert np.array_equal(arrays["at"], arrays["step"])
        assert np.array_equal(arrays["next_at"], arrays["step"] + 1)
        assert np.array_equal(batch.returns["reward"].numpy(), arrays["step"])
        batches.update_priorities(batch.item_keys, batch["step"] + 1.0)
        for keys, says in ((batch.item_keys[:3], r"shape \(3,\) and"), ([1, 2], r"shape \(2,\)")):
            refuses(ValueError, says, batches.update_priorities, keys, batch["step"])
        batches.flush()
        assert replay.stats()["applied_updates"] == 32
        assert batches.updates == (0, 0)  # The shards count the updates, not the loader.


@pytest.mark.parametrize("limiter", [reprise.MinSize(1), reprise.Unlimited()])
def test_a_prefetchers_call_may_have_a_timeout_of_its_own(cluster, limiter):
    with make(rate_limiter=limiter) as replay, replay.prefetch(32, timeout=0.001) as batches:
        refuses(TimeoutError, "Prefetcher.__next__: timed out", next, batches)
        with running(lambda: filled(replay, 40)):
            check(batches.get(timeout=SECONDS))


def test_closing_the_buffer_ends_every_stage(cluster):
    pytest.importorskip("torch")
    from reprise.torch import loader

    replay = filled(make(), 40)
    ahead, loading = replay.prefetch(32, timeout=SECONDS), loader(replay, 32, device="cpu")
    check(ahead.get(timeout=SECONDS))
    next(loading)
    replay.close()
    assert len(list(ahead)) <= 5 and len(list(loading)) <= 5
    loading.close()
    ahead.close()
    for call in (lambda: next(ahead), lambda: ahead.get(timeout=0)):
        refuses(reprise.Closed, "the prefetcher is closed", call)


def test_a_destroyed_prefetcher_ends_its_thread(replay):
    batches = replay.prefetch(64, timeout=SECONDS)
    for batch in batches:
        check(batch)
        break
    thread = batches._thread
    del batches
    thread.join(SECONDS)
    assert not thread.is_alive()
