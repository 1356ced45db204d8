"""Checks of arguments that the classes of this package share."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def whole_number(name: str, value: Any, minimum: int = 1) -> int:
    """Converts a whole number, or a float such as 1e6, to int. ValueError for a fraction and for a
    number below `minimum`."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; allowed: whole numbers from {minimum}") from None
    if number < minimum:
        raise ValueError(f"{name} is {number}; allowed: whole numbers from {minimum}")
    return number


def item_keys(name: str, keys: Any) -> NDArray[np.int64]:
    """Converts an array or list of integers to keys for `update_priorities`."""
    array = np.asarray(keys)
    if array.size != 0 and array.dtype.kind not in "iu":
        raise TypeError(f"{name} is of dtype {array.dtype}; allowed: the integers that sample gave")
    return array.astype(np.int64, copy=False).ravel()


def raw_priorities(name: str, priorities: Any, count: int) -> NDArray[np.float32]:
    """Converts priorities, and checks that there are `count`. The buffer checks their values."""
    array = np.asarray(priorities, dtype=np.float32).ravel()
    if len(array) != count:
        raise ValueError(f"{name} has {len(array)} elements; allowed: {count}, one for each item")
    return array
