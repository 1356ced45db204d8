"""Code that runs in a process of its own."""

import os
import subprocess
import sys


def run_python(code, *arguments, before=()):
    """Runs code in a fresh Python, which finds what this one finds; `before` are a command's first
    words. A child that hangs fails the test."""
    return subprocess.run(
        [*before, sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
