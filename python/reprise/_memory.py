"""Memory of the user that C++ reads or fills, and tensors that share the arrays of a batch."""

import re
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def bytes_of(given: Any, subject: str, writable: bool) -> NDArray[np.uint8]:
    """The memory of an object with the buffer protocol, as bytes. TypeError if it has no buffer, or
    the buffer holds references to objects, which Python counts; ValueError if the buffer is not
    contiguous. Messages of a TypeError begin with `subject`, such as "allocator gave"."""
    objects = f"{subject} references to objects; allowed: bytes and numbers"
    if isinstance(given, np.ndarray):
        if given.dtype.hasobject:
            raise TypeError(objects)
        if not given.flags.c_contiguous:
            raise ValueError("the buffer is not C-contiguous")
        if writable and not given.flags.writeable:
            raise TypeError(f"{subject} ndarray that is read-only; allowed: one that is writable")
        flat: NDArray[np.uint8] = given.reshape(-1).view(np.uint8)
        return flat
    try:
        view = memoryview(given)
    except TypeError:
        view = None
    if view is None or (writable and view.readonly):
        raise TypeError(
            f"{subject} {type(given).__name__}; allowed: an object with a writable, contiguous "
            "buffer, such as a numpy array"
        )
    # 'O' marks a reference in a format of module struct, but not in the names of members, which
    # stand between colons.
    if "O" in re.sub(":[^:]*:", "", view.format or "B"):
        raise TypeError(objects)
    if not view.c_contiguous:
        raise ValueError("the buffer is not C-contiguous")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def attachments_of(given: Any) -> list[tuple[str, NDArray[np.uint8]]]:
    """The names and bytes of a checkpoint's attachments."""
    if not isinstance(given, dict):
        raise TypeError(f"ReplayBuffer.save: attachments is {given!r}; allowed: a dict")
    attachments = []
    for name, value in list(given.items()):
        try:
            name.encode("utf-8")
            if not isinstance(name, str):
                raise TypeError
        except (AttributeError, TypeError, UnicodeEncodeError):
            raise TypeError(
                f"ReplayBuffer.save: a name in attachments is {name!r}; allowed: a str that UTF-8 "
                "can encode"
            ) from None
        subject = f"ReplayBuffer.save: attachments[{name!r}]"
        try:
            memoryview(value) if not isinstance(value, np.ndarray) else None
        except TypeError:
            kind = type(value).__name__
            raise TypeError(f"{subject} is of type {kind}; allowed: bytes-like objects") from None
        try:
            attachments.append((name, bytes_of(value, f"{subject} has", writable=False)))
        except ValueError as error:
            raise ValueError(
                f"{subject} cannot be read: {error}; allowed: bytes-like objects that are contiguous"
            ) from None
    return attachments


class Tensors(dict[str, Any]):
    """The tensors of a batch: those of its fields by name, the others as attributes. As of any dict
    len() is the number of names; the number of items is len(batch.weights)."""

    returns: dict[str, Any]
    frames: dict[str, Any]
    discounts: Any
    weights: Any
    probabilities: Any
    item_keys: Any
    episode_ids: Any
    positions: Any
    lengths: Any


COLUMNS = (
    *("discounts", "weights", "probabilities", "item_keys", "episode_ids", "positions"),
    "lengths",
)
# Batches whose memory a device may still copy from, each with the event of the copy's end.
_in_flight: list[tuple[Any, Any]] = []
_in_flight_lock = threading.Lock()


def _keep_alive(done: Any, batch: Any) -> None:
    """Holds a batch until the event `done` is complete, and releases batches whose event is
    complete."""
    global _in_flight
    with _in_flight_lock:
        held_before = _in_flight
        _in_flight = [held for held in held_before if not held[0].query()]
        _in_flight.append((done, batch))
    del held_before  # Outside of the lock, because freeing a batch may run any code.


def is_refilled(batch: Any) -> bool:
    """Whether a later call may fill the batch again, as sample(views=True) and sample_into do, so
    that a copy in the background would read other items. False for Tensors."""
    return bool(getattr(batch, "views", False))


def bfloat16_of(given: Any) -> Any:
    """An array that shares the memory of a bfloat16 tensor, which torch does not convert to numpy.
    None for other values, tensors on other devices and tensors that require a gradient. TypeError
    without ml_dtypes."""
    if str(getattr(given, "dtype", None)) != "torch.bfloat16":
        return None
    if given.device.type != "cpu" or given.requires_grad:
        return None
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise TypeError(
            "a tensor of bfloat16 needs the package ml_dtypes, by which numpy has it: pip install "
            "ml_dtypes"
        ) from None
    import torch  # type: ignore[import-not-found, unused-ignore]

    return given.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def needs_gradient(given: Any) -> bool:
    """Whether a value is a tensor that requires a gradient, which torch does not convert to
    numpy."""
    tensors = given if isinstance(given, (list, tuple)) else (given,)
    return any(getattr(tensor, "requires_grad", None) is True for tensor in tensors)


def arrays_of(batch: Any) -> Iterator[tuple[str, str, NDArray[Any]]]:
    """Yields kind, name and array of all arrays of a batch but the stacks that are made from unique
    frames."""
    frames = batch.frames
    stacks = {*frames, *(f"next_{name}" for name in frames)}
    yield from (("frames", name, array) for name, array in frames.items())
    yield from (("fields", name, batch[name]) for name in batch if name not in stacks)
    yield from (("returns", name, array) for name, array in batch.returns.items())
    yield from (("columns", name, getattr(batch, name)) for name in COLUMNS)


def has_full_windows(batch: Any) -> bool:
    """Whether all windows have their full length, so that stacks of unique frames are views of the
    frames. It is so for sequences, whose shorter items are filled up with zeros."""
    for name, frames in batch.frames.items():
        now = batch[name]
        # How many frames after the stack of `now` the stack of `next` begins in a full window.
        ahead = frames.shape[1] - (now.shape[1] if now.ndim == frames.ndim else 1)
        # Returns at once, because all fields have the same windows.
        return now.ndim > frames.ndim or ahead == 1 or bool((batch.lengths == ahead).all())
    return True


def stacks_of(frames: Any, shape: Any, lengths: Any, whole: bool) -> tuple[Any, Any]:
    """Makes the stacks of `now` and `next` from the frames of items; for sequences, the stacks of
    each step. `shape`: that of `now`. `whole`: whether all windows have their full length; the
    stacks are views then. Runs on the tensors' device without waiting for it."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    if len(shape) > frames.ndim:  # Sequences with stacks, [B, T, F, *shape].
        steps = frames.unfold(1, shape[2], 1).movedim(-1, 2)
        return steps[:, :-1], steps[:, 1:]
    # Sequences without stacks, [B, T, *shape], are here like a stack of T frames.
    single = len(shape) < frames.ndim
    stack = 1 if single else shape[1]
    now, following = frames[:, :stack], frames[:, frames.shape[1] - stack :]
    if not whole:  # The stack of `next` begins `lengths` frames after that of `now`.
        device = frames.device
        places = lengths[:, None].long() + torch.arange(stack, device=device)
        following = frames[torch.arange(len(frames), device=device)[:, None], places]
    return (now[:, 0], following[:, 0]) if single else (now, following)


def tensors_from(
    parts: Iterable[tuple[str, str, Any]], stacks: dict[str, Any], whole: bool
) -> Tensors:
    """The Tensors of these parts: kind, name and tensor, as `arrays_of` yields them. stacks: the
    shapes of the stacks that are made from frames."""
    tensors = Tensors()
    tensors.frames, tensors.returns = {}, {}
    kinds: dict[str, dict[str, Any]] = {
        "frames": tensors.frames,
        "fields": tensors,
        "returns": tensors.returns,
        "columns": vars(tensors),
    }
    for kind, name, tensor in parts:
        kinds[kind][name] = tensor
    for name, shape in stacks.items():
        now, following = stacks_of(tensors.frames[name], shape, tensors.lengths, whole)
        tensors[name], tensors["next_" + name] = now, following
    return tensors


def tensors_of(batch: Any, device: Any | None) -> Tensors:
    """Implements Batch.torch."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    target = None
    in_background = not is_refilled(batch)

    def tensor(array: NDArray[Any]) -> Any:
        nonlocal target
        if array.dtype.name == "bfloat16":
            here = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        elif array.dtype.kind == "u" and array.dtype.itemsize > 1:
            here = torch.from_numpy(array.astype(np.int64))
        else:
            here = torch.from_numpy(array)
        if device is None:
            return here
        copy = here.to(device, non_blocking=in_background, copy=True)
        target = copy.device
        return copy

    try:
        arrays = ((kind, name, tensor(array)) for kind, name, array in arrays_of(batch))
        stacks = {name: batch[name].shape for name in batch.frames}
        return tensors_from(arrays, stacks, has_full_windows(batch))
    finally:
        # The batch is held even if a copy failed, because earlier copies are still under way.
        if in_background and target is not None and target.type == "cuda":
            done = torch.cuda.Event()
            done.record(torch.cuda.current_stream(target))
            _keep_alive(done, batch)
