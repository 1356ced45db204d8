"""Calls of reprise.SegmentTree, with results computed by hand."""

import gc
import math
from collections.abc import Callable

import numpy as np
import pytest

from testing.refusals import refuses
import reprise


def test_sums_extremes_and_searches_of_six_leaves() -> None:
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


def test_assign_takes_one_value_for_many_leaves_and_arrays_of_any_layout() -> None:
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
        refuses(ValueError, words, call)
    wrong_types: list[tuple[Callable[[], object], str]] = [
        (lambda: reprise.SegmentTree(4, "int32"), "dtype is int32; allowed: float32 and float64"),
        (lambda: tree.assign([0.5], [1]), "leaves are of dtype float64; allowed: integers"),
        (lambda: tree.assign([0], ["a"]), "values are of dtype <U1; allowed: real numbers"),
        (lambda: tree.assign([0], [1j]), "complex"),
    ]
    for call, words in wrong_types:
        refuses(TypeError, words, call)
    assert tree.leaves.tolist() == [1.0, 2.0, 3.0, 4.0]
