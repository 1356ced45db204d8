"""Runs Stable-Baselines3's own tests of replay buffers with the buffers of reprise.sb3."""

from __future__ import annotations

from pathlib import Path

from testing import own_tests
import pytest

pytest.importorskip("stable_baselines3")

MODULES = ["buffers", "n_step_replay", "save_load", "her"]
ONLY = "test_buffers or n_step or replay_buffer or warn_buffer or open_file or goal_selection"

ARRAYS = "the steps are not in arrays that can be read"
PLACES = "draws are by keys, not by places in arrays"
# The tests that fail, each with the difference that docs/migrate/stable_baselines3.md explains. A
# name stands for the test with all its parameters.
DIFFERENT = {
    "test_buffers.test_buffer_dtypes": ARRAYS,
    "test_save_load.test_save_load_replay_buffer": ARRAYS,
    "test_her.test_save_load_replay_buffer": ARRAYS,
    "test_n_step_replay.test_match_normal_buffer": PLACES,
    "test_n_step_replay.test_nstep_early_termination": PLACES,
    "test_n_step_replay.test_nstep_early_truncation": PLACES,
    "test_n_step_replay.test_nstep_no_terminations": PLACES,
}


def different(name: str) -> str:
    """Returns the key of DIFFERENT that stands for a test, or the test's name if no key does."""
    function = name.split("[")[0]
    return function if function in DIFFERENT else name


def test_what_is_covered_passes(tmp_path: Path) -> None:
    tests = own_tests.sources("stable-baselines3", tmp_path) / "tests"
    options = ["-p", "sb3_stand_in", "-k", ONLY]
    found = own_tests.run(tests, "sb3_stand_in", MODULES, options)
    assert {different(name) for name in found.failed} == set(DIFFERENT), found.output
    passed = {name for name in found.passed if different(name) not in DIFFERENT}
    assert passed == found.passed
    assert len(passed) > 20
