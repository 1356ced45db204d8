import threading

import numpy as np
import pytest
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses
from testing.threads import running

import reprise


@pytest.fixture
def prioritized():
    buffer = plain_buffer(
        4096,
        selectors=[reprise.Proportional(alpha=1, epsilon=0), reprise.Uniform()],
        episode_index=True,
        shards=1,
    )
    fill(buffer, 4)
    return buffer


def probabilities(buffer, selector=0):
    batch = buffer.selector(selector).sampler().sample(2000, draws="independent")
    return {int(p): q for p, q in zip(batch.positions, batch.probabilities)}


def keys_by_position(buffer):
    batch = buffer.sampler().sample(4, draws="without_replacement")
    return batch.item_keys[np.argsort(batch.positions)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_probabilities_follow_the_updated_priorities(prioritized, dtype):
    keys = keys_by_position(prioritized)
    result = prioritized.update_priorities(keys, np.array([1, 2, 3, 4], dtype))
    assert result == reprise.UpdateResult(applied=4, stale=0)
    assert isinstance(result, reprise.UpdateResult) and result.applied == 4
    assert probabilities(prioritized) == pytest.approx({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})


def test_arrays_of_any_layout(prioritized):
    keys = keys_by_position(prioritized)
    spread = np.zeros(8, np.int64)
    spread[::2] = keys
    prioritized.update_priorities(spread[::2], [1, 2, 3, 4])
    prioritized.update_priorities(keys.astype(">i8"), np.arange(8, dtype=np.float32)[::2] + 1)
    assert probabilities(prioritized) == pytest.approx({0: 1 / 16, 1: 3 / 16, 2: 5 / 16, 3: 7 / 16})
    keys.flags.writeable = False
    assert prioritized.selector(1).update(priorities=[1] * 4, keys=keys).applied == 4


@pytest.mark.parametrize("none", [[], (), np.zeros(0, np.float32), np.zeros(0, object)])
def test_an_empty_array_of_any_type_is_taken_as_no_keys(prioritized, none):
    assert prioritized.update_priorities(none, []) == (0, 0)
    assert prioritized.remove(none) == 0 and len(prioritized) == 4
    assert len(prioritized.gather(none)) == prioritized.selector().priorities(none).size == 0
    refuses(TypeError, r"keys: expected int64 of shape \(n,\)", prioritized.remove, [none, none])


def test_keys_of_any_kind_of_array(prioritized):
    """Keys may be tensors of torch, lists, or objects with __array__."""
    keys = keys_by_position(prioritized)

    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return keys

    kinds = [keys.tolist(), Wrapped()]
    try:
        import torch

        kinds.append(torch.from_numpy(keys))
    except ImportError:
        pass
    for kind in kinds:
        assert prioritized.update_priorities(kind, [1, 2, 3, 4]) == (4, 0)
        np.testing.assert_array_equal(prioritized.selector().priorities(kind), [1, 2, 3, 4])
        assert prioritized.gather(kind)["action"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "keys, priorities, error, message",
    [
        ([1.0, 2.0], [1, 1], TypeError, r"keys: expected int64 of shape \(n,\), .*; given float64"),
        (None, [1, 1], TypeError, "keys: expected int64 .*; given object"),
        ([[1], [2, 3]], [1, 1], (ValueError, TypeError), "keys: "),
        (np.zeros(2, np.int32), [1, 1], TypeError, "given int32 of shape"),
        (np.zeros(2, np.uint64), [1, 1], TypeError, "given uint64 of shape"),
        (np.zeros((1, 2), np.int64), [1, 1], ValueError, r"given int64 of shape \(1, 2\)"),
        (np.zeros(2, np.int64), [1], ValueError, r"priorities: expected float32 of shape \(2,\)"),
        (np.zeros(2, np.int64), np.ones((2, 1)), ValueError, r"given float64 of shape \(2, 1\)"),
        (np.zeros(2, np.int64), ["a", "b"], TypeError, "priorities: expected float32"),
        (np.zeros(2, np.int64), [1, 1], ValueError, "key"),
    ],
)
def test_wrong_arguments(prioritized, keys, priorities, error, message):
    refuses(error, message, prioritized.update_priorities, keys, priorities)
    with pytest.raises(TypeError, match="priorities is missing"):
        prioritized.update_priorities(np.zeros(2, np.int64))
    refuses(TypeError, "unexpected keyword 'key'", prioritized.update_priorities, key=keys)


@pytest.mark.parametrize("priority", [np.nan, np.inf, -1.0])
def test_wrong_priorities(prioritized, priority):
    keys = keys_by_position(prioritized)
    with pytest.raises(ValueError, match=r"priorities\[2\]"):
        prioritized.update_priorities(keys, [1, 1, priority, 1])
    refuses(ValueError, "selector", prioritized.selector, 2)


def test_results_count_applied_and_stale_updates(schema):
    buffer = reprise.ReplayBuffer(schema, 100, shards=1)
    fill(buffer, 100)
    stale_keys = buffer.sampler().sample(100, draws="without_replacement").item_keys
    fill(buffer, 300)
    valid_keys = buffer.sampler().sample(4).item_keys
    for applied, stale in ((4, 0), (4, 1), (4, 7), (0, 7), (1, 7), (1, 0), (1, 0), (0, 0), (0, 1)):
        keys = np.concatenate([valid_keys[:applied], stale_keys[:stale]])
        assert buffer.update_priorities(keys, np.ones(len(keys))) == (applied, stale)


def test_items_are_found_by_episode_and_position(prioritized):
    batch = prioritized.sampler().sample(1)
    episode, position = int(batch.episode_ids[0]), int(batch.positions[0])
    assert prioritized.episodes().find(episode, position) == batch.item_keys[0]
    assert prioritized.episodes().find(episode, 99) is None
    assert prioritized.episodes().update_priorities(episode, 2, [5, 1, 1]) == (2, 1)
    assert probabilities(prioritized)[2] == pytest.approx(5 / 8)
    fresh = reprise.ReplayBuffer(prioritized.schema, 10)
    refuses(RuntimeError, "episode_index", fresh.episodes)


def test_alpha_and_decay(prioritized):
    prioritized.update_priorities(keys_by_position(prioritized), [1, 1, 1, 4])
    prioritized.selector().set_alpha(0.5)
    assert prioritized.selector().alpha() == 0.5 and prioritized.options["selectors"][0].alpha == 1
    assert probabilities(prioritized)[3] == pytest.approx(2 / 5)
    prioritized.selector().decay(0.5)
    assert probabilities(prioritized)[3] == pytest.approx(2 / 5)
    for wrong in (
        lambda: prioritized.selector().set_alpha(-1),
        lambda: prioritized.selector().decay(2),
        lambda: prioritized.selector(1).decay(0.5),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_arrays_may_change_while_a_call_reads_them(buffer):
    fill(buffer, 4096)
    keys = buffer.sampler().sample(512).item_keys.copy()
    priorities = np.ones(512, np.float32)
    good = keys.copy()
    rng = np.random.default_rng(1)
    stop = threading.Event()

    def scribble():
        while not stop.is_set():
            keys[:] = rng.integers(-(2**62), 2**62, 512)
            keys[:] = good

    with running(scribble):
        for _ in range(2000):
            try:
                assert sum(buffer.update_priorities(keys, priorities)) == 512
            except ValueError:
                pass  # The test wrote garbage keys at that moment.
        stop.set()
    assert sum(buffer.update_priorities(good, priorities)) == 512
