"""Runs lerobot's own tests of its replay buffer with that of reprise.lerobot. Its sources on PyPI
have no tests, so they are run where REPRISE_LEROBOT_SOURCES is a checkout of the version that is
installed."""

import importlib.metadata
import os
from pathlib import Path

import pytest
from testing import own_tests
from testing.lerobot_guest import lerobot_or_skip

lerobot_or_skip()

# The tests that fail, each with the difference from lerobot that docs/migrate/lerobot.md explains.
DIFFERENT = {
    "test_replay_buffer.test_add_over_capacity": "transitions are the oldest first, in no ring",
    "test_replay_buffer.test_memory_optimization": "states are stored once, whatever it says",
}


def test_what_is_covered_passes():
    named = os.environ.get("REPRISE_LEROBOT_SOURCES")
    if named is None:
        pytest.skip("REPRISE_LEROBOT_SOURCES names no checkout of lerobot")
    sources, version = Path(named).resolve(), importlib.metadata.version("lerobot")
    assert f'version = "{version}"' in (sources / "pyproject.toml").read_text("utf-8")
    options = ["tests/utils/test_replay_buffer.py", "--noconftest", "-o", "pythonpath=."]
    found = own_tests.run(sources, "lerobot_stand_in", [], ["-p", "lerobot_stand_in", *options])
    assert found.failed == set(DIFFERENT), found.output
    assert len(found.passed) > 15
