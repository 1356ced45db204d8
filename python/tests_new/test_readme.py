"""The Python code of README.md runs."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_code_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 1
    names = {}
    exec(compile(blocks[0], str(README), "exec"), names)
    assert len(names["replay"]) > 700 and names["batch"]["state"].shape == (32, 4)
