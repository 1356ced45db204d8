"""Makes virtual environments in build/ with the packages that a benchmark measures."""

import os
import shutil
import subprocess
import sys

from harness.report import BUILD


def environment(folder, requirements, then=None):
    """Makes build/FOLDER a virtual environment with the packages of the file `requirements`, unless
    it is one already, and runs the program `then` in a new one. Returns the environment's
    interpreter and None, or None and the reason why the packages do not install."""
    folder = os.path.join(BUILD, folder)
    made_of = os.path.join(folder, "made_of.txt")
    python = os.path.join(folder, "bin", "python")
    with open(requirements, encoding="utf-8") as file:
        text = file.read()
    if os.path.exists(made_of):
        with open(made_of, encoding="utf-8") as file:
            if file.read() == text:
                return python, None
    print(f"Installing the packages of {requirements} into {folder}", file=sys.stderr, flush=True)
    interpreter = os.environ.get("PYTHON", "/usr/bin/python3")
    subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    result = subprocess.run([*install, "-r", requirements], capture_output=True, text=True)
    if result.returncode == 0 and then is not None:
        result = subprocess.run([python, then], capture_output=True, text=True)
    if result.returncode != 0:
        return None, (result.stderr.strip() or "no reason given").splitlines()[-1]
    shutil.copy(requirements, made_of)
    return python, None
