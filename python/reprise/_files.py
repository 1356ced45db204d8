"""Buffers as values: pickle and copy.deepcopy of them go through `save` and `load`."""

from __future__ import annotations

import copyreg
import tempfile
from collections.abc import Sequence
from os import PathLike
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


def from_files(files: dict[str, bytes], storage: str | PathLike[str] | None = None) -> ReplayBuffer:
    """The buffer of a checkpoint that `to_files` gave, in memory. It has no writers.

    storage: where its steps go, as of ReplayBuffer. ValueError for a name that is not of a file in the
    directory of the checkpoint itself.
    """
    with tempfile.TemporaryDirectory() as name:
        for path, content in files.items():
            if Path(path).name != path:
                raise ValueError(
                    f"a file of the checkpoint is {path!r}; allowed: a name without directories"
                )
            Path(name, path).write_bytes(content)
        return ReplayBuffer.load(name, storage=storage)


copyreg.pickle(ReplayBuffer, lambda replay: (from_files, (to_files(replay),)))
