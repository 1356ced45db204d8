"""Calls of a segment tree on large arrays while other threads run."""

import os
import sys
import time

import numpy as np
import pytest
from testing.threads import repeating, running

from reprise import SegmentTree

LEAVES = 1 << 20
PLACES = np.arange(LEAVES)[::-1].copy()
VALUES = np.linspace(1, 2, LEAVES, dtype=np.float32)
TARGETS = np.linspace(0, LEAVES, LEAVES // 4)

CALLS = {
    "assign": lambda tree: tree.assign(PLACES, VALUES),
    "assign one": lambda tree: tree.assign(PLACES, 1),
    "assign_range": lambda tree: tree.assign_range(0, VALUES),
    "find_prefix_sum": lambda tree: tree.find_prefix_sum(TARGETS),
    "fill": lambda tree: tree.fill(1.5),
    "scale": lambda tree: tree.scale(1.0),
    "add": lambda tree: tree.add(0.0),
}


@pytest.fixture
def tree():
    made = SegmentTree(LEAVES)
    made.fill(1)
    return made


@pytest.fixture
def no_switches():
    """Lets another thread run only when the thread that has the GIL releases it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_other_threads_run_during_large_calls(tree, call, no_switches):
    counted = 0

    def count():
        nonlocal counted
        counted += 1
        time.sleep(0)

    with repeating(count):
        # On a busy machine many calls may pass until the other thread runs during one.
        end, before = time.monotonic() + 180, counted
        while counted == before:
            assert time.monotonic() < end, "the GIL was kept"
            before = counted
            call(tree)


def test_large_and_small_calls_take_turns(tree):
    """Calls are atomic: whenever a thread looks, all leaves are equal."""

    def fill(value):
        for _ in range(30):
            tree.assign_range(0, np.full(LEAVES, value, np.float32))

    def look():
        for _ in range(300):
            assert tree.sum() in (LEAVES, 2 * LEAVES)

    with running(lambda: fill(1), lambda: fill(2), look, look):
        pass


def test_arrays_that_change_during_a_call_do_no_harm(tree):
    """A call uses the values that it checked, even if the arrays change meanwhile."""
    places = np.arange(LEAVES)
    values = np.ones(LEAVES, np.float32)

    def disturb():
        places[::1000] = 1 << 40
        values[::1000] = np.nan
        places[::1000] = np.arange(0, LEAVES, 1000)
        values[::1000] = 1

    with repeating(disturb):
        for _ in range(60):
            try:
                tree.assign(places, values)
            except ValueError as error:
                assert "leaves[" in str(error) or "values[" in str(error)
    assert np.all(np.asarray(tree.leaves) == 1) and tree.sum() == LEAVES


def test_the_tree_s_own_leaves_are_values():
    tree = SegmentTree(1000)
    tree.assign_range(0, np.arange(1000))
    tree.assign_range(1, tree.leaves[:999])
    assert np.array_equal(tree.leaves, np.r_[0, np.arange(999)])
    tree.assign(np.arange(1, 1000), tree.leaves[:999])
    assert np.array_equal(tree.leaves, np.r_[0, 0, np.arange(998)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_in_the_middle_of_a_call_never_hangs(tree):
    """A forked child may call the tree, or is refused if a thread of the parent was in a call."""
    with repeating(lambda: tree.assign(PLACES, VALUES)):
        for _ in range(5):
            child = os.fork()
            if child == 0:
                try:
                    tree.sum()
                    os._exit(0)
                except RuntimeError as error:
                    os._exit(0 if "forked" in str(error) else 1)
            deadline = time.monotonic() + 60
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(child, 9)
                    raise AssertionError("the child hangs")
                time.sleep(0.01)
