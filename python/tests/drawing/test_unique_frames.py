import numpy as np
import pytest

import reprise

STARTS = ["repeat_first", "zeros"]


def of_episodes(window, shape=(2,)):
    """Returns a buffer of two episodes, of 11 and of 2 steps. Every pixel of a frame is the frame's
    number."""
    schema = reprise.Schema().observation("frame", np.uint8, shape).column("a", np.int64)
    replay = reprise.ReplayBuffer(schema, 100, window=window, selectors=reprise.Uniform())
    for steps, first in ((11, 10), (2, 50)):
        numbers = np.arange(first, first + steps + 1, dtype=np.uint8)
        frames = np.broadcast_to(numbers.reshape(-1, *[1] * len(shape)), (steps + 1, *shape))
        replay.writer().append_episode(frame=frames, a=numbers[:-1])
    return replay


def filled(n_step, frame_stack, start="repeat_first"):
    window = reprise.Transitions(n_step=n_step, frame_stack=frame_stack, stack_start=start)
    return of_episodes(window)


def sequences(frame_stack, end="zero_pad", start="repeat_first", shape=(2,)):
    options = {"frame_stack": frame_stack, "stack_start": start}
    window = reprise.Sequences(length=4, period=3, burn_in=1, end=end, **options)
    return of_episodes(window, shape)


def both(replay, n=40):
    """Returns two batches of the same items, one with whole stacks and one with unique frames."""
    return (
        replay.sampler(seed=3).sample(n),
        replay.sampler(seed=3, unique_frames=True).sample(n),
    )


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("frame_stack", [1, 2, 4])
@pytest.mark.parametrize("n_step", [1, 3, 5])
def test_stacks_made_of_unique_frames_equal_whole_stacks(n_step, frame_stack, start):
    whole, unique = both(filled(n_step, frame_stack, start))
    assert whole.frames == {}
    with pytest.raises(KeyError, match="without unique_frames=True"):
        whole.frames["frame"]
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


def test_stacks_share_the_memory_of_frames_if_no_window_is_short():
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


def test_missing_or_wrong_lengths_read_nothing_beyond_the_batch():
    replay = filled(3, 2)
    sampler = replay.sampler(unique_frames=True)
    assert sampler.sample(8, gather=False)["next_frame"].shape == (8, 2, 2)
    assert sampler.empty_batch(8)["next_frame"].shape == (8, 2, 2)
    batch = sampler.sample(8)
    batch.lengths[:] = 2**31 - 1
    assert batch["next_frame"].shape == (8, 2, 2)
    batch.lengths[:] = -1
    assert batch["next_frame"].shape == (8, 2, 2)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("end", ["zero_pad", "drop", "overlap"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("frame_stack", [1, 2, 4])
def test_stacks_of_sequences_made_of_unique_frames_equal_whole_stacks(
    frame_stack, shape, end, start
):
    whole, unique = both(sequences(frame_stack, end, start, shape))
    of_step = shape if frame_stack == 1 else (frame_stack, *shape)
    assert whole["frame"].shape == (40, 5, *of_step)
    assert unique.frames["frame"].shape == (40, frame_stack + 5, *shape)
    newest = whole["frame"] if frame_stack == 1 else whole["frame"][:, :, -1]
    inside = np.arange(5) < whole.lengths[:, None]
    numbers = np.where(inside, whole["a"], 0).reshape(40, 5, *[1] * len(shape))
    np.testing.assert_array_equal(newest, np.broadcast_to(numbers, newest.shape))
    for name in ("frame", "next_frame"):
        assert np.shares_memory(unique[name], unique.frames["frame"])
        np.testing.assert_array_equal(unique[name][inside], whole[name][inside])
        assert not whole[name][~inside].any()


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
