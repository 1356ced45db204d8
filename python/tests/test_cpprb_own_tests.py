"""cpprb's own tests of what docs/python.md calls covered, with reprise.compat.cpprb in its place.

They come from its source distribution, at the version that python/beside.txt names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import pytest

from reprise.compat import cpprb as ours

HERE = Path(__file__).parent
MODULES = ["PyReplayBuffer", "features", "issue", "multi_rew", "save_load", "v8"]

KEYS = "indexes are keys, not places"
DONE = "the window that ends with the last step of an episode is done"
# Those that fail, and why; docs/python.md says it.
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


@pytest.fixture(scope="module")
def own_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pins = (HERE.parent / "beside.txt").read_text("utf-8")
    version = re.search(r"^cpprb==(\S+)$", pins, re.M)
    assert version is not None
    folder = tmp_path_factory.mktemp("cpprb")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    command += ["--no-build-isolation", f"--dest={folder}", f"cpprb=={version[1]}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip("cpprb's sources did not arrive")
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "error" in line.lower()]
        pytest.skip(f"cpprb's sources cannot be had: {(errors or ['pip failed'])[-1].strip()}")
    with tarfile.open(next(folder.glob("cpprb-*.tar.gz"))) as archive:
        archive.extractall(folder)
    return next(folder.glob("cpprb-*/test"))


def test_what_is_covered_passes(own_tests: Path, tmp_path: Path) -> None:
    package = Path(ours.__file__).parents[2]
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", *(f"test_{module}.py" for module in MODULES)]
    # A base of tests, which unittest does not take for one.
    command += ["-k", "not TestPrioritizedBase"]
    path = os.pathsep.join(map(str, (HERE / "cpprb_stand_in", package)))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, cwd=own_tests, env=environment, capture_output=True, text=True)
    passed, failed = set(), set()
    for case in xml.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}.{case.get('name', '')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
        elif case.find("skipped") is None:
            passed.add(name)
    assert failed == set(DIFFERENT), run.stdout[-4000:]
    assert len(passed) > 70


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
