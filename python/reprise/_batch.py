"""Methods of Batch that are written in Python, on top of those in C++, and its pickling."""

from __future__ import annotations

import copyreg
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._extend import method
from ._memory import Tensors, arrays_of, tensors_of
from ._reprise import Batch
from ._vocabulary import Role


@method(Batch, "items(self) -> list[tuple[str, NDArray[Any]]]")
def _items(self: Batch) -> list[tuple[str, NDArray[Any]]]:
    """The names of the fields and their arrays."""
    return [(name, self[name]) for name in self]


@method(Batch, "values(self) -> list[NDArray[Any]]")
def _values(self: Batch) -> list[NDArray[Any]]:
    """The arrays of the fields, in the order of `keys`."""
    return [self[name] for name in self]


@method(Batch, "get(self, key: str, default: Any = None) -> Any")
def _get(self: Batch, key: str, default: Any = None) -> Any:
    """`batch[key]`, or the default if there is no such field."""
    return self[key] if key in self else default


@method(Batch, "torch(self, device: Any = None) -> Tensors")
def _torch(self: Batch, device: Any = None) -> Tensors:
    """Tensors of torch, by the names of the batch: `["x"]`, `.returns["reward"]`, `.weights`.

    device: None shares the batch's memory. Otherwise the tensors are copied to the device, to "cpu"
      too; from pinned memory to CUDA in the background, and the batch is held until the copies end.
    uint16, uint32 and uint64, which torch does not compute with, become int64.
    """
    return tensors_of(self, device)


@method(Batch, "staleness(self, version: int) -> NDArray[np.int64]")
def _staleness(self: Batch, version: int) -> NDArray[np.int64]:
    """How many versions of the policy each step is behind `version`, such as `replay.version`: int64
    [B], for sequences [B, T]. ValueError without a `Schema.version`."""
    for field in self._layout()[0].fields:
        if field.role == Role.VERSION:
            behind: NDArray[np.int64] = version - self[field.name]
            return behind
    raise ValueError("Batch.staleness: the schema has no version; allowed: with Schema.version")


def _columns(batch: Batch) -> list[NDArray[Any]]:
    return [array for _, _, array in arrays_of(batch)]


def _batch_of(layout: tuple[Any, ...], n: int, columns: list[NDArray[Any]]) -> Batch:
    """Makes a batch of n items and copies these arrays into its own memory."""
    batch: Batch = Batch._of(*layout, n)
    for own, column in zip(_columns(batch), columns):
        own[...] = column
    return batch


copyreg.pickle(Batch, lambda batch: (_batch_of, (batch._layout(), len(batch), _columns(batch))))
