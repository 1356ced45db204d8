"""Models that tests compare reprise.compat with: a ring of transitions, and the textbook
formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Ring:
    """Keeps the `size` latest items, oldest first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.items: list[Any] = []

    def put(self, item: Any) -> None:
        self.items = [*self.items, item][-self.size :]


class PriorityRing(Ring):
    """A ring with priorities p; an item is drawn in proportion to (p + epsilon)^alpha."""

    def __init__(self, size: int, alpha: float, epsilon: float) -> None:
        super().__init__(size)
        self.alpha, self.epsilon = alpha, epsilon
        self.highest = 1.0
        self.priorities: list[float] = []

    def put(self, item: Any, priority: float | None = None) -> None:
        super().put(item)
        first = self.highest if priority is None else priority
        self.priorities = [*self.priorities, first][-self.size :]
        self.highest = max(self.highest, first)

    def update(self, priorities: dict[Any, float]) -> None:
        """Sets the priorities of items that are still in the ring, and ignores others."""
        for item in set(self.items) & set(priorities):
            self.priorities[self.items.index(item)] = priorities[item]
            self.highest = max(self.highest, priorities[item])

    def probabilities(self) -> NDArray[np.float64]:
        weights = (np.array(self.priorities) + self.epsilon) ** self.alpha
        return weights / weights.sum()  # type: ignore[no-any-return]

    def weights(self, beta: float) -> NDArray[np.float64]:
        chances = self.probabilities()
        return (chances.min() / chances) ** beta  # type: ignore[no-any-return]
