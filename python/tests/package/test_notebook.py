"""The cells of the notebook in examples/python run, one after the other, and the file keeps no
output."""

import json

import pytest
from testing.files import ROOT

NOTEBOOK = ROOT / "examples" / "python" / "ages_and_priorities.ipynb"
if not NOTEBOOK.is_file():
    pytest.skip("the examples are not here", allow_module_level=True)


def test_the_cells_run(monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("svg")
    names = {}
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        assert not cell.get("outputs")
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    (_, drawn, times), (_, recent, _) = (names["runs"][name] for name in ("Uniform", "Recency"))
    assert drawn.mean() == pytest.approx(names["CAPACITY"] / 2, rel=0.15)
    assert recent.mean() == pytest.approx(1_000, rel=0.15)
    assert times[names["gone"]].mean() == pytest.approx(names["BATCH"] / names["EVERY"], rel=0.15)
    assert "4000 items in" in capsys.readouterr().out
