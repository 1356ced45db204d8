"""Runs code in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import reprise

# The folders of the tests' library and of reprise, which come first on the path.
PATHS = [str(Path(__file__).parents[1]), str(Path(reprise.__file__).parents[1])]


def run_python(code, *arguments, before=()):
    """Runs code in a fresh Python, started by the command `before` if given. A hang fails the
    test."""
    return _run([*before, sys.executable, "-c", code, *map(str, arguments)])


def run_script(file):
    """Runs a file in a fresh Python, so that processes that the file starts can import it."""
    return _run([sys.executable, str(file)])


def _run(command):
    path = os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
