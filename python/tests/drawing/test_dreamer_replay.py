"""What DreamerV3 expects of its replay, from its paper (Hafner et al., 2023), its Replay and the tests of it,
held to a buffer of streams. Where it differs the test says so."""

import collections

import numpy as np
import pytest

import reprise

CONTINUE, LAST = reprise.End.CONTINUE, reprise.End.TERMINATED


def make(length, period=1, capacity=10_000, **options):
    schema = reprise.Schema().observation("step", np.int64).column("worker", np.int64)
    schema.mutable_column("deter", np.float32, (2,))
    window = reprise.Sequences(length=length, period=period, end="continue")
    selectors = reprise.Uniform()
    return reprise.ReplayBuffer(
        schema, capacity, window=window, selectors=selectors, shards=1, **options
    )


def add(writer, step, worker=0, end=CONTINUE):
    if not writer.in_episode:
        writer.begin_episode(step=step)
    writer.append(worker=worker, deter=[0, 0], next_step=step + 1, end=end)


def items_of(replay):
    return replay.stats()["items"] if len(replay) else 0


@pytest.mark.parametrize(
    "length, workers, chunk", [(1, 1, 0), (2, 1, 0), (5, 1, 11), (1, 2, 3), (5, 3, 0), (2, 7, 5)]
)
def test_each_step_that_length_steps_follow_begins_an_item(length, workers, chunk):
    # Its capacity counts items, ours steps: here nothing leaves.
    replay = make(length, max_writers=workers, chunk_steps=chunk)
    writers = [replay.writer(timeout=0) for _ in range(workers)]
    for step in range(30):
        for worker, writer in enumerate(writers):
            add(writer, step, worker, LAST if step % 7 == 6 else CONTINUE)
        assert items_of(replay) == workers * max(0, step + 1 - length + 1)
    batch = replay.sampler(seed=1).sample(64)
    assert (batch["step"] - batch["step"][:, :1] == np.arange(length)).all()
    assert (batch["worker"] == batch["worker"][:, :1]).all()


def test_draws_are_uniform():
    replay = make(5)
    with replay.writer(timeout=0) as writer:
        for step in range(7):
            add(writer, step)
    first = replay.sampler(seed=0).sample(100, draws="independent")["step"][:, 0]
    counts = collections.Counter(first.tolist())
    assert set(counts) == {0, 1, 2} and min(counts.values()) > 20


def test_episodes_begin_and_end_in_the_middle_of_a_sequence():
    replay = make(64)
    with replay.writer(timeout=0) as writer:
        for step in range(200):
            if step == 150:  # An episode is abandoned: its last step is that before the next first.
                writer.begin_episode(step=step)
            add(writer, step, end=LAST if step % 40 == 39 else CONTINUE)
    batch = replay.sampler(seed=1).sample(137, draws="without_replacement")
    steps, last = batch["step"], batch["terminated"] | batch["truncated"]
    np.testing.assert_array_equal(batch["is_first"], (steps % 40 == 0) | (steps == 150))
    np.testing.assert_array_equal(batch["terminated"], steps % 40 == 39)
    # As there, a sequence does not show at its last step that the episode was abandoned behind it.
    following = np.roll(batch["is_first"], -1, 1)
    following[:, -1] = False
    np.testing.assert_array_equal(last, batch["terminated"] | following)
    # It calls the first step of each sequence first, whose latent is none of the network's. Here
    # it is said whether the episode begins there: set batch["is_first"][:, 0] to do as it does.
    assert not batch["is_first"][:, 0].all()


def test_the_online_queue_gives_each_sequence_once_and_then_come_uniform_ones():
    # Its queue has every length-th sequence of a worker, and its draws all: period=1. With the
    # period of the queue, draws are of these sequences too.
    length = 64
    replay = make(length, period=length)
    online = replay.sampler(fresh=1.0, seed=1)
    writers = [replay.writer(timeout=0) for _ in range(2)]
    seen = []
    for step in range(5 * length):
        for worker, writer in enumerate(writers):
            add(writer, step, worker, LAST if step % 50 == 49 else CONTINUE)
        if step % length == length - 1:
            batch = online.sample(8, beta=0.0)
            assert online.fresh == 2
            seen += zip(batch["worker"][:2, 0].tolist(), batch["step"][:2, 0].tolist())
            assert (batch["step"][2:, 0] <= step).all()
    assert sorted(seen) == [(worker, length * i) for worker in range(2) for i in range(5)]
    assert (batch.weights == 1).all()


def test_latents_are_written_back_at_their_steps():
    length = 8
    replay = make(length)
    with replay.writer(timeout=0) as writer:
        for step in range(40):
            add(writer, step, end=LAST if step % 5 == 4 else CONTINUE)
    sampler = replay.sampler(seed=1)
    batch = sampler.sample(1)
    latents = np.stack([batch["step"], -batch["step"]], 2).astype(np.float32)
    assert replay.update(batch.item_keys, "deter", latents).applied == 1
    written = set(batch["step"][0].tolist())
    batch = sampler.sample(33, draws="without_replacement")
    # Other sequences that have these steps show them, and no other step has changed.
    is_written = np.isin(batch["step"], list(written))
    np.testing.assert_array_equal(batch["deter"][..., 0], batch["step"] * is_written)
    # Those of sequences that are gone by then are dropped.
    replay.clear()
    assert replay.update(batch.item_keys, "deter", batch["deter"]).applied == 0


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_a_restored_replay_has_the_items_and_goes_on_with_streams_of_their_own(
    tmp_path, length, workers
):
    replay = make(length, max_writers=workers)

    def run(replay):
        writers = [replay.writer(timeout=0) for _ in range(workers)]
        for step in range(50):
            for worker, writer in enumerate(writers):
                add(writer, step, worker, LAST if step % 9 == 8 else CONTINUE)
        return writers

    writers = run(replay)
    count = (50 - length + 1) * workers
    assert items_of(replay) == count
    replay.save(tmp_path)
    loaded = reprise.ReplayBuffer.load(tmp_path).buffer
    assert items_of(loaded) == count
    run(loaded)
    assert items_of(loaded) == 2 * count
    batch = loaded.sampler(seed=1).sample(64)
    assert (batch["step"] - batch["step"][:, :1] == np.arange(length)).all()
    del writers
