"""Buffers and schemas as values: pickle and copy.deepcopy of a buffer go through `save` and `load`,
those of a schema through its fields."""

from __future__ import annotations

import copyreg
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ._reprise import ReplayBuffer, Sampler, Schema


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


def schema_of(
    fields: Sequence[tuple[str, str, str, tuple[int, ...]]],
    finite: bool,
    compressed: Sequence[str],
) -> Schema:
    """The schema of fields by name, role, dtype and shape; `compressed` names some of them."""
    made = Schema()
    for name, role, dtype, shape in fields:
        if role in ("reward", "discount"):
            getattr(made, role)(name)
        else:
            getattr(made, role)(name, dtype, shape)
    for name in compressed:
        made.compress(name)
    return made.require_finite(finite)


def _reduce(schema: Schema) -> tuple[Any, ...]:
    # dtypes by their names, so that numpy reads no bfloat16 without ml_dtypes.
    fields = [(f.name, f.role.name.lower(), f.dtype.name, f.shape) for f in schema.fields]
    return schema_of, (fields, schema.requires_finite, schema.compressed)


copyreg.pickle(Schema, _reduce)


def uncompressed(schema: Schema) -> Schema:
    """An equal schema that keeps its observations as they are."""
    _, (fields, finite, _) = _reduce(schema)
    return schema_of(fields, finite, ())
