import pickle

import numpy as np
import pytest

from testing.refusals import refuses
import reprise


def make(window, capacity=1024, **options):
    schema = reprise.Schema().observation("state", np.int64).reward()
    return reprise.ReplayBuffer(
        schema, capacity, window=window, selectors=reprise.Uniform(), shards=1, **options
    )


def fill(buffer, writer=None, first=0):
    """Appends episodes of 3, 1 and 4 steps, terminated, truncated and terminated, with states from
    100, 200 and 300 on."""
    writer = writer or buffer.writer(timeout=0)
    for number, (steps, end) in enumerate([(3, "TERMINATED"), (1, "TRUNCATED"), (4, "TERMINATED")]):
        states = 100 * (number + 1) + first + np.arange(steps + 1)
        writer.append_episode(state=states, reward=np.ones(steps), end=reprise.End[end])
    return writer


def test_batches_say_where_episodes_begin_and_end():
    buffer = make(reprise.Sequences(length=8, period=8, end="continue", n_step=3, discount=0.5))
    fill(buffer)
    batch = buffer.sampler().sample(2)
    assert batch["state"].shape == (2, 8)
    assert batch["state"][0].tolist() == [100, 101, 102, 200, 300, 301, 302, 303]
    assert batch["next_state"][0].tolist() == [101, 102, 103, 201, 301, 302, 303, 304]
    for name in ("is_first", "terminated", "truncated"):
        assert batch[name].dtype == bool and batch[name].shape == (2, 8)
        assert name in batch and name in batch.keys()
    assert batch["is_first"][0].nonzero()[0].tolist() == [0, 3, 4]
    assert batch["terminated"][0].nonzero()[0].tolist() == [2, 7]
    assert batch["truncated"][0].nonzero()[0].tolist() == [3]
    assert batch.returns["reward"][0].tolist() == [1.75, 1.5, 1, 1, 1.75, 1.75, 1.5, 1]
    assert batch.discounts[0].tolist() == [0, 0, 0, 0.5, 0.125, 0, 0, 0]


def test_other_windows_have_no_such_columns():
    buffer = make(reprise.Sequences(length=2, period=1))
    fill(buffer)
    batch = buffer.sampler().sample(2)
    assert "is_first" not in batch
    with pytest.raises(KeyError, match="no field 'is_first'; fields: state, reward, next_state"):
        batch["is_first"]


def test_batches_are_pickled_and_made_tensors():
    torch = pytest.importorskip("torch")
    buffer = make(reprise.Sequences(length=4, period=1, end="continue"))
    fill(buffer)
    batch = buffer.sampler().sample(3)
    copy = pickle.loads(pickle.dumps(batch))
    tensors = batch.torch()
    for name in batch:
        np.testing.assert_array_equal(copy[name], batch[name])
        np.testing.assert_array_equal(tensors[name].numpy(), batch[name])
    assert tensors["is_first"].dtype == torch.bool
    from reprise.torch import loader

    with loader(buffer, 3, device="cpu") as batches:
        assert next(batches)["truncated"].shape == (3, 4)


def test_a_vector_writer_has_a_stream_for_each_environment():
    buffer = make(reprise.Sequences(length=4, period=1, end="continue"))
    with buffer.vector_writer(2, autoreset="disabled") as writers:
        writers.begin(state=[1000, 2000])
        for step in range(1, 11):
            ends = reprise.ends([step % 3 == 0, step % 5 == 0], [False, False])
            writers.append(next_state=[1000 + step, 2000 + step], reward=[0, 0], end=ends)
            begin = ends != reprise.End.CONTINUE
            if begin.any():
                writers.begin(state=np.array([1000 + step, 2000 + step]))
    batch = buffer.sampler().sample(14, draws="without_replacement")
    for item in range(14):
        steps = batch["state"][item]
        assert (np.diff(steps) == 1).all()
        every = 3 if steps[0] < 2000 else 5
        assert (batch["is_first"][item] == (steps % 1000 % every == 0)).all()
        assert (batch["terminated"][item] == (steps % 1000 % every == every - 1)).all()


def test_fresh_items_are_the_online_queue_of_dreamer():
    """As in DreamerV3's Replay, a batch begins with the workers' new sequences, each once; the rest
    is drawn uniformly."""
    length = 8
    replay = make(reprise.Sequences(length=length, period=length, end="continue"))
    online, seen = replay.sampler(fresh=1.0, seed=1), []
    with replay.vector_writer(2, autoreset="disabled") as writers:
        for step in range(5 * length):
            if step % 5 == 0:
                writers.begin(state=[step, 1000 + step])
            ends = [reprise.End.TERMINATED if step % 5 == 4 else reprise.End.CONTINUE] * 2
            writers.append(next_state=[step + 1, 1001 + step], reward=[0, 0], end=ends)
            if step % length == length - 1:
                batch = online.sample(8, beta=0.0)
                assert online.fresh == 2 and (batch["state"][2:, 0] % 1000 <= step).all()
                seen += batch["state"][:2, 0].tolist()
    assert sorted(seen) == [first + length * i for first in (0, 1000) for i in range(5)]
    assert (batch.weights == 1).all()


def test_streams_of_a_guest_are_those_of_the_host():
    buffer = make(reprise.Sequences(length=4, period=2, end="continue"))
    with buffer.share() as address:
        guest = reprise.attach(address)
        writer = fill(guest)
        writer.close()
        batch = guest.sampler(seed=1).sample(6)
        assert (batch["is_first"] == (batch["state"] % 100 == 0)).all()


def test_options_that_do_not_go_with_streams_are_refused():
    window = reprise.Sequences(length=4, end="continue")
    with pytest.raises(ValueError, match="unique_frames: window is Sequences with end"):
        make(window).sampler(unique_frames=True)
    schema = reprise.Schema().observation("x", np.float32).column("is_first", bool)
    with pytest.raises(ValueError, match="field 'is_first' has the name of what batches"):
        reprise.ReplayBuffer(schema, 100, window=window)
    with pytest.raises(ValueError, match="burn_in \\+ length is 40000; allowed: at most 32767"):
        make(reprise.Sequences(length=40000, end="continue"), 100_000)
    pytest.importorskip("torch")
    from reprise.torch import mirror

    refuses(ValueError, "window is Sequences with end = 'continue'", mirror, make(window), "cpu")
