"""Compares the trees of reprise.compat.baselines with lists and loops."""

import math
from typing import Any

import numpy as np
import pytest
from testing.refusals import refuses

from reprise.compat.baselines import MinSegmentTree, SumSegmentTree


def test_a_new_tree_holds_neutral_elements() -> None:
    assert SumSegmentTree(4).sum() == 0.0
    least = MinSegmentTree(4)
    assert least.min() == math.inf and least[3] == math.inf
    least[2] = 5.0
    assert least.min() == 5.0 and least.min(0, 2) == math.inf
    least[2] = math.inf
    assert least.min() == math.inf


@pytest.mark.parametrize("capacity", [1, 2, 16, 100])
def test_trees_equal_loops_over_a_list(capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    total, least = SumSegmentTree(capacity), MinSegmentTree(capacity)
    sums, minima = [0.0] * capacity, [math.inf] * capacity
    for _ in range(300):
        place, value = int(rng.integers(capacity)), float(rng.integers(1, 50))
        total[place] = least[place] = sums[place] = minima[place] = value
        assert total[place] == value and least[place] == value
        start, end = np.sort(rng.choice(capacity + 1, 2, replace=False)).tolist()
        assert total.sum(start, end) == total.reduce(start, end) == sum(sums[start:end])
        assert least.min(start, end) == least.reduce(start, end) == min(minima[start:end])
        if start < capacity - 1:
            assert total.sum(start, -1) == sum(sums[start:-1])
        target = float(rng.uniform(0, total.sum()))
        found = total.find_prefixsum_idx(target)
        assert sum(sums[:found]) <= target < sum(sums[: found + 1])


def test_trees_take_arrays_of_indices() -> None:
    total, least = SumSegmentTree(8), MinSegmentTree(8)
    total[np.array([0, 3, 5])] = np.array([1.0, 2.0, 4.0])
    least[[1, 2]] = [3.0, math.inf]
    assert total[[5, 3]].tolist() == [4.0, 2.0]
    assert least[np.array([1, 2, 3])].tolist() == [3.0, math.inf, math.inf]
    assert total.find_prefixsum_idx(np.array([0.0, 1.0, 6.5])).tolist() == [0, 3, 5]


def test_a_search_for_the_total_or_just_above_finds_the_last_element_above_0() -> None:
    total = SumSegmentTree(4)
    total[1] = 0.1
    total[2] = 0.2
    assert total.find_prefixsum_idx(total.sum()) == 2
    assert total.find_prefixsum_idx(total.sum() + 9e-6) == 2  # Baselines allows 1e-5 for rounding.
    refuses(ValueError, "prefixsum", total.find_prefixsum_idx, total.sum() + 1e-3)
    refuses(ValueError, "no leaf is above 0", SumSegmentTree(4).find_prefixsum_idx, 0.0)


def test_wrong_places_and_empty_ranges_are_refused() -> None:
    tree = SumSegmentTree(4)
    out: list[Any] = [4, -1, [0, 4]]
    for index in out:
        with pytest.raises(IndexError, match="allowed: 0 to 3"):
            tree[index]
        with pytest.raises(IndexError, match="allowed: 0 to 3"):
            tree[index] = 1.0
    with pytest.raises(TypeError, match="allowed: integers"):
        tree[0.5] = 1.0
    for start, end in [(2, 2), (3, 1), (0, 5), (-1, 2)]:
        refuses(ValueError, "at least one element", tree.sum, start, end)
    refuses(ValueError, "capacity is 0", SumSegmentTree, 0)
