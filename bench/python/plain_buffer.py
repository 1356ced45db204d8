"""A prioritized buffer as it is usually written in Python: numpy columns, and segment trees in
Python lists, which is how OpenAI Baselines keeps priorities."""

import operator
import random

import numpy as np


class SegmentTree:
    """A segment tree in an array: node i holds operation(node 2i, node 2i + 1), and the last
    `capacity` nodes are the leaves."""

    def __init__(self, capacity, operation, neutral):
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError(f"capacity is {capacity}; allowed: a power of two")
        self.capacity = capacity
        self.operation = operation
        self.nodes = [neutral] * (2 * capacity)

    def __getitem__(self, leaf):
        return self.nodes[self.capacity + leaf]

    def __setitem__(self, leaf, value):
        nodes, operation = self.nodes, self.operation
        at = self.capacity + leaf
        nodes[at] = value
        at //= 2
        while at >= 1:
            nodes[at] = operation(nodes[2 * at], nodes[2 * at + 1])
            at //= 2

    def fill(self, values):
        """Sets all leaves, and computes each other node once."""
        nodes, operation = self.nodes, self.operation
        nodes[self.capacity :] = values
        for at in range(self.capacity - 1, 0, -1):
            nodes[at] = operation(nodes[2 * at], nodes[2 * at + 1])

    @property
    def root(self):
        return self.nodes[1]


class SumTree(SegmentTree):
    def __init__(self, capacity):
        super().__init__(capacity, operator.add, 0.0)

    def find_prefix_sum(self, target):
        """Returns the first leaf at which the sum of the leaves up to and with it is above the
        target."""
        nodes, capacity = self.nodes, self.capacity
        at = 1
        while at < capacity:
            at *= 2
            if nodes[at] <= target:
                target -= nodes[at]
                at += 1
        return at - capacity


class MinTree(SegmentTree):
    def __init__(self, capacity):
        super().__init__(capacity, min, float("inf"))


class PlainBuffer:
    """A ring of rows; `fields` maps each name to the type and shape of its values."""

    def __init__(self, capacity, fields, alpha, epsilon):
        self.capacity = capacity
        self.columns = {
            name: np.zeros((capacity, *shape), dtype) for name, (dtype, shape) in fields.items()
        }
        self.alpha, self.epsilon = alpha, epsilon
        self.sums, self.minima = SumTree(capacity), MinTree(capacity)
        self.highest = 1.0
        self.at = 0

    def set_priorities(self, priorities):
        """Sets the priorities of the first items; the other items cannot be drawn."""
        leaves = ((priorities.astype(float) + self.epsilon) ** self.alpha).tolist()
        rest = self.capacity - len(leaves)
        self.sums.fill(leaves + [0.0] * rest)
        self.minima.fill(leaves + [float("inf")] * rest)

    def add(self, **row):
        for name, column in self.columns.items():
            column[self.at] = row[name]
        leaf = self.highest**self.alpha
        self.sums[self.at] = leaf
        self.minima[self.at] = leaf
        self.at = (self.at + 1) % self.capacity

    def sample(self, n, beta):
        """Draws n rows, one from each of n equal parts of the total. Returns their columns, weights
        and indices."""
        part = self.sums.root / n
        indices = [self.sums.find_prefix_sum((i + random.random()) * part) for i in range(n)]
        least = self.minima.root
        weights = [(self.sums[index] / least) ** -beta for index in indices]
        rows = {name: column[indices] for name, column in self.columns.items()}
        return rows, np.array(weights, np.float32), indices

    def update_priorities(self, indices, priorities):
        for index, priority in zip(indices, priorities):
            raised = priority + self.epsilon
            leaf = raised**self.alpha
            self.sums[index] = leaf
            self.minima[index] = leaf
            self.highest = max(self.highest, raised)
