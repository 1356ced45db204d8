"""`SumSegmentTree` and `MinSegmentTree` of OpenAI Baselines, on top of `reprise.SegmentTree`.

They have `tree[i]`, `tree[i] = v`, `sum`, `min`, `reduce` and `find_prefixsum_idx`. A range ends
before `end`, and an `end` below 0 counts from the back. Indices may be arrays, as in Stable
Baselines.

What differs, and what is not covered:

- The capacity is any number of at least 1, not only a power of two. Values are float64, at most
  2^980 in magnitude; in a `MinSegmentTree` also infinity, which all its elements are at first.
- `find_prefixsum_idx` finds only elements above 0, and raises ValueError if there is none.
- `SegmentTree` with an operation of the caller's own: not covered.
- Slices as indices, and indices below 0: not covered.

Thread safety: one thread at a time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import reprise

from ._common import whole_number

# The largest value of a leaf, which stands for infinity in a tree of minima.
_INFINITE = 2.0**980


_ROUNDING = 1e-5  # By how much a prefix sum may exceed the sum; Baselines allows it too.


class _Tree:
    def __init__(self, capacity: int) -> None:
        self._capacity = whole_number("capacity", capacity)
        self._tree = reprise.SegmentTree(self._capacity, "float64")

    def __len__(self) -> int:
        return self._capacity

    def _range(self, start: int, end: int | None) -> tuple[int, int]:
        last = self._capacity if end is None else end
        if last < 0:
            last += self._capacity
        if not 0 <= start < last <= self._capacity:
            raise ValueError(
                f"start is {start} and end is {end}; allowed: a range of at least one element "
                f"within 0 to {self._capacity}"
            )
        return start, last

    def _places(self, idx: ArrayLike) -> Any:
        places = np.asarray(idx)
        if places.size != 0 and places.dtype.kind not in "iu":
            raise TypeError(f"index of dtype {places.dtype}; allowed: integers")
        if places.size != 0 and (places.min() < 0 or places.max() >= self._capacity):
            raise IndexError(f"index {idx!r}; allowed: 0 to {self._capacity - 1}")
        return places

    def __setitem__(self, idx: ArrayLike, val: ArrayLike) -> None:
        self._tree.assign(self._places(idx), np.asarray(val, dtype=np.float64))

    def __getitem__(self, idx: ArrayLike) -> Any:
        values = self._tree.leaves[self._places(idx)]
        return float(values) if np.ndim(values) == 0 else values


class SumSegmentTree(_Tree):
    """Sums of ranges, and the search by prefix sums; every element is 0 at first."""

    def sum(self, start: int = 0, end: int | None = None) -> float:
        """The sum of the elements from `start` to before `end`; by default of all elements."""
        return self._tree.sum(*self._range(start, end))

    reduce = sum

    def find_prefixsum_idx(self, prefixsum: ArrayLike) -> Any:
        """The index i for which sum(0, i) <= prefixsum < sum(0, i + 1). For a prefixsum of `sum()`,
        or up to 1e-5 above because of rounding, it is the index of the last element above 0. For an
        array returns an int64 array. ValueError for a prefixsum below 0 or further above."""
        targets = np.asarray(prefixsum, dtype=np.float64)
        total = self._tree.sum()
        if targets.size != 0 and not (targets.min() >= 0.0 and targets.max() <= total + _ROUNDING):
            raise ValueError(f"prefixsum is {prefixsum!r}; allowed: 0 to the sum, {total}")
        indices: Any = self._tree.find_prefix_sum(np.minimum(targets, total))
        return indices


class MinSegmentTree(_Tree):
    """Minima of ranges; every element is infinity at first."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._tree.fill(_INFINITE)

    def __setitem__(self, idx: ArrayLike, val: ArrayLike) -> None:
        values = np.asarray(val, dtype=np.float64)
        super().__setitem__(idx, np.where(values == math.inf, _INFINITE, values))

    def __getitem__(self, idx: ArrayLike) -> Any:
        stored = super().__getitem__(idx)
        values = np.where(stored == _INFINITE, math.inf, stored)
        return float(values) if np.ndim(values) == 0 else values

    def min(self, start: int = 0, end: int | None = None) -> float:
        """The minimum of the elements from `start` to before `end`; by default of all elements."""
        minimum = self._tree.min(*self._range(start, end))
        return math.inf if minimum == _INFINITE else minimum

    reduce = min
