"""Runs, on reprise.compat.cpprb, those of cpprb's own tests that docs/python.md calls covered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from testing import own_tests
import pytest

from reprise.compat import cpprb as ours

MODULES = ["PyReplayBuffer", "features", "issue", "multi_rew", "save_load", "v8"]

KEYS = "indexes are keys, not places"
DONE = "the window that ends with the last step of an episode is done"
# The tests that fail, each with the difference from cpprb that docs/python.md explains.
DIFFERENT = {
    "TestPrioritizedReplayBuffer.test_priority_add": KEYS,
    "TestPrioritizedReplayBuffer.test_singe_size_buffer": KEYS,
    "TestPrioritizedReplayBuffer.test_unchange": KEYS,
    "TestPrioritizedReplayBuffer.test_update_indexes": KEYS,
    "TestNstepPrioritizedReplayBuffer.test_priority_add": KEYS,
    "TestNstepPrioritizedReplayBuffer.test_update_indexes": KEYS,
    "TestFeatureHighDimensionalObs.test_BatchSampling": "nothing is drawn of an empty buffer",
    "TestMemmap.test_memmap": "mmap_prefix",
    "TestIssue112.test_dtype_check": "longdouble and complex numbers",
    "TestIssue137.test_Nstep_discounts_with_done": DONE,
    "TestIssue137.test_next_obs": DONE,
    "TestReplayBuffer.test_fulled_unsafe_next_of": "the oldest step is saved first",
}


def test_what_is_covered_passes(tmp_path: Path) -> None:
    tests = own_tests.sources("cpprb", tmp_path) / "test"
    # TestPrioritizedBase is only a base class, but pytest would run it.
    found = own_tests.run(tests, "cpprb_stand_in", MODULES, ["-k", "not TestPrioritizedBase"])
    assert found.failed == set(DIFFERENT), found.output
    assert len(found.passed) > 70


@pytest.mark.parametrize("safe", [True, False])
def test_files_go_to_cpprb_and_back(safe: bool, tmp_path: Path) -> None:
    cpprb = pytest.importorskip("cpprb")
    file = tmp_path / "steps.npz"
    env = {"a": {"shape": 3}, "done": {}}
    theirs = cpprb.ReplayBuffer(5, env, next_of="a", stack_compress="a")
    mine = ours.ReplayBuffer(5, env, next_of="a", stack_compress="a")
    for i in range(7):
        theirs.add(a=[i, i + 1, i + 2], next_a=[i + 1, i + 2, i + 3], done=i == 3)
        if i == 3:
            theirs.on_episode_end()
    theirs.save_transitions(str(file), safe=safe)
    mine.load_transitions(file)
    expected, found = theirs.get_all_transitions(), mine.get_all_transitions()
    for name in ("a", "next_a", "done"):
        np.testing.assert_array_equal(found[name], expected[name])
    mine.save_transitions(file, safe=safe)
    back = cpprb.ReplayBuffer(5, {"a": {"shape": 3}, "next_a": {"shape": 3}, "done": {}})
    back.load_transitions(str(file))
    for name, values in back.get_all_transitions().items():
        np.testing.assert_array_equal(values, expected[name])
