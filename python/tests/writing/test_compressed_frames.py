"""Observations that are kept compressed in memory: `Schema.compress`."""

import numpy as np
import pytest
import reprise


def film(compressed, n_step=2):
    """Forty steps of a screen on which one row moves."""
    schema = reprise.Schema().observation("frame", np.uint8, (84, 84))
    if compressed:
        schema.compress("frame")
    replay = reprise.ReplayBuffer(
        schema.column("action", np.int32).reward(),
        64,
        window=reprise.Transitions(n_step=n_step, frame_stack=3),
        selectors=[reprise.Uniform()],
        key_tag=1,
    )
    screen = np.random.default_rng(1).integers(256, size=(84, 84), dtype=np.uint8)

    def frame(step):
        shown = screen.copy()
        shown[step] = step
        return shown

    with replay.writer() as writer:
        writer.begin_episode(frame=frame(0))
        for step in range(40):
            writer.append(action=step, reward=1.0, next_frame=frame(step + 1))
    return replay


@pytest.mark.parametrize("unique", [False, True])
def test_batches_are_those_of_frames_as_they_are(unique):
    plain, packed = film(False), film(True)
    a, b = (replay.sampler(seed=3, unique_frames=unique).sample(32) for replay in (plain, packed))
    for name in ("frame", "next_frame", "action"):
        np.testing.assert_array_equal(a[name], b[name])


def test_stats_tell_both_sizes():
    plain, packed = film(False).stats(), film(True).stats()
    assert plain["compressed_bytes"] == plain["uncompressed_bytes"] == 0
    assert packed["uncompressed_bytes"] == 41 * 84 * 84
    assert 84 * 84 < packed["compressed_bytes"] < packed["uncompressed_bytes"] / 4


def test_a_checkpoint_keeps_it(tmp_path):
    film(True).save(tmp_path)
    loaded = reprise.ReplayBuffer.load(tmp_path)
    assert loaded.schema.compressed == ("frame",)
    np.testing.assert_array_equal(
        loaded.sampler(seed=3).sample(32)["frame"], film(True).sampler(seed=3).sample(32)["frame"]
    )
    with pytest.raises(reprise.CheckpointError, match="compressed observation 'frame'"):
        film(False).restore(tmp_path)


def test_the_schema_tells_and_refuses():
    schema = reprise.Schema()
    schema.observation("a", np.uint8, (512,)).observation("b", np.float32, (128,))
    schema.observation("c", np.uint8, (511,)).column("d", np.uint8, (512,))
    assert schema.compressed == ()
    assert schema.compress("a") is schema
    assert schema.compress("b").compressed == ("a", "b")
    with pytest.raises(ValueError, match="Schema.compress: field 'c' has 511 bytes.*at least 512"):
        schema.compress("c")
    with pytest.raises(ValueError, match="Schema.compress: field 'd' is a column"):
        schema.compress("d")
    with pytest.raises(ValueError, match="Schema.compress: there is no field 'next_a'"):
        schema.compress("next_a")
    with pytest.raises(TypeError, match="name"):
        schema.compress(1)
    assert schema.compressed == ("a", "b")


def test_sequences_of_parts_of_a_vector_are_those_of_frames_as_they_are():
    batches = []
    for compressed in (False, True):
        schema = reprise.Schema().observation("frame", np.uint8, (30, 30)).reward()
        if compressed:
            schema.compress("frame")
        replay = reprise.ReplayBuffer(
            schema, 200, window=reprise.Sequences(length=5, period=2), key_tag=1, max_writers=3
        )
        random = np.random.default_rng(2)
        writers = replay.vector_writer(3, autoreset="same_step")
        writers.begin(frame=random.integers(256, size=(3, 30, 30)))
        for step in range(120):
            part = random.permutation(3)[: 1 + step % 3]
            end = np.where(random.random(len(part)) < 0.1, 1, 0)
            frames = random.integers(256, size=(len(part), 30, 30))
            final = random.integers(256, size=(len(part), 30, 30))
            writers.append(
                reward=np.ones(len(part)),
                next_frame=frames,
                end=end,
                final={"frame": final},
                env_ids=part,
            )
        batches.append(replay.sampler(seed=1).sample(64))
    for name in ("frame", "next_frame"):
        np.testing.assert_array_equal(batches[0][name], batches[1][name])


def test_a_goal_can_be_a_compressed_frame():
    goals = [np.zeros((32, 84, 84), np.uint8) for _ in range(2)]
    for compressed, into in zip((False, True), goals):
        replay = film(compressed, n_step=1)
        keys = replay.sampler(seed=1).sample(32).item_keys
        assert (replay.hindsight("frame", share=1.0, seed=2).relabel(keys, into) != 0).all()
    np.testing.assert_array_equal(*goals)
