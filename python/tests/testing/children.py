"""Code that runs in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import reprise

# The folder of this library, and that of the package, before whatever else is on the path.
PATHS = [str(Path(__file__).parents[1]), str(Path(reprise.__file__).parents[1])]


def run_python(code, *arguments, before=()):
    """Runs code in a fresh Python; `before` are the first words of the command. A child that hangs
    fails the test."""
    return _run([*before, sys.executable, "-c", code, *map(str, arguments)])


def run_script(file):
    """Likewise a file, which processes that it starts may import."""
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
