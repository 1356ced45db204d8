"""The Python code of README.md runs, and prints what stands behind it."""

import re

from testing.files import ROOT

README = ROOT / "README.md"


def test_the_code_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 2
    first, more = {}, {}
    exec(compile(blocks[0], str(README), "exec"), first)
    said = re.search(r"print\(.*\)  # (.*)", blocks[0])[1]
    assert capsys.readouterr().out == said + "\n"
    assert len(first["replay"]) == 200
    exec(compile(blocks[1], str(README), "exec"), more)
    assert len(more["replay"]) > 700 and more["batch"]["state"].shape == (32, 4)
