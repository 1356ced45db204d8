"""Observations that are kept compressed in memory: `Schema.compress`."""

import numpy as np
import pytest
from testing.refusals import refuses
import reprise


def film(compressed, n_step=2):
    """Returns a buffer with forty steps of a screen of which one row changes per step."""
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


def test_stats_tell_both_sizes():
    plain, packed = film(False).stats(), film(True).stats()
    assert plain["compressed_bytes"] == plain["uncompressed_bytes"] == 0
    assert packed["uncompressed_bytes"] == 41 * 84 * 84
    assert 84 * 84 < packed["compressed_bytes"] < packed["uncompressed_bytes"] / 4


def test_the_schema_tells_and_refuses():
    schema = reprise.Schema()
    schema.observation("a", np.uint8, (512,)).observation("b", np.float32, (128,))
    schema.observation("c", np.uint8, (511,)).column("d", np.uint8, (512,))
    assert schema.compressed == ()
    assert schema.compress("a") is schema
    assert schema.compress("b").compressed == ("a", "b")
    with pytest.raises(ValueError, match="Schema.compress: field 'c' has 511 bytes.*at least 512"):
        schema.compress("c")
    refuses(ValueError, "Schema.compress: field 'd' is a column", schema.compress, "d")
    refuses(ValueError, "Schema.compress: there is no field 'next_a'", schema.compress, "next_a")
    refuses(TypeError, "name", schema.compress, 1)
    assert schema.compressed == ("a", "b")
