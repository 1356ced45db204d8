import array
import ctypes
import gc
import mmap
import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from testing.buffers import fill
from testing.refusals import refuses

import reprise
from reprise import _memory


def test_shapes_and_dtypes_of_a_batch(buffer):
    fill(buffer, 50)
    batch = buffer.sampler().sample(8)
    shapes = {name: (batch[name].dtype.name, batch[name].shape) for name in batch.keys()}
    assert shapes == {
        "state": ("float32", (8, 2)),
        "next_state": ("float32", (8, 2)),
        "action": ("int32", (8,)),
        "reward": ("float32", (8,)),
    }
    columns = {
        "discounts": "float32",
        "weights": "float32",
        "probabilities": "float64",
        "item_keys": "int64",
        "episode_ids": "int64",
        "positions": "int64",
        "lengths": "int32",
    }
    for name, dtype in columns.items():
        column = getattr(batch, name)
        assert (column.dtype.name, column.shape) == (dtype, (8,)), name
    assert len(batch) == 8
    assert "next_state" in batch and "next_action" not in batch and 3 not in batch
    assert np.shares_memory(batch["next_state"], batch.next["state"])
    assert np.shares_memory(batch["action"], batch.now["action"])
    with pytest.raises(
        KeyError, match="no field 'other'; fields: state, action, reward, next_state"
    ):
        batch["other"]
    with pytest.raises(TypeError):
        batch.now["action"] = 3


def test_a_batch_of_views_is_filled_again_by_the_next_draw(buffer):
    fill(buffer, 50)
    sampler = buffer.sampler()
    batch = sampler.sample(8, views=True)
    keys = batch.item_keys
    before = keys.copy()
    own = sampler.sample(8)
    assert own is not batch and np.array_equal(keys, before)
    again = sampler.sample(8, views=True)
    assert again is batch and np.shares_memory(again.item_keys, keys)
    assert not np.array_equal(keys, before)
    fewer = sampler.sample(3, views=True)
    assert fewer is not batch and len(fewer) == 3 and len(fewer["state"]) == 3


def test_memory_is_used_again_when_nobody_holds_it(buffer):
    fill(buffer, 50)
    made = []

    def allocator(nbytes):
        made.append(np.empty(nbytes, np.uint8))
        return made[-1]

    sampler = buffer.sampler(allocator=allocator)
    batch = None
    for _ in range(20):
        batch = sampler.sample(8)  # The previous batch is held until this assignment.
    assert len(made) == 2
    row = batch["state"][3:]  # A view of one of its arrays also keeps the batch alive.
    before = row.copy()
    del batch
    held = [sampler.sample(8) for _ in range(3)]
    assert len(made) == 4 and np.array_equal(row, before)
    del held


def test_a_batch_is_a_mapping(buffer):
    fill(buffer, 50)
    batch = buffer.sampler().sample(8)
    names = ["state", "next_state", "action", "reward"]
    assert list(batch.keys()) == list(batch) == list({**batch}) == names
    assert [name for name, _ in batch.items()] == names and len(batch.values()) == 4
    for name, array in dict(batch).items():
        assert np.array_equal(array, batch[name])
    assert batch.get("nothing") is None and batch.get("nothing", 3) == 3
    assert np.array_equal(batch.get("state"), batch["state"])


def test_tensors_of_a_batch(buffer):
    torch = pytest.importorskip("torch")
    fill(buffer, 50)
    batch = buffer.sampler().sample(8)
    tensors = batch.torch()
    assert list(tensors) == list(batch) and isinstance(tensors, reprise.Tensors)
    assert tensors["state"].data_ptr() == batch["state"].ctypes.data
    assert torch.equal(tensors.returns["reward"], torch.from_numpy(batch.returns["reward"]))
    for name in ("weights", "discounts", "item_keys", "lengths"):
        assert getattr(tensors, name).tolist() == getattr(batch, name).tolist()
    copy = batch.torch("cpu")
    assert copy["action"].dtype == torch.int32
    for name in ("state", "action"):
        assert not np.shares_memory(copy[name].numpy(), batch[name])
    wide = batch_of_types(["uint16", "uint64"]).torch()
    for tensor in (wide["uint16"], wide["uint64"]):
        assert tensor.dtype == torch.int64 and (tensor == 1).all()


class FakeTorch:
    """Stands in for torch in Batch.torch. Copies to its cuda device are unfinished until `over` is
    set. Once `fails` copies were made, further ones raise MemoryError. `queried` is called at the
    first query of an event."""

    def __init__(self, fails=10**9, queried=None):
        self.fails, self.queried, self.over, self.copies = fails, queried, False, []
        self.cuda = SimpleNamespace(Event=lambda: self, current_stream=lambda device: None)
        self.device = SimpleNamespace(type="cuda")

    def from_numpy(self, array):
        return self

    def to(self, device, non_blocking=False, copy=False):
        if len(self.copies) >= self.fails:
            raise MemoryError
        self.copies.append(non_blocking)
        return self

    def record(self, stream):
        pass

    def query(self):
        once, self.queried = self.queried, None
        if once is not None:
            once()
        return self.over


def in_flight(fake):
    """The number of batches that the package holds until a copy to this device is finished."""
    return sum(done is fake for done, _ in _memory._in_flight)


def test_a_batch_is_held_after_a_copy_to_a_device_failed(buffer, monkeypatch):
    fill(buffer, 50)
    fake = FakeTorch(fails=2)
    monkeypatch.setitem(sys.modules, "torch", fake)
    with pytest.raises(MemoryError):
        buffer.sampler().sample(8).torch("cuda")
    assert in_flight(fake) == 1
    fake.over, fake.fails = True, 10**9
    buffer.sampler().sample(8).torch("cuda")
    assert in_flight(fake) == 1  # The second batch is held; the first was released.


def test_a_batch_that_another_thread_copies_meanwhile_is_held(buffer, monkeypatch):
    fill(buffer, 50)
    one, other = buffer.sampler().sample(8), buffer.sampler().sample(8)
    second = threading.Thread(target=lambda: other.torch("cuda"))

    def meanwhile():
        second.start()
        second.join(0.2)

    done, kept, fake = FakeTorch(), FakeTorch(), FakeTorch()
    for torch in (done, kept):
        monkeypatch.setitem(sys.modules, "torch", torch)
        buffer.sampler().sample(8).torch("cuda")
    monkeypatch.setitem(sys.modules, "torch", fake)
    done.over, done.queried = True, meanwhile
    one.torch("cuda")
    second.join()
    assert (in_flight(done), in_flight(kept), in_flight(fake)) == (0, 1, 2)
    kept.over = fake.over = True


def test_a_batch_that_is_filled_again_is_not_copied_in_the_background(buffer, monkeypatch):
    fill(buffer, 50)
    sampler = buffer.sampler()
    for views, batch in (
        (False, sampler.sample(8)),
        (True, sampler.sample(8, views=True)),
        (True, sampler.empty_batch(8)),
    ):
        fake = FakeTorch()
        monkeypatch.setitem(sys.modules, "torch", fake)
        assert batch.views == views
        batch.torch("cuda")
        in_background = not views
        assert set(fake.copies) == {in_background}
        assert in_flight(fake) == in_background
        fake.over = True


def test_arrays_outlive_everything(buffer):
    fill(buffer, 50)
    sampler = buffer.sampler()
    state = sampler.sample(1000)["state"]
    copy = state.copy()
    sampler.sample(5000)
    del sampler
    buffer.close()
    gc.collect()
    assert np.array_equal(state, copy)
    state[:] = 3


def test_views_without_copies(buffer):
    fill(buffer, 50)
    batch = buffer.sampler().sample(8)
    for array in (batch["state"], batch.item_keys, batch.lengths, batch.weights):
        shared = np.from_dlpack(array)
        assert np.shares_memory(shared, array)
        assert array.flags.c_contiguous and array.flags.writeable and not array.flags.owndata


TORCH_TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")


def batch_of_types(names):
    """Returns a batch with a field of each type, in which every value is 1."""
    schema = reprise.Schema().observation("state", np.float32, (2,)).reward()
    for name in names:
        schema.column(name, name, (3,))
    buffer = reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform())
    with buffer.writer() as writer:
        writer.begin_episode(state=[0, 0])
        ones = {name: np.ones(3, name) for name in names}
        for _ in range(20):
            writer.append(reward=1, next_state=[0, 0], **ones)
    return buffer.sampler().sample(8)


def test_torch_takes_batches_without_copies():
    torch = pytest.importorskip("torch")
    batch = batch_of_types(TORCH_TYPES)
    own = (batch["state"], batch.returns["reward"], batch.weights, batch.discounts)
    ids = (batch.item_keys, batch.lengths, batch.positions, batch.episode_ids, batch.probabilities)
    fields = tuple(batch[name] for name in TORCH_TYPES)
    for array in own + ids + fields:
        tensors = [torch.from_numpy(array)]
        if array.dtype != bool:  # numpy before 1.25 does not convert bool here.
            tensors.append(torch.from_dlpack(array))
        for tensor in tensors:
            assert tensor.data_ptr() == array.ctypes.data
            assert str(tensor.dtype) == f"torch.{array.dtype}"
    batch["bool"][:] = False
    assert not torch.from_numpy(batch["bool"]).any()


def test_seeds_decide_what_is_drawn(buffer):
    fill(buffer, 200)
    one, same, other = (buffer.sampler(seed=seed).sample(16).item_keys for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_without_gathering_only_keys_are_filled(buffer):
    fill(buffer, 50)
    sampler = buffer.sampler()
    batch = sampler.sample(8, views=True)
    batch["state"][:] = -5
    keys = batch.item_keys.copy()
    assert sampler.sample(8, gather=False, views=True) is batch
    assert (batch["state"] == -5).all() and not np.array_equal(keys, batch.item_keys)


class Pair(ctypes.Structure):
    _fields_ = [("Offset", ctypes.c_int), ("Other", ctypes.c_double)]


@pytest.mark.parametrize(
    "allocator",
    [
        bytearray,
        np.zeros,
        lambda nbytes: memoryview(bytearray(nbytes)),
        lambda nbytes: array.array("d", bytes(8 * nbytes)),
        lambda nbytes: mmap.mmap(-1, nbytes),
        lambda nbytes: np.zeros((2, nbytes), "M8[s]"),
        lambda nbytes: np.zeros(nbytes, [("Offset", "<i4"), ("Other", "<f8", (2,))]),
        lambda nbytes: ctypes.create_string_buffer(nbytes),
        lambda nbytes: (Pair * nbytes)(),
    ],
)
def test_memory_of_many_kinds(buffer, allocator):
    fill(buffer, 50)
    made = []
    batch = buffer.sampler(allocator=lambda n: made.append(allocator(n)) or made[-1]).sample(8)
    assert len(made) == 1 and set(batch["action"]) <= set(range(50))


def test_an_allocator_is_called_only_for_more_memory(buffer):
    fill(buffer, 50)
    made = []

    def allocator(nbytes):
        made.append(np.empty(nbytes + 3, np.uint8)[3:])
        return made[-1]

    sampler = buffer.sampler(allocator=allocator)
    batch = sampler.sample(8)
    assert len(made) == 1
    for array in (batch["state"], batch["next_state"], batch.item_keys):
        assert np.shares_memory(array, made[0])
    del batch, array
    sampler.sample(8)
    sampler.sample(4)
    assert len(made) == 1
    sampler.sample(9)
    assert len(made) == 2


def read_only(nbytes):
    made = np.zeros(nbytes, np.uint8)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize(
    "allocator, error, message",
    [
        (lambda nbytes: np.empty(nbytes // 2, np.uint8), ValueError, "gave .* bytes; asked for"),
        (lambda nbytes: bytes(nbytes), TypeError, "gave bytes; allowed: .* writable"),
        (lambda nbytes: read_only(nbytes), TypeError, "gave ndarray that is read-only"),
        (lambda nbytes: None, TypeError, "gave NoneType"),
        (lambda nbytes: 1 / 0, ZeroDivisionError, "division"),
        (lambda nbytes: np.full(nbytes, object()), TypeError, "allocator gave .*references"),
        (lambda nbytes: np.zeros(nbytes, "O,M8[s]"), TypeError, "allocator gave .*references"),
        (lambda nbytes: memoryview(np.full(nbytes, 1, object)), TypeError, "references to objects"),
        (lambda nbytes: (ctypes.py_object * nbytes)(), TypeError, "references to objects"),
    ],
)
def test_wrong_allocators(buffer, allocator, error, message):
    fill(buffer, 50)
    refuses(error, message, buffer.sampler(allocator=allocator).sample, 8)
    refuses(TypeError, "allocator is 3; allowed: None or a function", buffer.sampler, allocator=3)


def test_wrong_arguments(buffer):
    fill(buffer, 50)
    sample = buffer.sampler().sample
    for arguments, error, message in (
        ({}, TypeError, "n is missing"),
        ({"n": 8, "beta": 2}, ValueError, "beta"),
        ({"n": 8, "draws": 3}, ValueError, "draws is 3; allowed: 'stratified', 'independent'"),
        ({"n": 8, "timeout": -1}, ValueError, "timeout is -1 s; allowed: None or at least 0"),
        ({"n": 8, "timeout": float("nan")}, ValueError, "timeout is nan"),
        ({"n": 8, "timeout": "1"}, TypeError, "timeout is '1'"),
        ({"n": 8, "size": 1}, TypeError, "unexpected keyword 'size'; allowed: n, beta"),
        ({"n": 10**15}, ValueError, "batch size"),
    ):
        refuses(error, message, sample, **arguments)
    refuses(TypeError, "1 positional", sample, 8, 0.5)


def test_nothing_to_draw(schema):
    buffer = reprise.ReplayBuffer(schema, 100, rate_limiter=reprise.Unlimited())
    refuses(reprise.NothingToDraw, "Sampler.sample: ", buffer.sampler().sample, 1)


def reserved_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def test_an_owned_batch_does_not_keep_the_buffer():
    schema = reprise.Schema().observation("frame", np.uint8, (1000,)).reward()
    before = reserved_bytes()
    buffer = reprise.ReplayBuffer(schema, 1_000_000)
    buffer.writer().append_episode(frame=np.ones((3, 1000)).astype(np.uint8), reward=[1, 2])
    batch = buffer.sampler().sample(2)
    frames = batch["frame"]
    assert reserved_bytes() - before > 10**9
    del buffer
    gc.collect()
    assert reserved_bytes() - before < 10**9
    assert (frames == 1).all() and batch["reward"].shape == (2,)


def test_a_text_is_no_flag(buffer):
    fill(buffer, 10)
    sampler = buffer.sampler()
    for flag in ("views", "gather"):
        with pytest.raises(TypeError, match=f"Sampler.sample: {flag} is 'no'; allowed: True or"):
            sampler.sample(2, **{flag: "no"})
    assert len(sampler.sample(2, views=np.bool_(True), gather=1)) == 2
