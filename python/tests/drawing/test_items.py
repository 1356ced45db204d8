import numpy as np
import pytest
from testing.buffers import plain_buffer
from testing.refusals import refuses

import reprise


@pytest.fixture
def buffer():
    made = plain_buffer(
        selectors=reprise.Proportional(alpha=0.5, epsilon=0),
        episode_index=True,
        chunk_steps=16,
        shards=2,
    )
    with made.writer() as writer:
        append(writer, 20)
    return made


def append(writer, steps):
    """Appends an episode in whose fields step i has the number i."""
    number = np.arange(steps + 1)
    writer.append_episode(
        state=np.stack([number, -number], 1), action=number[:-1], reward=number[:-1]
    )


def keys_of(buffer):
    """Returns all keys, by position in the only episode."""
    return np.array([buffer.episodes().find(0, position) for position in range(20)])


def test_gather_returns_items_as_their_keys_are_ordered(buffer):
    keys = keys_of(buffer)
    batch = buffer.gather(keys[[7, 3, 3, 19]])
    assert len(batch) == 4
    np.testing.assert_array_equal(batch["action"], [7, 3, 3, 19])
    np.testing.assert_array_equal(batch["next_state"][:, 0], [8, 4, 4, 20])
    np.testing.assert_array_equal(batch.positions, [7, 3, 3, 19])
    np.testing.assert_array_equal(batch.item_keys, keys[[7, 3, 3, 19]])
    np.testing.assert_array_equal(batch.weights, np.ones(4))
    assert buffer.stats()["sampled_items"] == 0


def test_gathering_a_part_of_an_episode_pads_it_beyond_the_end(buffer):
    batch = buffer.episodes().gather(0, 15, 8)
    np.testing.assert_array_equal(batch.lengths, [1] * 5 + [0] * 3)
    np.testing.assert_array_equal(batch["action"], [15, 16, 17, 18, 19, 0, 0, 0])
    result = buffer.update_priorities(batch.item_keys, np.ones(8))
    assert result == (5, 3)


def test_priorities_and_totals_are_those_that_were_set(buffer):
    keys = keys_of(buffer)
    buffer.update_priorities(keys, np.arange(20))
    priorities = buffer.selector().priorities(keys)
    assert priorities.dtype == np.float32
    np.testing.assert_allclose(priorities, np.arange(20), rtol=1e-6)
    totals = buffer.selector().totals()
    assert totals["weight"] == pytest.approx(np.sqrt(np.arange(20)).sum(), rel=1e-6)
    assert totals["largest"] == pytest.approx(19**0.5)
    assert totals["items"] == 20
    buffer.selector().reset(4)
    assert buffer.selector().totals() == {"weight": 40.0, "largest": 2.0, "items": 20}
    buffer.selector().reset()
    assert buffer.selector().totals()["weight"] == 20.0


def test_sums_over_an_episode(buffer):
    buffer.selector().set_alpha(1.0)
    keys = keys_of(buffer)
    buffer.update_priorities(keys, np.arange(20))
    buffer.remove(keys[[19]])
    after, total = buffer.episodes().sums(keys[[19, 18, 0, 0]], selector=0)
    assert after.dtype == total.dtype == np.float64
    np.testing.assert_allclose(after, [np.nan, 0, 171, 171], rtol=1e-6)
    np.testing.assert_allclose(total, [np.nan, 171, 171, 171], rtol=1e-6)
    assert [len(sums) for sums in buffer.episodes().sums(keys[:0])] == [0, 0]
    refuses(ValueError, "Episodes.sums: selector is 3", buffer.episodes().sums, keys, 3)
    refuses(ValueError, "sums: keys.0. has tag", buffer.episodes().sums, keys ^ (1 << 52))
    ordered = plain_buffer(selectors=reprise.Fifo(), episode_index=True).episodes()
    refuses(ValueError, "selector is 0, .*by weight alone; allowed: Uniform", ordered.sums, keys)


def test_items_and_episodes_are_removed(buffer):
    keys = keys_of(buffer)
    assert buffer.remove(keys[[7, 3, 3, 19]]) == 3
    assert buffer.remove(keys[[7]]) == 0
    assert len(buffer) == buffer.selector().totals()["items"] == buffer.stats()["items"] == 17
    np.testing.assert_array_equal(buffer.gather(keys[[2, 3]]).lengths, [1, 0])
    np.testing.assert_array_equal(np.isnan(buffer.selector().priorities(keys[[2, 3]])), [0, 1])
    append(buffer.writer(), 30)
    assert (buffer.episodes().remove(0), len(buffer)) == (17, 30)
    buffer.clear()
    assert len(buffer) == 0


def test_refusals(buffer):
    key = keys_of(buffer)[:1]
    refuses(TypeError, "keys: expected int64 .*; given float64 of shape", buffer.gather, [1.0, 2.0])
    refuses(ValueError, "gather: keys.0. has tag", buffer.gather, key ^ (1 << 52))
    refuses(ValueError, "selector is 3", buffer.selector, 3)
    refuses(ValueError, "SelectorHandle.reset: priority is -1", buffer.selector().reset, -1)
    refuses(ValueError, "remove: keys.0. has tag", buffer.remove, key ^ (1 << 52))
    refuses(RuntimeError, "episode_index", plain_buffer(10).episodes)


def test_empty_arrays_of_keys_are_taken(buffer):
    none = np.array([], np.int64)
    for _ in range(
        2
    ):  # In the second round calls may reuse the memory of the first round's batches.
        for batch in (buffer.gather(none), buffer.episodes().gather(0, 3, 0)):
            assert len(batch) == 0
            for array in (*batch.values(), *batch.returns.values(), batch.weights, batch.item_keys):
                assert len(array) == 0
            assert batch["next_state"].shape == (0, 2)
        assert buffer.remove(none) == 0 and len(buffer) == 20
        assert buffer.update_priorities(batch.item_keys, batch.weights) == (0, 0)
        assert len(buffer.selector().priorities(none)) == 0
        buffer.gather(keys_of(buffer))
