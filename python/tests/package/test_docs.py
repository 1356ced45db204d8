"""The Python code of docs/python.md and of the guides runs, block after block, as a reader would
type it. The code of the guides uses names that docs/python.md has defined."""

import re
from pathlib import Path
from typing import Any

import pytest
from testing.files import ROOT

DOCUMENT = ROOT / "docs" / "python.md"
GUIDES = sorted(DOCUMENT.parent.glob("guide/*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(page: Path, names: dict[str, Any]) -> int:
    """Runs the blocks of a page; returns their number. Errors name the line in the page."""
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(page), "exec"), names)
    return len(blocks)


def test_the_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    assert run(DOCUMENT, names) > 5
    shown = re.findall(r"state (\d): value (\S+), exactly (\S+)", capsys.readouterr().out)
    assert [int(state) for state, _, _ in shown] == [1, 2, 3, 4, 5]
    for _, value, exact in shown:
        assert float(value) == pytest.approx(float(exact), abs=0.1)
    assert sum(run(page, dict(names)) for page in GUIDES) > 8


def test_links_lead_somewhere() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^a-z -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    links = re.findall(r"\]\(#([^)]*)\)", text)
    assert links and set(links) <= headings
