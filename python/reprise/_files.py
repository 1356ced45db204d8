"""Buffers as values: pickle and copy.deepcopy of them go through `save` and `load`."""

from __future__ import annotations

import copyreg
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ._reprise import ReplayBuffer, Sampler


def to_files(replay: ReplayBuffer, samplers: Sequence[Sampler] = ()) -> dict[str, bytes]:
    """The files of a checkpoint of the buffer by their paths in its directory.

    samplers: samplers of the buffer whose random numbers are kept; `resume=i` goes on with those of
    the i-th. All of it is in memory at once, and for a while in a temporary directory too.
    """
    with tempfile.TemporaryDirectory() as name:
        replay.save(name, samplers=samplers)
        folder = Path(name)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def from_files(files: dict[str, bytes]) -> ReplayBuffer:
    """The buffer of a checkpoint that `to_files` gave, in memory. It has no writers."""
    with tempfile.TemporaryDirectory() as name:
        for path, content in files.items():
            target = Path(name, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return ReplayBuffer.load(name)


copyreg.pickle(ReplayBuffer, lambda replay: (from_files, (to_files(replay),)))
