"""Copies of buffers and batches by pickle and copy.deepcopy, and on the ways to other processes."""

import copy
import multiprocessing
import multiprocessing.reduction
import pickle
import weakref
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from testing.buffers import every_item, fill
from testing.refusals import refuses

import reprise
from reprise._files import from_files, to_files


@pytest.mark.parametrize("through", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy])
def test_a_copy_of_a_buffer_has_its_items_and_is_independent(buffer, through):
    fill(buffer, 100)
    twin = through(buffer)
    assert twin.schema == buffer.schema and twin.options == buffer.options
    one, other = every_item(buffer), every_item(twin)
    for name, array in one.items():
        if name != ".returns":
            np.testing.assert_array_equal(array, other[name], name)
    fill(twin, 10, 1000.0)
    assert (len(twin), len(buffer)) == (110, 100)


def test_a_closed_buffer_can_be_pickled_too(buffer):
    fill(buffer, 5)
    buffer.close()
    assert len(pickle.loads(pickle.dumps(buffer))) == 5


@pytest.mark.parametrize("through", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy])
def test_a_schema_can_be_copied(through):
    schema = reprise.Schema().observation("obs", np.uint8, (2, 3)).column("a", bool)
    schema.observation("frame", np.uint8, (32, 32)).compress("frame")
    schema.column("h", np.float16, (4,)).reward().reward("cost").discount("gamma")
    schema.recurrent_state("lstm", np.float32, (2, 8))
    for finite in (False, True):
        twin = through(schema.require_finite(finite))
        assert twin == schema and twin.fields == schema.fields
        assert twin.requires_finite is finite
        assert twin.compressed == schema.compressed == ("frame",)
        twin.column("more", np.int8)
        assert twin != schema


@pytest.mark.parametrize("through", [pickle.dumps, copy.copy, copy.deepcopy])
def test_writers_samplers_and_others_cannot_be_pickled(buffer, through):
    fill(buffer, 5)
    with buffer.prefetch(1) as prefetcher:
        for one in (
            *(buffer.writer(), buffer.vector_writer(2, autoreset="disabled"), buffer.sampler()),
            *(reprise.mix([buffer], 1), buffer.hindsight("state"), prefetcher),
            *(reprise.StepPacker(buffer.schema), reprise.ReplayShard(buffer)),
            reprise.ShardClient(buffer.schema, 1),
        ):
            refuses(TypeError, f"^a {type(one).__name__} cannot be pickled or co", through, one)
    for one in (reprise.SegmentTree(4), reprise.ShardedLimiter(reprise.MinSize(1), 10)):
        refuses(TypeError, "cannot pickle", through, one)


@pytest.mark.parametrize("name", ["/{}/out", "../out", "within/out"])
def test_files_of_a_copy_stay_in_their_directory(buffer, name, tmp_path):
    files = to_files(buffer)
    files[name.format(tmp_path)] = b"x"
    refuses(ValueError, "allowed: a name without directories", from_files, files)
    assert not list(tmp_path.iterdir())


METHODS = multiprocessing.get_all_start_methods()
PICKLED = [method for method in METHODS if method != "fork"]
REFUSED = r"cannot be handed to another process.*replay.share\(\).*reprise.attach.*save here and .*load there"


def use(*buffers):
    """Runs in another process, which must not get a buffer."""
    raise AssertionError("the process began")


class Held:
    """An object that pickles the buffer within its own pickle, as vector environments of Gymnasium
    do."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __getstate__(self):
        return pickle.dumps(self.buffer)


@pytest.mark.parametrize("method", PICKLED)
@pytest.mark.parametrize("held", [lambda buffer: buffer, lambda buffer: {"a": [buffer]}, Held])
def test_starting_a_process_with_a_buffer_is_refused(method, held, buffer):
    context = multiprocessing.get_context(method)
    for process in (
        context.Process(target=use, args=(held(buffer),)),
        context.Process(target=use, kwargs={"buffer": held(buffer)}),
        context.Process(target=held(buffer)),
    ):
        refuses(RuntimeError, REFUSED, process.start)
    refuses(RuntimeError, REFUSED, context.Pool, 1, initializer=use, initargs=(held(buffer),))
    executor = ProcessPoolExecutor(1, context, initializer=use, initargs=(held(buffer),))
    with pytest.raises(RuntimeError, match=REFUSED):
        executor.submit(len, []).result()
    # Pickling within a process still works.
    assert len(pickle.loads(pickle.dumps(buffer))) == len(copy.deepcopy(buffer)) == 0


@pytest.mark.parametrize("method", METHODS)
def test_sending_a_buffer_to_a_running_process_is_refused(method, buffer, capfd):
    context = multiprocessing.get_context(method)
    with pytest.raises(RuntimeError, match=REFUSED):
        context.Pipe()[0].send(buffer)
    with pytest.raises(RuntimeError, match=REFUSED):
        context.SimpleQueue().put([buffer])
    with context.Pool(1) as pool, pytest.raises(RuntimeError, match=REFUSED):
        pool.map(use, [buffer])
    with ProcessPoolExecutor(1, context) as executor:
        with pytest.raises(RuntimeError, match=REFUSED):
            executor.submit(use, buffer).result()
    # A queue pickles in a thread of its own, which prints the error and continues.
    queue = context.Queue()
    queue.put(buffer)
    queue.put("next")
    assert queue.get(timeout=60) == "next"
    assert "cannot be handed to another process" in capfd.readouterr().err


def arrays_of(batch):
    """Returns all arrays of a batch, by name."""
    arrays = {name: batch[name] for name in batch}
    for group in ("returns", "frames"):
        arrays |= {f".{group}.{name}": array for name, array in getattr(batch, group).items()}
    columns = "discounts weights probabilities item_keys episode_ids positions lengths"
    return arrays | {"." + name: getattr(batch, name) for name in columns.split()}


def assert_equal(one, other):
    assert type(other) is reprise.Batch and len(one) == len(other)
    assert one.keys() == other.keys() and not other.views
    expected, found = arrays_of(one), arrays_of(other)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        np.testing.assert_array_equal(found[name], array, name)
        assert array.size == 0 or not np.shares_memory(found[name], array), name


TRANSITIONS = reprise.Transitions(n_step=3, frame_stack=2, discount=0.5)
SEQUENCES = reprise.Sequences(length=3, period=2, burn_in=1, n_step=2, frame_stack=2)


def make(window, episodes=(7, 4, 9)):
    schema = reprise.Schema().observation("obs", np.uint8, (32, 32)).observation("x", np.float16)
    schema.column("next_a", np.int64, (2,)).reward().reward("cost").discount("gamma")
    schema.mutable_column("m", np.float64).version().compress("obs")
    if isinstance(window, reprise.Sequences):
        schema.recurrent_state("lstm", np.float32, (2,))
    replay = reprise.ReplayBuffer(schema, 1000, window=window, shards=1)
    random = np.random.default_rng(1)
    with replay.writer() as writer:
        for steps in episodes:
            fields = {"lstm": random.random((steps, 2))} if "lstm" in str(schema) else {}
            writer.append_episode(
                obs=random.integers(256, size=(steps + 1, 32, 32), dtype=np.uint8),
                x=random.random(steps + 1),
                next_a=random.integers(9, size=(steps, 2)),
                gamma=random.random(steps),
                end=reprise.End.TERMINATED,
                **{name: random.random(steps) for name in ("reward", "cost", "m")} | fields,
            )
    return replay


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("unique_frames", [False, True])
@pytest.mark.parametrize("window", [TRANSITIONS, SEQUENCES, reprise.Sequences(4, 4)])
def test_a_pickled_batch_comes_back_equal(window, unique_frames, protocol):
    replay = make(window)
    sampler = replay.sampler(seed=1, unique_frames=unique_frames)
    for batch in (sampler.sample(5), sampler.sample(5, views=True), replay.gather([])):
        assert_equal(batch, pickle.loads(pickle.dumps(batch, protocol)))
    assert len(pickle.loads(pickle.dumps(sampler.empty_batch(3), protocol))) == 3
    mixed = reprise.mix([(replay, 3), (make(window), 4)], seed=1, unique_frames=unique_frames)
    assert_equal(mixed_batch := mixed.sample(), pickle.loads(pickle.dumps(mixed_batch, protocol)))
    # The copy has memory of its own.
    twin = pickle.loads(pickle.dumps(batch := sampler.sample(5), protocol))
    before = copy.deepcopy(batch)
    sampler.sample_into(twin, 0, 5)
    assert_equal(before, batch)
    assert_equal(before, copy.copy(batch))
    assert sum(mixed.update_priorities(mixed_batch.item_keys, np.ones(7))) == 7


def work(given, taken):
    """Runs in the other process: takes a batch, changes it and sends it back."""
    batch = given.get(timeout=60)
    batch["action"][:] += 1
    taken.put((batch, batch.item_keys, batch.weights + 1))


def test_unique_frames_are_pickled_once():
    replay = make(SEQUENCES)
    once, whole = (
        len(pickle.dumps(replay.sampler(unique_frames=unique).sample(20)))
        for unique in (True, False)
    )
    assert once < whole / 2


@pytest.mark.parametrize("method", METHODS)
def test_batches_through_queues_of_processes(method):
    schema = reprise.Schema().observation("state", np.float32, (2,)).column("action", np.int64)
    replay = reprise.ReplayBuffer(schema.reward(), 100, shards=1)
    with replay.writer() as writer:
        writer.append_episode(state=np.random.random((9, 2)), action=[0] * 8, reward=[1] * 8)
    context = multiprocessing.get_context(method)
    given, taken = context.Queue(), context.Queue()
    process = context.Process(target=work, args=(given, taken))
    process.start()
    batch = replay.sampler(seed=1).sample(8, draws="without_replacement")
    given.put(batch)
    back, keys, priorities = taken.get(timeout=60)
    process.join()
    assert process.exitcode == 0
    assert (back["action"] == 1).all() and (batch["action"] == 0).all()
    batch["action"][:] = 1
    assert_equal(batch, back)
    assert replay.update_priorities(keys, priorities) == (8, 0)
    np.testing.assert_array_equal(replay.selector().priorities(back.item_keys), priorities)


def test_buffers_can_be_weakly_referenced(buffer):
    twin = pickle.loads(pickle.dumps(buffer))
    ended = []
    reference = weakref.ref(twin, ended.append)
    assert reference() is twin and weakref.WeakValueDictionary({"a": twin})["a"] is twin
    del twin
    assert reference() is None and ended == [reference]
    sampler = buffer.sampler()
    assert weakref.ref(sampler)() is sampler
