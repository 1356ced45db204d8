"""Batches as tensors of torch on a device, copied there while the learner computes.

    from reprise.torch import loader

    with loader(replay, 512, device="cuda", beta=0.4) as batches:
        for batch in batches:                # A reprise.Tensors: batch["obs"], batch.weights, ...
            errors = update(batch)           # A tensor on the device, [512].
            batches.update_priorities(batch.item_keys, errors.abs())

A thread draws batches into page-locked memory; each batch goes to the device by one copy on a
separate stream. A batch has each frame of an observation once; its stacks are made on the device.

CUDA is used through torch alone. With device="cpu" the same calls give tensors that share the
memory of each reprise.Batch, without a copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ._memory import Tensors, arrays_of, has_full_windows, is_refilled, tensors_from
from ._mirror import ALIGNED, UNSIGNED, Mirror, device_of, mirror, on_host
from ._options import classes as strategies
from ._reprise import Batch, Closed, Guest, NothingToDraw
from ._simple_buffer import SimpleReplayBuffer
from ._source import BatchSource
from ._vocabulary import Draws, Normalise, UpdateResult

__all__ = ["Loader", "Mirror", "SimpleReplayBuffer", "loader", "mirror", "on_host", "pinned"]


def pinned(nbytes: int) -> NDArray[np.uint8]:
    """Page-locked memory, from which CUDA copies in the background: an allocator for
    ReplayBuffer.sampler. RuntimeError of torch without CUDA."""
    memory: NDArray[np.uint8] = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
    return memory


class _CompletedEvent:
    """The event of a copy that has ended."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class _Cpu:
    """The CPU as a device, which copies nothing. A loader uses devices only through these methods,
    so that tests can replace the device by one that copies as late as possible."""

    copies = False
    allocator = None

    def send(self, host: Any) -> tuple[Any, Any]:
        """Begins to copy a tensor to the device. Returns the tensor there and the event of the
        copy's end, before which the memory of `host` must not change."""
        return host, _CompletedEvent()

    def receive(self, sent: Any, event: Any) -> None:
        """Makes later work of the caller on the device wait for the tensor."""

    def fetch(self, tensors: list[Any]) -> tuple[list[Any], Any]:
        """Begins to copy tensors from the device, after the caller's work on them. Returns the
        tensors here and the event of the copies' end."""
        return [each.cpu() for each in tensors], _CompletedEvent()


class _Cuda:
    copies = True
    allocator = staticmethod(pinned)

    def __init__(self, device: Any) -> None:
        self._device = device
        self._index = torch.cuda.current_device() if device.index is None else device.index
        self._stream = torch.cuda.Stream(device)

    def send(self, host: Any) -> tuple[Any, Any]:
        if not host.is_pinned():
            raise ValueError(
                "loader: the source's batches are in memory that is not page-locked; allowed: a "
                "source made with allocator=reprise.torch.pinned, or thread=True"
            )
        with torch.cuda.stream(self._stream):
            # Allocated on the copy stream, so that the copy does not wait for the learner's work.
            sent = torch.empty(host.shape, dtype=host.dtype, device=self._device)
            sent.copy_(host, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        return sent, event

    def receive(self, sent: Any, event: Any) -> None:
        learner = torch.cuda.current_stream(self._device)
        learner.wait_event(event)
        # The allocator reuses the memory only after the learner's work so far.
        sent.record_stream(learner)

    def fetch(self, tensors: list[Any]) -> tuple[list[Any], Any]:
        host = [torch.empty(each.shape, dtype=each.dtype, pin_memory=True) for each in tensors]
        for to, each in zip(host, tensors):
            # The event below does not tell of work on another device, so copies from there wait.
            to.copy_(each, non_blocking=each.device.index == self._index)
        event = torch.cuda.Event()
        # On the learner's stream the copies run after the work that computes the priorities.
        event.record(torch.cuda.current_stream(self._device))
        return host, event


def _device_of(given: Any) -> Any:
    if given is None:
        given = "cuda" if torch.cuda.is_available() else "cpu"
    device = device_of("loader", given)
    if device.type == "cpu":
        return _Cpu()
    # The index is stored, because the current device may change.
    return _Cuda(
        torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
    )


class _ArrayInterface:
    """Offers the memory of a batch to numpy, and keeps the batch alive."""

    def __init__(self, batch: Any, begin: int, nbytes: int) -> None:
        self.batch = batch
        self.__array_interface__ = {
            "data": (begin, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def _address(array: NDArray[Any]) -> int:
    begin: int = array.__array_interface__["data"][0]
    return begin


def _typed(flat: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Views bytes as elements of the numpy type with this name."""
    signed, mask = UNSIGNED.get(name, (name, -1))
    elements = flat.view(getattr(torch, signed))
    elements = elements if mask < 0 else elements.to(torch.int64) & mask
    return elements if len(shape) == 1 else elements.view(shape)


def _layout_key(batch: Any) -> Any:
    """Number of items and layout of a reprise.Batch: batches with equal keys have their columns at
    the same places if their blocks of memory were made for equally many items."""
    return (len(batch), batch._layout()) if isinstance(batch, Batch) else None


class _Layout:
    """The places of a batch's columns in its single block of memory. Keys of a cluster are not among
    them: they are a structured array, which stays in main memory."""

    def __init__(self, batch: Any) -> None:
        columns = [column for column in arrays_of(batch) if column[2].dtype.names is None]
        begin, self._first_kind, self._first_name = min(
            (_address(array), kind, name) for kind, name, array in columns
        )
        self._nbytes = max(_address(array) + array.nbytes for _, _, array in columns) - begin
        self._columns = [
            (kind, name, _address(array) - begin, array.nbytes, array.shape, array.dtype.name)
            for kind, name, array in columns
        ]
        self._lengths_offset = _address(batch.lengths) - begin
        self._stacks = {name: batch[name].shape for name in batch.frames}
        self._layout_key = _layout_key(batch)

    def memory(self, batch: Any) -> Any:
        """A tensor of the bytes of all columns, which keeps the batch alive; None if the columns of
        this batch are at other places."""
        if _layout_key(batch) != self._layout_key:
            return None
        # A block made for more items than the batch has holds all columns further apart. The
        # lengths come last, so if their distance from the first column is equal, all places are.
        arrays = batch.frames if self._first_kind == "frames" else batch
        begin = _address(arrays[self._first_name])
        if _address(batch.lengths) - begin != self._lengths_offset:
            return None
        return torch.from_numpy(np.asarray(_ArrayInterface(batch, begin, self._nbytes)))

    def tensors(self, memory: Any, whole: bool) -> Tensors:
        """The Tensors of a batch whose columns are in these bytes, on any device."""
        parts = (
            (kind, name, _typed(memory[begin : begin + nbytes], dtype, shape))
            for kind, name, begin, nbytes, shape, dtype in self._columns
        )
        return tensors_from(parts, self._stacks, whole)


def _copied(batch: Any, allocator: Any) -> Tensors:
    """Copies the arrays of a batch that is no reprise.Batch, or is filled again, into one block of
    memory, each at a multiple of ALIGNED bytes."""
    columns = list(arrays_of(batch))
    ends = np.cumsum([-(-array.nbytes // ALIGNED) * ALIGNED for _, _, array in columns]).tolist()
    block = (allocator or partial(np.empty, dtype=np.uint8))(ends[-1])
    parts = []
    for (kind, name, array), begin in zip(columns, [0, *ends]):
        copy = block[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        parts.append((kind, name, copy))
    copies = tensors_from(parts, stacks={}, whole=True)
    copies.update((name, batch[name]) for name in batch.frames)
    return copies


class Loader(Iterator[Tensors]):
    """An iterator over batches on a device; made by reprise.torch.loader."""

    def __init__(
        self,
        source: BatchSource,
        draw: Callable[..., Batch],
        end: Callable[[], None],
        device: Any,
        depth: int,
        timeout: float | None,
    ) -> None:
        self._closed = self._exhausted = False
        self._source, self._device, self._depth, self._timeout = source, device, depth, timeout
        self._draw, self._end = draw, end
        # A batch that is drawn ahead misses the last updates, so only copies are reason to do so.
        self._ahead = depth if device.copies else 1
        # Batches whose copies have begun: layout, tensor, event, whether all windows are full, keys.
        self._ready: deque[tuple[_Layout, Any, Any, bool, Any]] = deque()
        # Batches that the device may still copy from, each behind the event of the copy's end.
        self._batches_in_copy: deque[tuple[Any, Any]] = deque()
        # Updates to apply: the event of their copies' end, keys and priorities.
        self._updates: deque[tuple[Any, Any, Any]] = deque()
        self._updated = UpdateResult(0, 0)
        # The last update whose result the source has not returned yet.
        self._unconfirmed: Any = None
        self._layout: _Layout | None = None

    @property
    def updates(self) -> UpdateResult:
        """How many updates were applied so far, and how many were stale. Updates of a source over Ray
        are not among them: ReplayBuffer.stats of reprise.ray counts those."""
        return self._updated

    def __next__(self) -> Tensors:
        """The next batch. StopIteration when the buffer is closed and all drawn batches are handed
        out; TimeoutError and NothingToDraw as Sampler.sample; Closed after `close`; ValueError if
        the values of an earlier `update_priorities`, which are applied here, are wrong."""
        self._check_open("Loader.__next__")
        self._apply(max_left=self._depth)
        while len(self._ready) < self._ahead and not self._exhausted and self._begin_one():
            pass
        if not self._ready:
            raise StopIteration
        layout, sent, event, whole, keys = self._ready.popleft()
        self._device.receive(sent, event)
        tensors = layout.tensors(sent, whole)
        if keys.dtype.names is not None:  # Keys of a cluster, which are not sent.
            tensors.item_keys = keys
        return tensors

    def _begin_one(self) -> bool:
        """Draws a batch and begins its copy; returns whether. Waits only if none is under way."""
        self._free_copied(self._depth - 1)
        try:
            batch = self._draw(timeout=0 if self._ready else self._timeout)
        except (Closed, StopIteration):
            self._exhausted = True
            return False
        except (TimeoutError, NothingToDraw):
            # A rate limiter may wait for steps that come only after the learner's next update.
            if self._ready:
                return False
            raise
        keys = batch.item_keys
        batch = getattr(batch, "_local", batch)  # A batch of a cluster has a reprise.Batch inside.
        if not isinstance(batch, Batch) or is_refilled(batch):
            batch, self._layout = _copied(batch, self._device.allocator), None
        layout = self._layout
        memory = None if layout is None else layout.memory(batch)
        if layout is None or memory is None:
            layout = self._layout = _Layout(batch)
            memory = layout.memory(batch)
        sent, event = self._device.send(memory)
        self._batches_in_copy.append((event, batch))
        self._ready.append((layout, sent, event, has_full_windows(batch), keys))
        return True

    def _free_copied(self, max_left: int) -> None:
        """Gives the memory of copied batches back to its pool; waits until at most `max_left`
        batches are still being copied."""
        while self._batches_in_copy and (
            len(self._batches_in_copy) > max_left or self._batches_in_copy[0][0].query()
        ):
            self._batches_in_copy[0][0].synchronize()
            self._batches_in_copy.popleft()

    def update_priorities(self, keys: Any, priorities: Any) -> None:
        """Sets priorities by the source's `update_priorities`, without waiting for the device.

        keys: batch.item_keys, [n], or some of them. priorities: [n], not negative. Both are tensors
          on any device, or arrays, and are copied as the work before this call leaves them.

        From a device they are copied in the background, and applied by the first call of the loader
        (`__next__`, this one or `flush`) after the copy has ended. At most `depth` updates are
        under way; a further call waits for the oldest one. Updates from the CPU are applied at
        once. TypeError or ValueError for types and shapes. A wrong value raises a ValueError in the
        call that applies its update, and nothing of that update is set.
        """
        self._check_open("Loader.update_priorities")
        priorities = torch.as_tensor(priorities)
        # Keys of a cluster are a structured array, which stays on the CPU.
        keys_on_device = getattr(getattr(keys, "dtype", None), "names", None) is None
        if keys_on_device:
            keys = torch.as_tensor(keys)
            if keys.dtype != torch.int64:
                raise TypeError(f"Loader.update_priorities: keys is {keys.dtype}; allowed: int64")
        if keys.ndim != 1 or tuple(keys.shape) != tuple(priorities.shape):
            raise ValueError(
                f"Loader.update_priorities: keys has shape {tuple(keys.shape)} and priorities "
                f"{tuple(priorities.shape)}; allowed: (n,) for both"
            )
        values = priorities.detach().to(torch.float32)
        if keys_on_device:
            (values, host_keys), event = self._device.fetch([values, keys])
            self._updates.append((event, host_keys.numpy(), values))
        else:
            (values,), event = self._device.fetch([values])
            self._updates.append((event, keys.copy(), values))
        self._apply(max_left=self._depth)

    def flush(self) -> None:
        """Waits for the updates that are under way, and applies them."""
        self._check_open("Loader.flush")
        self._apply(max_left=0)
        self._confirm()

    def _confirm(self) -> None:
        """Waits until a source that applies updates in the background has applied all of them."""
        if self._unconfirmed is not None:
            self._unconfirmed.wait()
            self._unconfirmed = None

    def _apply(self, max_left: int) -> None:
        """Applies updates whose copies have ended, in their order, and waits until at most
        `max_left` are left."""
        while self._updates and (len(self._updates) > max_left or self._updates[0][0].query()):
            event, keys, priorities = self._updates.popleft()
            event.synchronize()
            result = self._source.update_priorities(keys, priorities.numpy())
            if isinstance(result, UpdateResult):
                self._updated = UpdateResult(*map(sum, zip(self._updated, result)))
            else:
                self._unconfirmed = result

    def close(self) -> None:
        """Waits for the updates that are under way, applies them, and ends the thread. Batches that
        were handed out stay as they are; batches drawn ahead are dropped."""
        if self._closed:
            return
        self._closed = True
        try:
            self._apply(max_left=0)
            with suppress(Closed):  # A closed buffer takes no updates.
                self._confirm()
        finally:
            self._release()

    def _release(self) -> None:
        self._end()
        self._ready.clear()
        self._free_copied(0)

    def _check_open(self, call: str) -> None:
        if self._closed:
            raise Closed(f"{call}: the loader is closed")

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The device may still copy from the memory, so this waits.
        if getattr(self, "_end", None) is not None and not self._closed:
            self._release()


def loader(
    source: Any,
    batch: int,
    *,
    device: Any = None,
    depth: int = 3,
    thread: bool = True,
    beta: float = 0.4,
    normalise: Normalise = "by_batch",
    draws: Draws = "stratified",
    n_step: int | None = None,
    discount: float | None = None,
    timeout: float | None = None,
    **sampler: Any,
) -> Loader:
    """An iterator over batches of n items as tensors on a device; `close` or `with` ends it.

        with loader(replay, 512, device="cuda") as batches:
            for batch in batches:
                batches.update_priorities(batch.item_keys, update(batch))

    source: a BatchSource, such as a Sampler, a Mix or a Sampler of reprise.ray; or a buffer, also
      one of reprise.ray, a selector of a buffer or a Guest, whose `sampler(**sampler)` is the
      source: seed, fresh, unique_frames, and for reprise.ray and a Guest also selector. Without
      unique_frames, or with None, batches hold the frames of an observation once if
      n_step < frame_stack, and for sequences if frame_stack > 1; the device makes the stacks.
    A batch is a reprise.Tensors with the names and shapes of Batch.torch: `batch["obs"]` is
    [B, *shape], with frame_stack F > 1 [B, F, *shape], for sequences [B, T, *shape] and
    [B, T, F, *shape]. There are `batch["next_obs"]`, `batch.returns["reward"]`, `batch.discounts`,
    `.weights`, `.lengths`, `.item_keys` and so on, and for unique frames `batch.frames["obs"]`,
    [B, F + n_step, *shape] or for sequences [B, F + T, *shape].
    uint16, uint32 and uint64 are int64. The `item_keys` of reprise.ray stay an array of numpy.
    The tensors are yours: no later batch changes them. They are views of one block of memory, which
    is freed with the last of them. On the CPU that is the memory of a reprise.Batch. On CUDA it is
    of torch's allocator, for work on the stream that is current in `__next__`; for other streams
    call Tensor.record_stream.

    device: "cpu", "cuda", "cuda:1", or a torch.device; None takes CUDA if torch has it. ValueError
      if this machine lacks it.
    depth: how many batches are under way to the device, at least 1. The device has memory for
      `depth` batches, and `depth` + 3 are in page-locked memory, which is reused. On the CPU no
      batch is under way. Draws by priority miss the last updates: up to 2 * `depth` + 1 of them, on
      the CPU 2; with thread=False up to 2 * `depth` - 1, on the CPU none.
    thread: whether a separate thread draws, by the source's `prefetch`: the learner then waits only
      if it is faster than the draws. Each further loader of one sampler or mix draws other batches
      then; loaders of a buffer with equal seeds draw alike. Without a thread `__next__` draws, so
      batches depend only on the seed and the calls; for CUDA a source then has to be made with
      allocator=reprise.torch.pinned, as the loader does for a buffer.
    beta, normalise, draws, n_step, discount: as in Sampler.sample.
    timeout: seconds that `__next__` waits for a batch if none is under way; None waits for ever.

    One thread at a time uses a loader; appends and other samplers go on beside it. The loader waits
    for the device if `depth` batches or updates are under way, and in `flush` and `close`.
    """
    if isinstance(depth, bool) or not hasattr(depth, "__index__"):
        raise TypeError(f"loader: depth is {depth!r}; allowed: an integer of at least 1")
    if depth < 1:
        raise ValueError(f"loader: depth is {depth}; allowed: at least 1")
    target = _device_of(device)
    if not hasattr(source, "sample"):
        if not hasattr(source, "sampler"):
            raise TypeError(f"loader: source is {source!r}; allowed: a BatchSource, or a buffer")
        if sampler.get("unique_frames") is None:
            window = source.window if isinstance(source, Guest) else source.options.get("window")
            sampler["unique_frames"] = _has_fewer_frames(window)
        source = source.sampler(**{"allocator": target.allocator, **sampler})
    elif isinstance(source, Mirror) or (thread and not hasattr(source, "prefetch")):
        raise TypeError(
            f"loader: source is {source!r}; allowed: a BatchSource, whose batches are in main memory "
            "and which without thread=False has `prefetch`, or a buffer"
        )
    elif sampler:
        name, value = next(iter(sampler.items()))
        raise ValueError(f"loader: {name} is {value!r}; allowed of a buffer alone")
    how: dict[str, Any] = {"beta": beta, "normalise": normalise, "draws": draws}
    # A source of the user's own need not have these parameters.
    how |= {} if n_step is None else {"n_step": n_step}
    how |= {} if discount is None else {"discount": discount}
    if not thread:
        draw = partial(source.sample, batch, **how)
        return Loader(source, draw, _nothing, target, depth, timeout)
    ahead = source.prefetch(batch, allocator=target.allocator, **how)
    return Loader(source, ahead.get, ahead.close, target, depth, timeout)


def _nothing() -> None:
    pass


def _has_fewer_frames(window: Any) -> bool:
    """Whether unique frames of an item are fewer than the frames of its stacks, and the window
    allows unique frames."""
    if window is None:
        return False
    ahead = 1 if isinstance(window, strategies["Sequences"]) else window.n_step
    return bool(ahead < window.frame_stack and getattr(window, "end", None) != "continue")
