"""The Python code of README.md runs, and prints what the comment after it says."""

import re

from testing.files import ROOT

README = ROOT / "README.md"


def test_the_code_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 1
    names = {}
    exec(compile(blocks[0], str(README), "exec"), names)
    output = re.search(r"print\(.*\)  # (.*)", blocks[0])[1]
    assert capsys.readouterr().out == output + "\n"
    assert len(names["replay"]) == 200
