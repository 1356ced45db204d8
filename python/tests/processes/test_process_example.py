"""The example with simulators in other processes."""

import runpy
import threading
import types

import pytest
from testing.files import ROOT

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

PROGRAM = ROOT / "examples" / "python" / "processes" / "apex_cartpole.py"


def test_an_actor_that_dies_at_its_start_ends_the_measurement():
    measure = runpy.run_path(str(PROGRAM))["steps_per_second"]
    names = measure.__globals__
    # In place of an actor's process, a thread that ends at once, without having attached.
    names["START"] = types.SimpleNamespace(
        RawArray=names["START"].RawArray, Process=lambda **_: threading.Thread(target=bool)
    )
    with pytest.raises(RuntimeError, match="an actor ended before it had writers"):
        measure(1)
