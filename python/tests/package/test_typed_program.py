"""The program that mypy checks against the package's types also runs."""

import re
from pathlib import Path

import typed_program

import reprise
from reprise._options import classes as strategies


def test_the_program_runs():
    typed_program.main()


def test_the_program_names_every_class():
    text = Path(typed_program.__file__).read_text("utf-8")
    classes = {name for name, value in vars(reprise).items() if isinstance(value, type)}
    # test_package.py compares the fields of strategies with their types.
    classes -= set(strategies)
    assert len(classes) > 15 and classes <= set(re.findall(r"reprise\.(\w+)", text))
