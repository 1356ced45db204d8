"""What `python -m reprise inspect` shows of a checkpoint."""

import re
import sys

import numpy as np
import pytest
from testing.buffers import fill, plain_buffer
from testing.children import run_python

import reprise
from reprise.__main__ import main


@pytest.fixture
def checkpoint(tmp_path):
    replay = plain_buffer(
        1000,
        window=reprise.Transitions(n_step=3),
        selectors=[reprise.Proportional(alpha=1.0, epsilon=0.0), reprise.Fifo()],
        shards=1,
    )
    for e in range(4):
        fill(replay, 20 + 20 * e, 100.0 * e)
    batch = replay.sampler().sample(200, draws="without_replacement")
    # The 80 items of the newest episode have a weight of 9 each, the 120 other items a weight of 1.
    newest = batch.episode_ids == batch.episode_ids.max()
    replay.update_priorities(batch.item_keys, np.where(newest, 9.0, 1.0))
    replay.save(tmp_path / "saved", attachments={"learner": b"12345"})
    return tmp_path / "saved"


def rows(text, title):
    """Returns the cells of the table under a title."""
    lines = text.split(title + "\n", 1)[1].splitlines()
    table = []
    for line in lines:
        if not line.startswith("  "):
            break
        table.append(re.split(r"  +", line.strip()))
    return table


def test_inspect_prints_what_a_checkpoint_holds(checkpoint, capsys):
    assert main(["inspect", str(checkpoint)]) == 0
    text = capsys.readouterr().out
    assert ["state", "observation", "float32", "(2,)"] in rows(text, "schema")
    assert ["window", str(reprise.Transitions(n_step=3))] in rows(text, "options")
    assert dict(rows(text, "counts"))["items"] == "200"
    assert ["learner", "5"] in rows(text, "attachments, bytes")
    drawn = text[text.index("items that selector 0 draws, Proportional") :]
    table = {row[0]: row[1:] for row in rows(drawn, drawn.splitlines()[0])}
    assert table["age, episodes"] == ["0", "0", "1", "2", "3"]
    assert table["position in the episode"][::4] == ["0", "79"]
    assert table["steps of the item"][::4] == ["1", "3"]
    chance = [float(cell) for cell in table["chance, 1 if uniform"]]
    # All 200 items weigh 80 * 9 + 120 = 840, so an item of weight w has a chance of 200 * w / 840.
    assert chance[0] == pytest.approx(200 / 840, rel=1e-3)
    assert chance[4] == pytest.approx(1800 / 840, rel=1e-3)
    assert table["priority"] == ["1", "1", "1", "9", "9"]
    assert "priority" not in text[text.index("items that selector 1 draws, Fifo") :]


def test_inspect_draws_a_picture(checkpoint, tmp_path):
    pytest.importorskip("matplotlib")
    assert main(["inspect", str(checkpoint), "--plot", str(tmp_path / "picture.svg")]) == 0
    assert "<svg" in (tmp_path / "picture.svg").read_text()


def test_a_picture_needs_matplotlib(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit):
        main(["inspect", "nothing", "--plot", "picture.svg"])
    assert "--plot needs the package matplotlib" in capsys.readouterr().err


def test_inspect_says_that_an_empty_buffer_has_nothing_to_draw(tmp_path, capsys):
    for limit in (0, 3):
        selectors = [reprise.Uniform(), reprise.Fifo()]
        replay = plain_buffer(1000, selectors=selectors, max_times_sampled=limit, storage=tmp_path)
        replay.save(tmp_path / "empty")
        assert main(["inspect", str(tmp_path / "empty"), "--storage", str(tmp_path)]) == 0
        assert capsys.readouterr().out.count("  none can be drawn: ") == 2


@pytest.mark.parametrize(
    "options",
    [
        {"rate_limiter": reprise.MinSize(500)},
        {"rate_limiter": reprise.SampleToInsertRatio(1.0)},
        {"rate_limiter": reprise.Queue(100), "max_times_sampled": 1},
        {"max_times_sampled": 2},
    ],
)
def test_inspect_shows_items_that_a_limiter_would_not_let_anyone_draw(tmp_path, capsys, options):
    selectors = [reprise.Proportional(), reprise.Uniform()]
    replay = plain_buffer(1000, selectors=selectors, **options)
    fill(replay, 40)
    replay.save(tmp_path)
    assert main(["inspect", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert ["rate_limiter", str(replay.options["rate_limiter"])] in rows(text, "options")
    for selector in ("0 draws, Proportional", "1 draws, Uniform"):
        drawn = text[text.index(f"items that selector {selector}") :]
        table = {row[0]: row[1:] for row in rows(drawn, drawn.splitlines()[0])}
        assert table["chance, 1 if uniform"] == ["1"] * 5
        if (
            options.get("max_times_sampled") != 2
        ):  # With 2, some of the 40 draws are of the same item.
            assert table["position in the episode"][::4] == ["0", "39"]


def test_a_reader_that_closes_the_pipe_causes_no_error(checkpoint):
    code = """
import os, sys
from reprise.__main__ import main
reading, writing = os.pipe()
os.dup2(writing, 1)
os.close(reading)
sys.exit(main(["inspect", sys.argv[1]]))
"""
    child = run_python(code, checkpoint)
    assert (child.returncode, child.stderr) == (0, "")


def test_inspect_names_a_folder_without_a_checkpoint(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "nothing")]) == 1
    assert str(tmp_path / "nothing") in capsys.readouterr().err
