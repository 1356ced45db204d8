"""Pickle and copy.deepcopy of buffers and schemas. A buffer is pickled by `save` and `load`, a
schema by its fields. Sending a buffer to another process is refused, because a second buffer would
arrive there; so are writers, samplers and other objects that a buffer made."""

from __future__ import annotations

import copyreg
import multiprocessing.context
import multiprocessing.reduction
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from . import _reprise
from ._reprise import ReplayBuffer, Sampler, Schema

_ONE_PROCESS = (
    "a buffer cannot be handed to another process, which would have another buffer, whose steps "
    "this one never sees. Give it the address of `with replay.share() as address`, and call "
    "reprise.attach(address) there; on other machines reprise.ray; or save here and "
    "ReplayBuffer.load there for a copy"
)


def to_files(replay: ReplayBuffer, samplers: Sequence[Sampler] = ()) -> dict[str, bytes]:
    """The files of a checkpoint of the buffer, by their paths in its directory.

    samplers: samplers of the buffer whose random generators are saved too; a sampler made with
    `resume=i` continues the i-th. The files are in memory at once, and for a while also in a
    temporary directory. RuntimeError while this thread starts a process, because the files would
    be sent to it.
    """
    # A starting process may get the buffer inside another pickle: vector environments pickle their
    # functions, which may hold one.
    if multiprocessing.context.get_spawning_popen() is not None:
        raise RuntimeError(_ONE_PROCESS)
    with tempfile.TemporaryDirectory() as name:
        replay.save(name, samplers=samplers)
        folder = Path(name)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def from_files(files: dict[str, bytes], storage: str | PathLike[str] | None = None) -> ReplayBuffer:
    """Makes a buffer, without writers, from the files that `to_files` returned.

    storage: where the buffer keeps its steps, as for ReplayBuffer. ValueError for a path with a
    directory: all files of a checkpoint are directly in its directory.
    """
    with tempfile.TemporaryDirectory() as name:
        for path, content in files.items():
            if Path(path).name != path:
                raise ValueError(
                    f"a file of the checkpoint is {path!r}; allowed: a name without directories"
                )
            Path(name, path).write_bytes(content)
        return ReplayBuffer.load(name, storage=storage).buffer


copyreg.pickle(ReplayBuffer, lambda replay: (from_files, (to_files(replay),)))


def _refuse_process(replay: ReplayBuffer) -> NoReturn:
    raise RuntimeError(_ONE_PROCESS)


# Queues, pipes, pools and starting processes all pickle with this class.
multiprocessing.reduction.ForkingPickler.register(ReplayBuffer, _refuse_process)


def _refuse_pickle(value: Any) -> NoReturn:
    raise TypeError(
        f"a {type(value).__name__} cannot be pickled or copied: it works on buffers of this process; "
        "make another one where the buffer is"
    )


for _kind in (
    *(_reprise.Writer, _reprise.VectorWriter, _reprise.Sampler, _reprise.Mix, _reprise.Hindsight),
    *(_reprise.Prefetcher, _reprise.StepPacker, _reprise.ReplayShard, _reprise.ShardClient),
    _reprise.ShardConnection,
):
    copyreg.pickle(_kind, _refuse_pickle)


def _refuse_connection(value: Any) -> NoReturn:
    raise TypeError(
        f"a {type(value).__name__} cannot be pickled or copied: give other processes the address of "
        "`with replay.share() as address`, and call reprise.attach(address) there"
    )


for _kind in (_reprise.Host, _reprise.Guest):
    copyreg.pickle(_kind, _refuse_connection)


def schema_of(
    fields: Sequence[tuple[str, str, str, tuple[int, ...]]],
    finite: bool,
    compressed: Sequence[str],
) -> Schema:
    """Makes a schema from fields, each a tuple of name, role, dtype and shape."""
    schema = Schema()
    for name, role, dtype, shape in fields:
        declare = getattr(schema, role)
        if role in ("reward", "discount", "version"):  # These have a dtype and shape of their own.
            declare(name)
        else:
            declare(name, dtype, shape)
    for name in compressed:
        schema.compress(name)
    return schema.require_finite(finite)


def _reduce(schema: Schema) -> tuple[Any, ...]:
    # dtypes are given by name, because numpy cannot unpickle bfloat16 without ml_dtypes.
    fields = [(f.name, f.role.name.lower(), f.dtype.name, f.shape) for f in schema.fields]
    return schema_of, (fields, schema.requires_finite, schema.compressed)


copyreg.pickle(Schema, _reduce)
