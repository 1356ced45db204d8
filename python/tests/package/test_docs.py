"""The Python code of docs/python.md runs, block after block, as a reader would type it."""

import re
from pathlib import Path
from typing import Any

import pytest
from testing.files import ROOT

DOCUMENT = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) > 5
    names: dict[str, Any] = {}
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        # Errors name the line in the document.
        exec(compile("\n" * line + block[1], str(DOCUMENT), "exec"), names)
    shown = re.findall(r"state (\d): value (\S+), exactly (\S+)", capsys.readouterr().out)
    assert [int(state) for state, _, _ in shown] == [1, 2, 3, 4, 5]
    for _, value, exact in shown:
        assert float(value) == pytest.approx(float(exact), abs=0.1)


def test_links_lead_somewhere() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^a-z -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    links = re.findall(r"\]\(#([^)]*)\)", text)
    assert links and set(links) <= headings
