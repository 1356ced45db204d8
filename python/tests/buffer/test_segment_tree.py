"""reprise.SegmentTree against plain loops over an array."""

import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import reprise


def found_by_hand(leaves: NDArray[Any], target: float) -> int:
    """The first leaf with which the sum of leaves is above the target."""
    return int(np.searchsorted(np.cumsum(leaves.astype(np.float64)), target, side="right"))


def test_the_six_leaves() -> None:
    tree = reprise.SegmentTree(6)
    assert len(tree) == 6 and tree.dtype == np.float32
    tree.assign_range(0, [1, 7, 2, 5, 6, 3])
    assert tree.sum() == 24.0
    assert tree.sum(1, 4) == 14.0
    assert (tree.min(), tree.max()) == (1.0, 7.0)
    assert (tree.min(1, 4), tree.max(2, 4)) == (2.0, 5.0)
    assert (tree.sum(2, 2), tree.min(2, 2), tree.max(2, 2)) == (0.0, math.inf, -math.inf)
    assert tree.find_prefix_sum(9.0) == 2 and isinstance(tree.find_prefix_sum(9), int)
    found = tree.find_prefix_sum([3.0, 9.0, 15.0, 21.0])
    assert found.dtype == np.int64 and found.tolist() == [1, 2, 4, 5]
    assert tree.find_prefix_sum(np.array([[3.0], [21.0]])).tolist() == [[1], [5]]


@pytest.mark.parametrize("dtype", ["float32", "float64", np.float64])
@pytest.mark.parametrize("capacity", [1, 9, 64, 1000])
def test_equals_plain_loops(dtype: object, capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    tree = reprise.SegmentTree(capacity, dtype)  # type: ignore[arg-type]
    model = np.zeros(capacity, tree.dtype)
    for _ in range(200):
        first, last = np.sort(rng.integers(0, capacity + 1, 2)).tolist()
        what = rng.integers(0, 5)
        # Whole numbers, so that sums are exact in any order.
        if what == 0:
            places = rng.integers(0, capacity, 7)
            values = rng.integers(0, 9, 7)
            tree.assign(places, values)
            for place, value in zip(places, values):
                model[place] = value
        elif what == 1:
            values = rng.integers(0, 9, last - first)
            tree.assign_range(first, values)
            model[first:last] = values
        elif what == 2:
            tree.fill(3, first, last)
            model[first:last] = 3
        elif what == 3:
            tree.add(1, first, last)
            model[first:last] += 1
        else:
            tree.scale(0, first, last)
            model[first:last] = 0
        assert np.array_equal(tree.leaves, model)
        assert tree.sum(first, last) == model[first:last].sum()
        assert tree.min(first, last) == model[first:last].min(initial=math.inf)
        assert tree.max(first, last) == model[first:last].max(initial=-math.inf)
        if model.sum() > 0:
            targets = rng.integers(0, int(model.sum()), 20).astype(np.float64)
            expected = [found_by_hand(model, target) for target in targets]
            assert tree.find_prefix_sum(targets).tolist() == expected


def test_one_value_to_many_leaves_and_arrays_of_any_layout() -> None:
    tree = reprise.SegmentTree(8, "float64")
    tree.assign([1, 3], 5)
    tree.assign(2, 4.5)
    tree.assign(np.arange(8, dtype=np.uint8)[::-4], np.arange(8, dtype=np.int16)[:2])
    assert tree.leaves.tolist() == [0.0, 5.0, 4.5, 1.0, 0.0, 0.0, 0.0, 0.0]
    tree.assign([], [])
    tree.assign_range(1, tree.leaves[:7])
    assert tree.leaves.tolist() == [0.0, 0.0, 5.0, 4.5, 1.0, 0.0, 0.0, 0.0]
    assert tree.sum() == 10.5


def test_leaves_are_a_view_that_keeps_the_tree_and_cannot_be_written_to() -> None:
    tree = reprise.SegmentTree(1000)
    leaves = tree.leaves
    tree.fill(2)
    assert leaves[999] == 2.0
    with pytest.raises(ValueError):
        leaves[0] = 1.0
    del tree
    gc.collect()
    assert leaves.sum() == 2000.0


def test_errors_name_what_is_wrong_and_change_nothing() -> None:
    tree = reprise.SegmentTree(4)
    tree.assign_range(0, [1, 2, 3, 4])
    wrong_values: list[tuple[Callable[[], object], str]] = [
        (lambda: reprise.SegmentTree(0), "capacity = 0"),
        (lambda: reprise.SegmentTree(-3), "capacity is -3; allowed: an integer of at least 0"),
        (lambda: tree.leaf(4), "leaf = 4; allowed: below 4"),
        (lambda: tree.leaf(-1), "SegmentTree.leaf: leaf is -1; allowed: an integer of at least 0"),
        (lambda: tree.sum(3, 2), "first = 3 and last = 2"),
        (lambda: tree.sum(0, 5), "allowed: first <= last <= 4"),
        (lambda: tree.assign([0, -2], [1, 1]), r"leaves\[1\] = -2; allowed: at least 0"),
        (lambda: tree.assign([0, 9], [1, 1]), "9"),
        (lambda: tree.assign([0, 1], [1, 1, 1]), "2 leaves and 3 values"),
        (lambda: tree.assign([0, 1], [1, math.nan]), r"values\[1\] = nan"),
        (lambda: tree.assign_range(3, [1, 1]), "allowed"),
        (lambda: tree.fill(math.inf), "inf"),
        (lambda: tree.find_prefix_sum([0, 11]), r"targets\[1\] = 11; allowed: 0 to the total, 10"),
    ]
    for call, words in wrong_values:
        with pytest.raises(ValueError, match=words):
            call()
    wrong_types: list[tuple[Callable[[], object], str]] = [
        (lambda: reprise.SegmentTree(4, "int32"), "dtype is int32; allowed: float32 and float64"),
        (lambda: tree.assign([0.5], [1]), "leaves are of dtype float64; allowed: integers"),
        (lambda: tree.assign([0], ["a"]), "values are of dtype <U1; allowed: real numbers"),
        (lambda: tree.assign([0], [1j]), "complex"),
    ]
    for call, words in wrong_types:
        with pytest.raises(TypeError, match=words):
            call()
    assert tree.leaves.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_the_trees_own_leaves_are_values_of_assign():
    tree = reprise.SegmentTree(4)
    tree.assign([0, 1, 2, 3], [1, 2, 3, 4])
    tree.assign([1, 2, 3, 0], tree.leaves)
    assert tree.leaves.tolist() == [4, 1, 2, 3]
