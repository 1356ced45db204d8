import numpy as np
import pytest

import reprise

STARTS = ["repeat_first", "zeros"]


def filled(n_step, frame_stack, start="repeat_first", shape=(2,)):
    """Two episodes, of 7 and of 2 steps; frame t of an episode is full of its own number."""
    schema = reprise.Schema().observation("frame", np.uint8, shape).column("a", np.int64).reward()
    window = reprise.Transitions(n_step=n_step, frame_stack=frame_stack, stack_start=start)
    replay = reprise.ReplayBuffer(schema, 100, window=window, selectors=reprise.Uniform())
    for steps, first in ((7, 10), (2, 50)):
        numbers = np.arange(first, first + steps + 1, dtype=np.uint8)
        frames = np.broadcast_to(numbers.reshape(-1, *[1] * len(shape)), (steps + 1, *shape))
        replay.writer().append_episode(frame=frames, a=np.arange(steps), reward=np.zeros(steps))
    return replay


def both(replay, n=40):
    """Batches of the same items, with whole stacks and with unique frames."""
    return (
        replay.sampler(seed=3).sample(n),
        replay.sampler(seed=3, unique_frames=True).sample(n),
    )


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("frame_stack", [1, 2, 4])
@pytest.mark.parametrize("n_step", [1, 3, 5])
def test_stacks_are_those_of_a_batch_of_whole_ones(n_step, frame_stack, start):
    whole, unique = both(filled(n_step, frame_stack, start))
    assert whole.frames == {}
    np.testing.assert_array_equal(unique.item_keys, whole.item_keys)
    for name in ("frame", "next_frame"):
        assert unique[name].shape == whole[name].shape
        np.testing.assert_array_equal(unique[name], whole[name])
    frames = unique.frames["frame"]
    assert frames.shape == (40, frame_stack + n_step, 2)
    for i, length in enumerate(unique.lengths):
        following = frames[i, length : length + frame_stack]
        np.testing.assert_array_equal(
            following.reshape(whole["next_frame"][i].shape), whole["next_frame"][i]
        )


def test_stacks_share_the_memory_of_frames_where_every_window_is_whole():
    _, unique = both(filled(1, 4))
    frames = unique.frames["frame"]
    for array in (unique["frame"], unique["next_frame"], unique.now["frame"], unique.next["frame"]):
        assert np.shares_memory(array, frames)
        assert array.shape == (40, 4, 2)
    frames[3, 1] = 77
    assert (unique["frame"][3, 1] == 77).all() and (unique["next_frame"][3, 0] == 77).all()


def test_next_stacks_of_shorter_windows_are_a_copy():
    _, unique = both(filled(3, 2))
    assert unique.lengths.min() < 3
    assert np.shares_memory(unique["frame"], unique.frames["frame"])
    assert not np.shares_memory(unique["next_frame"], unique.frames["frame"])


def test_arrays_keep_the_memory_of_a_batch():
    replay = filled(1, 2)
    sampler = replay.sampler(seed=1, unique_frames=True)
    held = sampler.sample(8)["next_frame"]
    before = held.copy()
    for _ in range(10):
        sampler.sample(8)
    np.testing.assert_array_equal(held, before)


def test_lengths_that_were_not_gathered_or_are_wrong_read_nothing_beyond():
    replay = filled(3, 2)
    sampler = replay.sampler(unique_frames=True)
    assert sampler.sample(8, gather=False)["next_frame"].shape == (8, 2, 2)
    assert sampler.empty_batch(8)["next_frame"].shape == (8, 2, 2)
    batch = sampler.sample(8)
    batch.lengths[:] = 2**31 - 1
    assert batch["next_frame"].shape == (8, 2, 2)
    batch.lengths[:] = -1
    assert batch["next_frame"].shape == (8, 2, 2)


def test_samplers_fill_batches_of_either_kind():
    replay = filled(3, 2)
    into = replay.sampler(unique_frames=True).empty_batch(6)
    replay.sampler(seed=5).sample_into(into, 0, 6)
    whole = replay.sampler(seed=5).sample(6)
    np.testing.assert_array_equal(into["next_frame"], whole["next_frame"])


def test_a_prefetcher_gives_them():
    replay = filled(1, 4)
    with replay.prefetch(16, seed=1, unique_frames=True) as batches:
        batch = next(batches)
        assert batch.frames["frame"].shape == (16, 5, 2)
        np.testing.assert_array_equal(batch["frame"], batch.frames["frame"][:, :4])
        assert next(batches).frames["frame"].shape == (16, 5, 2)


def sequences(frame_stack, end="zero_pad", start="repeat_first", shape=(2,)):
    """Episodes of 11 and of 2 steps; frame t of an episode is full of its own number."""
    schema = reprise.Schema().observation("frame", np.uint8, shape).column("a", np.int64)
    window = reprise.Sequences(
        length=4, period=3, burn_in=1, end=end, frame_stack=frame_stack, stack_start=start
    )
    replay = reprise.ReplayBuffer(schema, 100, window=window, selectors=reprise.Uniform())
    for steps, first in ((11, 10), (2, 50)):
        numbers = np.arange(first, first + steps + 1, dtype=np.uint8)
        frames = np.broadcast_to(numbers.reshape(-1, *[1] * len(shape)), (steps + 1, *shape))
        replay.writer().append_episode(frame=frames, a=np.arange(first, first + steps))
    return replay


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("end", ["zero_pad", "drop", "overlap"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("frame_stack", [1, 2, 3, 4])
def test_stacks_of_sequences(frame_stack, shape, end, start):
    whole, unique = both(sequences(frame_stack, end, start, shape))
    of_step = shape if frame_stack == 1 else (frame_stack, *shape)
    assert whole["frame"].shape == (40, 5, *of_step)
    frames = unique.frames["frame"]
    assert frames.shape == (40, frame_stack + 5, *shape)
    for name in ("frame", "next_frame"):
        assert unique[name].shape == whole[name].shape
        assert np.shares_memory(unique[name], frames)
        for i, length in enumerate(whole.lengths):
            assert not whole[name][i, length:].any()
            for t in range(length):
                last = whole["a"][i, t] + (name == "next_frame")
                first = 50 if last >= 50 else 10
                numbers = np.arange(last - frame_stack + 1, last + 1)
                missing = first if start == "repeat_first" else 0
                expected = np.where(numbers < first, missing, numbers)
                expected = expected if frame_stack > 1 else expected[0]
                for batch in (whole, unique):
                    found = batch[name][i, t]
                    wanted = np.reshape(expected, np.shape(expected) + (1,) * len(shape))
                    np.testing.assert_array_equal(found, np.broadcast_to(wanted, of_step))


def test_stacks_of_sequences_from_shards_prefetched_and_loaded(tmp_path):
    replay = sequences(3, end="drop")
    by_key = dict(zip(*(lambda b: (b.item_keys, b["frame"]))(both(replay)[0])))
    shard, client = reprise.ReplayShard(replay), reprise.ShardClient(replay, 1, unique_frames=True)
    client.answer(0, shard.exchange(client.request(0)))
    ticket = client.begin(8)
    while client.waits_for(ticket):
        client.answer(0, shard.exchange(client.request(0)))
    batches = [client.finish(ticket)[0]]
    with replay.prefetch(8, seed=1, unique_frames=True) as prefetched:
        batches.append(next(prefetched))
    replay.save(str(tmp_path))
    loaded = reprise.ReplayBuffer.load(str(tmp_path))
    assert loaded.options["window"] == replay.options["window"]
    batches.append(loaded.sampler(unique_frames=True).sample(8))
    for batch in batches:
        assert batch.frames["frame"].shape == (8, 8, 2)
        for key, frame in zip(batch.item_keys, batch["frame"]):
            np.testing.assert_array_equal(frame, by_key[key])


@pytest.mark.parametrize("frame_stack", [1, 3])
def test_tensors_of_sequences(frame_stack):
    torch = pytest.importorskip("torch")
    _, unique = both(sequences(frame_stack))
    for device in (None, "cpu"):
        tensors = unique.torch(device)
        frames = tensors.frames["frame"]
        begin, end = frames.data_ptr(), frames.data_ptr() + frames.numel()
        for name in ("frame", "next_frame"):
            assert torch.equal(tensors[name], torch.from_numpy(unique[name].copy()))
            assert begin <= tensors[name].data_ptr() < end


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("frame_stack", [1, 3])
@pytest.mark.parametrize("n_step", [1, 3])
def test_tensors(n_step, frame_stack, device):
    torch = pytest.importorskip("torch")
    whole, unique = both(filled(n_step, frame_stack))
    tensors, expected = unique.torch(device), whole.torch()
    assert set(tensors) == set(expected)
    for name, tensor in expected.items():
        assert torch.equal(tensors[name], tensor), name
    frames = tensors.frames["frame"]
    assert frames.shape == (40, frame_stack + n_step, 2)
    assert expected.frames == {}
    begin, end = frames.data_ptr(), frames.data_ptr() + frames.numel() * frames.element_size()
    assert begin <= tensors["frame"].data_ptr() < end
    assert (begin <= tensors["next_frame"].data_ptr() < end) == (n_step == 1)
