"""Enums, fields and results, and all other names that C++ looks up in this module."""

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._memory import (  # noqa: F401  # C++ looks them up here.
    attachments_of,
    bfloat16_of,
    bytes_of,
    needs_gradient,
)

if TYPE_CHECKING:
    from . import CheckpointError, ReplayBuffer

# The words that calls take, for type checkers; C++ has the same words and refuses others.
Normalise = Literal["by_batch", "by_buffer", "not"]
Draws = Literal["stratified", "independent", "without_replacement", "epoch"]
Autoreset = Literal["same_step", "next_step", "disabled"]
Goal = Literal["future", "final", "episode"]


class Role(IntEnum):
    """What a field is for; see the methods of Schema."""

    OBSERVATION = 0
    COLUMN = 1
    REWARD = 2
    DISCOUNT = 3
    RECURRENT_STATE = 4
    MUTABLE_COLUMN = 5
    VERSION = 6


class End(IntEnum):
    """How a step ends. TERMINATED and TRUNCATED are never merged into one flag.

    CONTINUE: the episode goes on.
    TERMINATED: the environment ended the episode; the value of what follows is 0.
    TRUNCATED: a limit cut the episode off; bootstrap from the final observation.
    """

    CONTINUE = 0
    TERMINATED = 1
    TRUNCATED = 2


def _flags(name: str, given: ArrayLike) -> NDArray[np.bool_]:
    flags = np.asarray(given)
    if flags.dtype.kind not in "biu":
        raise TypeError(f"ends: {name}: expected bools, or 0 and 1; given {flags.dtype}")
    if (wrong := flags[(flags != 0) & (flags != 1)]).size:
        raise ValueError(f"ends: {name} has {wrong[0]}; allowed: bools, or 0 and 1")
    return flags.astype(np.bool_)


def ends(terminated: ArrayLike, truncated: ArrayLike) -> NDArray[np.uint8]:
    """The `end` of steps from Gymnasium's two flags: uint8, of their common shape.

    terminated, truncated: bools, integers 0 and 1, or arrays of them of one shape, such as [E]; a
    TypeError for another dtype, a ValueError for other integers and if shapes differ. If both are
    true, the step is TERMINATED, because nothing that follows has a value.

    >>> reprise.ends([False, True, False], [False, True, True])
    array([0, 1, 2], dtype=uint8)
    """
    is_terminated = _flags("terminated", terminated)
    is_truncated = _flags("truncated", truncated)
    if is_terminated.shape != is_truncated.shape:
        raise ValueError(
            f"ends: truncated: expected shape {is_terminated.shape}; given {is_truncated.shape}"
        )
    numbers = np.zeros(is_terminated.shape, np.uint8)
    numbers[is_truncated] = End.TRUNCATED
    numbers[is_terminated] = End.TERMINATED
    return numbers


class Field(NamedTuple):
    """One field of a Schema: its name, Role, numpy dtype and shape, () for a scalar."""

    name: str
    role: Role
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Arrays(dict[str, Any]):
    """Arrays of a batch by name. The KeyError for an unknown name lists the names that `owner` has,
    such as "Batch.now", or says `if_empty`."""

    def __init__(self, owner: str, if_empty: str) -> None:
        super().__init__()
        self._owner = owner
        self._if_empty = if_empty

    def __missing__(self, name: object) -> Any:
        raise KeyError(
            f"no field {name!r}; fields of {self._owner}: {', '.join(self) or self._if_empty}"
        )


class AppendResult(NamedTuple):
    """What ReplayShard.append did.

    steps: steps appended by this call.
    repeated: whether the shipment was appended before, so that this call appended nothing.
    restarted: how many episodes go on here without their earlier steps, which this shard lacks; the
      first item of sequences then begins at the next multiple of the period.
    """

    steps: int
    repeated: bool
    restarted: int


class UpdateResult(NamedTuple):
    """What an update of priorities did.

    applied: how many keys set the priority of an item, repeated keys included.
    stale: how many keys are of items that were evicted meanwhile; nothing was written for them.
    """

    applied: int
    stale: int


class SaveResult(NamedTuple):
    """What ReplayBuffer.save did.

    manifest: the number of the checkpoint, higher than all before it.
    bytes_written: to files, headers included.
    chunks_written: chunks that were new or still open.
    chunks_reused: chunks that an earlier checkpoint holds already.
    chunks_moved: reused chunks that were copied out of mostly unused files, to remove the files.
    left_out_steps: steps that the checkpoint lacks, because their chunks were evicted before the
      save had written them.
    """

    manifest: int
    bytes_written: int
    chunks_written: int
    chunks_reused: int
    chunks_moved: int
    left_out_steps: int


class SaveProgress(NamedTuple):
    """How far a save has come. `chunks_total` is the most that `chunks_written` and `chunks_reused`
    may add up to, 0 while that is unknown."""

    bytes_written: int
    chunks_written: int
    chunks_reused: int
    chunks_total: int


class SkippedCheckpoint(NamedTuple):
    """A checkpoint that a load skipped for an older one: its number, and what is wrong with it."""

    manifest: int
    error: "CheckpointError"


class LoadResult(NamedTuple):
    """The result of ReplayBuffer.load.

    buffer: a buffer with the items of the newest complete checkpoint.
    skipped: the newer checkpoints, which are damaged.
    attachments: bytes by name.
    """

    buffer: "ReplayBuffer"
    skipped: list[SkippedCheckpoint]
    attachments: dict[str, bytes]


class RestoreResult(NamedTuple):
    """The result of ReplayBuffer.restore; its members mean what they mean in LoadResult."""

    skipped: list[SkippedCheckpoint]
    attachments: dict[str, bytes]
