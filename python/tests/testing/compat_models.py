"""What the tests of reprise.compat compare with: a ring of transitions and the textbook formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Ring:
    """The `size` latest of what was put in, oldest first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.items: list[Any] = []

    def put(self, item: Any) -> None:
        self.items = [*self.items, item][-self.size :]


class PriorityRing(Ring):
    """With a priority for each, (p + epsilon)^alpha of which it is drawn in proportion to."""

    def __init__(self, size: int, alpha: float, epsilon: float) -> None:
        super().__init__(size)
        self.alpha, self.epsilon = alpha, epsilon
        self.highest = 1.0
        self.priorities: list[float] = []

    def put(self, item: Any, priority: float | None = None) -> None:
        super().put(item)
        given = self.highest if priority is None else priority
        self.priorities = [*self.priorities, given][-self.size :]
        self.highest = max(self.highest, given)

    def update(self, priorities: dict[Any, float]) -> None:
        """Of items that are there; others are skipped, and count for nothing."""
        for item in set(self.items) & set(priorities):
            self.priorities[self.items.index(item)] = priorities[item]
            self.highest = max(self.highest, priorities[item])

    def probabilities(self) -> NDArray[np.float64]:
        weights = (np.array(self.priorities) + self.epsilon) ** self.alpha
        return weights / weights.sum()  # type: ignore[no-any-return]

    def weights(self, beta: float) -> NDArray[np.float64]:
        chances = self.probabilities()
        return (chances.min() / chances) ** beta  # type: ignore[no-any-return]


def assert_drawn_as(counts: NDArray[Any], probabilities: NDArray[np.float64]) -> None:
    """Chi-square: a correct buffer fails here with one seed in a million, and the seed is fixed."""
    expected = probabilities * counts.sum()
    assert (counts[probabilities == 0] == 0).all()
    sure = probabilities > 0
    assert expected[sure].min() > 5.0
    distance = float((((counts - expected) ** 2)[sure] / expected[sure]).sum())
    freedom = int(sure.sum()) - 1
    # Nearly normal (Wilson and Hilferty, "The distribution of chi-square", 1931).
    spread = 2.0 / (9.0 * freedom)
    assert ((distance / freedom) ** (1.0 / 3.0) - (1.0 - spread)) / spread**0.5 < 4.75
