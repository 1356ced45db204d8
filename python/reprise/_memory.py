"""Memory of the user that C++ reads or fills, and tensors that share the arrays of a batch."""

import re
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def bytes_of(given: Any, what: str, writable: bool) -> NDArray[np.uint8]:
    """The memory of an object with the buffer protocol, as bytes. TypeError if it has none, or if
    it holds references to objects, which Python counts; ValueError if it is not contiguous."""
    objects = f"{what} references to objects; allowed: bytes and numbers"
    if isinstance(given, np.ndarray):
        if given.dtype.hasobject:
            raise TypeError(objects)
        if not given.flags.c_contiguous:
            raise ValueError("the buffer is not C-contiguous")
        if writable and not given.flags.writeable:
            raise TypeError(f"{what} ndarray that is read-only; allowed: one that is writable")
        flat: NDArray[np.uint8] = given.reshape(-1).view(np.uint8)
        return flat
    try:
        view = memoryview(given)
    except TypeError:
        view = None
    if view is None or (writable and view.readonly):
        raise TypeError(
            f"{what} {type(given).__name__}; allowed: an object with a writable, contiguous "
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
    found = []
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
        what = f"ReplayBuffer.save: attachments[{name!r}]"
        try:
            memoryview(value) if not isinstance(value, np.ndarray) else None
        except TypeError:
            kind = type(value).__name__
            raise TypeError(f"{what} is of type {kind}; allowed: bytes-like objects") from None
        try:
            found.append((name, bytes_of(value, f"{what} has", False)))
        except ValueError as error:
            raise ValueError(
                f"{what} cannot be read: {error}; allowed: bytes-like objects that are contiguous"
            ) from None
    return found


class Tensors(dict[str, Any]):
    """The tensors of a batch by the names of its fields, and those of its other arrays. As of any
    dict, len is that of its names: the number of items is len(batch.weights)."""

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
    """Holds a batch until the event `done` is complete, and releases batches whose event is."""
    global _in_flight
    with _in_flight_lock:
        before = _in_flight
        _in_flight = [held for held in before if not held[0].query()]
        _in_flight.append((done, batch))
    del before  # Batches are freed outside of the lock, because that may run any code.


def is_refilled(batch: Any) -> bool:
    """Whether a later call may fill the batch again, as sample(views=True) and sample_into do, so
    that a copy in the background would read other items. False for Tensors."""
    return bool(getattr(batch, "views", False))


def bfloat16_of(given: Any) -> Any:
    """An array that shares the memory of a bfloat16 tensor, which torch does not convert to numpy.
    None for anything else, and for tensors on other devices or that require a gradient. TypeError
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
    return any(getattr(one, "requires_grad", None) is True for one in tensors)


def arrays_of(batch: Any) -> Iterator[tuple[str, str, NDArray[Any]]]:
    """Yields all arrays of a batch with their kind and name, except stacks that are made from unique
    frames."""
    frames = batch.frames
    stacks = {*frames, *(f"next_{name}" for name in frames)}
    yield from (("frames", name, array) for name, array in frames.items())
    yield from (("fields", name, batch[name]) for name in batch if name not in stacks)
    yield from (("returns", name, array) for name, array in batch.returns.items())
    yield from (("columns", name, getattr(batch, name)) for name in COLUMNS)


def has_full_windows(batch: Any) -> bool:
    """Whether all windows are whole, so that stacks of unique frames are views of the frames."""
    for name, frames in batch.frames.items():
        now = batch[name]
        # How many frames after the stack of `now` the stack of `next` begins in a whole window.
        ahead = frames.shape[1] - (now.shape[1] if now.ndim == frames.ndim else 1)
        return now.ndim > frames.ndim or ahead == 1 or bool((batch.lengths == ahead).all())
    return True


def stacks_of(frames: Any, shape: Any, lengths: Any, whole: bool) -> tuple[Any, Any]:
    """Makes the stacks of `now` and `next` from the frames of items, for sequences those of each
    step. `shape` is that of `now`. The stacks are views if every window is `whole`. Runs on the
    tensors' device without waiting for it."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    if len(shape) > frames.ndim:
        steps = frames.unfold(1, shape[2], 1).movedim(-1, 2)
        return steps[:, :-1], steps[:, 1:]
    single = len(shape) < frames.ndim
    stack = 1 if single else shape[1]
    now, following = frames[:, :stack], frames[:, frames.shape[1] - stack :]
    if not whole:
        device = frames.device
        places = lengths[:, None].long() + torch.arange(stack, device=device)
        following = frames[torch.arange(len(frames), device=device)[:, None], places]
    return (now[:, 0], following[:, 0]) if single else (now, following)


def tensors_from(
    parts: Iterable[tuple[str, str, Any]], stacks: dict[str, Any], whole: bool
) -> Tensors:
    """The Tensors of these parts, whose kinds and names are as those of `arrays_of`. stacks: the
    shapes of the stacks that are made from frames."""
    made = Tensors()
    made.frames, made.returns = {}, {}
    kinds: dict[str, dict[str, Any]] = {
        "frames": made.frames,
        "fields": made,
        "returns": made.returns,
        "columns": vars(made),
    }
    for kind, name, tensor in parts:
        kinds[kind][name] = tensor
    for name, shape in stacks.items():
        both = stacks_of(made.frames[name], shape, made.lengths, whole)
        made[name], made["next_" + name] = both
    return made


def tensors_of(batch: Any, device: Any | None) -> Tensors:
    """Implements Batch.torch."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    target = None
    in_background = not is_refilled(batch)

    def tensor(array: NDArray[Any]) -> Any:
        nonlocal target
        if array.dtype.name == "bfloat16":
            made = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        elif array.dtype.kind == "u" and array.dtype.itemsize > 1:
            made = torch.from_numpy(array.astype(np.int64))
        else:
            made = torch.from_numpy(array)
        if device is None:
            return made
        copy = made.to(device, non_blocking=in_background, copy=True)
        target = copy.device
        return copy

    try:
        arrays = ((kind, name, tensor(array)) for kind, name, array in arrays_of(batch))
        stacks = {name: batch[name].shape for name in batch.frames}
        made = tensors_from(arrays, stacks, has_full_windows(batch))
    finally:
        # The batch is held even if a copy failed, because earlier copies are still under way.
        if in_background and target is not None and target.type == "cuda":
            done = torch.cuda.Event()
            done.record(torch.cuda.current_stream(target))
            _keep_alive(done, batch)
    return made
