"""Automatic saves while the program runs, and their end."""

import pytest
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses
from testing.threads import wait_until

import reprise


def test_new_steps_are_saved_until_the_block_ends(tmp_path):
    buffer = plain_buffer(1000)
    with buffer.autosave(tmp_path, every=0.001) as autosave:
        fill(buffer, 100)
        wait_until(lambda: autosave.status()["saves"] and buffer.stats()["unsaved_steps"] == 0)
        status = autosave.status()
        assert status["failures"] == 0 and status["problem"] == ""
        assert status["last"]["manifest"] >= 1
        refuses(RuntimeError, "restore", buffer.restore, tmp_path)
        assert len(reprise.ReplayBuffer.load(tmp_path).buffer) == 100
    with buffer.autosave(tmp_path, every=1e6) as autosave:  # Saves at once, and at the end.
        wait_until(lambda: autosave.status()["saves"])
        fill(buffer, 50)
        assert buffer.stats()["unsaved_steps"] == 50
    assert buffer.stats()["unsaved_steps"] == 0
    assert len(reprise.ReplayBuffer.load(tmp_path).buffer) == 150
    buffer.restore(tmp_path)


def test_a_failed_save_is_reported_and_repeated(tmp_path):
    buffer = plain_buffer(1000)
    fill(buffer, 30)
    parent = tmp_path / "parent"
    parent.write_text("a file, in which there is no directory")
    autosave = buffer.autosave(parent / "autosave", every=0.001)
    wait_until(lambda: autosave.status()["failures"] >= 2)
    assert "parent" in autosave.status()["problem"]
    refuses(reprise.CheckpointError, "parent", autosave.close)
    parent.unlink()
    parent.mkdir()
    with buffer.autosave(parent / "autosave", every=0.001) as autosave:
        wait_until(lambda: autosave.status()["saves"] >= 1)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"every": 0}, "every is 0"),
        ({"keep": 0}, "keep is 0; allowed: 1 to 1000"),
        ({"compression": 20}, "compression is of level 20; allowed: 0 to 19"),
    ],
)
def test_wrong_arguments(buffer, tmp_path, arguments, words):
    refuses(ValueError, words, buffer.autosave, tmp_path / "none", **arguments)
    assert not (tmp_path / "none").exists()
