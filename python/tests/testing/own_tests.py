"""Runs other packages' own tests, from the source distributions that python/beside.txt names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import NamedTuple

import pytest

import reprise

HERE = Path(__file__).parent


def sources(package: str, folder: Path) -> Path:
    """Unpacks the sources of a package. Skips the test if they cannot be downloaded."""
    pins = (HERE.parents[1] / "beside.txt").read_text("utf-8")
    version = re.search(rf"^{package}==(\S+)$", pins, re.M)
    assert version is not None
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    command += ["--no-build-isolation", f"--dest={folder}", f"{package}=={version[1]}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package}'s sources did not arrive")
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "error" in line.lower()]
        pytest.skip(f"{package}'s sources cannot be had: {(errors or ['pip failed'])[-1].strip()}")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder)
    return next(path for path in folder.iterdir() if path.is_dir())


class Results(NamedTuple):
    passed: set[str]  # Names of tests: "Class.test" or "module.test".
    failed: set[str]
    output: str


def run(tests: Path, stand_in: str, modules: list[str], arguments: list[str]) -> Results:
    """Runs modules of tests. The stand-in and reprise come before all other packages on the
    path."""
    report = tests / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", *(f"test_{module}.py" for module in modules), *arguments]
    path = os.pathsep.join(map(str, (HERE / stand_in, Path(reprise.__file__).parents[1])))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True)
    assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    passed, failed = set(), set()
    for case in xml.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}.{case.get('name', '')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
        elif case.find("skipped") is None:
            passed.add(name)
    return Results(passed, failed, done.stdout[-4000:])
