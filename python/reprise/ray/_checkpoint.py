"""A checkpoint of all shards: a manifest that names one in-process checkpoint of each."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import reprise
from reprise._memory import attachments_of

FORMAT = 1


def shard_directory(directory: str, shard: int) -> str:
    return os.path.join(directory, f"shard-{shard:04}")


def _number(name: str, kind: str = "all") -> int:
    """The number in the name of a manifest of all shards (kind "all") or of one shard ("manifest");
    0 for other names."""
    match = re.fullmatch(rf"{kind}-(\d{{20}})", name)
    return int(match.group(1)) if match else 0


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Manifest(NamedTuple):
    """A checkpoint of all shards: the number of each shard's own checkpoint, and the buffer's
    description."""

    shards: list[int]
    buffer: dict[str, str]

    def check(self, given: dict[str, str], shards: int) -> None:
        """ValueError if a buffer with the given description cannot load the checkpoint."""
        saved, given = dict(self.buffer), {**given, "shards": str(shards)}
        saved["shards"] = str(len(self.shards))
        for name, value in saved.items():
            if given[name] != value:
                raise ValueError(
                    f"load: {name} is {given[name]}; allowed: that of the checkpoint, {value}"
                )


def write(directory: str, saved: Manifest, attachments: dict[str, Any], keep: int) -> int:
    """Writes a manifest, which makes these checkpoints of the shards the newest of the
    directory."""
    data = [(label, bytes(value)) for label, value in attachments_of(attachments)]
    body = {
        "format": FORMAT,
        **saved._asdict(),
        "attachments": [[label, len(value)] for label, value in data],
    }
    head = json.dumps(body).encode() + b"\n"
    whole = head + b"".join(value for _, value in data)
    temporary = os.path.join(directory, f"{uuid.uuid4().hex}.tmp")
    with open(temporary, "wb") as file:
        file.write(b"%08x\n" % zlib.crc32(whole) + whole)
    _sync(temporary)
    while True:
        number = max([0, *(_number(name) for name in os.listdir(directory))]) + 1
        try:
            os.link(temporary, os.path.join(directory, f"all-{number:020}"))
            break
        except FileExistsError:
            continue  # Another process saved just now.
    os.unlink(temporary)
    _sync(directory)
    for path in reversed(_manifests(directory)[keep:]):
        with contextlib.suppress(FileNotFoundError):  # Another process removed it.
            os.unlink(path)
    return number


def _manifests(directory: str) -> list[str]:
    """The paths of all manifests, newest first."""
    numbers = sorted((_number(name) for name in os.listdir(directory)), reverse=True)
    return [os.path.join(directory, f"all-{number:020}") for number in numbers if number]


def _parse(path: str) -> tuple[dict[str, Any], bytes]:
    """Reads a manifest and the attachments that follow it. OSError if the file cannot be read,
    ValueError or KeyError if it is no whole manifest."""
    with open(path, "rb") as file:
        checksum, whole = file.readline(), file.read()
    if checksum != b"%08x\n" % zlib.crc32(whole):
        raise ValueError("its checksum is wrong")
    head, _, rest = whole.partition(b"\n")
    body = json.loads(head)
    if body["format"] != FORMAT:
        raise ValueError(f"its format is {body['format']}; known: {FORMAT}")
    return body, rest


def read(directory: str, attachments: dict[str, bytes] | None = None) -> Manifest:
    """Reads the newest manifest that is whole, and its attachments into the dict if one is given.
    Damaged manifests are skipped."""
    try:
        paths = _manifests(directory)
    except OSError as error:
        raise FileNotFoundError(
            f"reprise.ray.ReplayBuffer.load: {directory} cannot be read: {error.strerror}"
        ) from error
    newest_error = ""
    for path in paths:
        try:
            body, rest = _parse(path)
        except (OSError, ValueError, KeyError) as error:
            newest_error = newest_error or f"{path}: {error}"
            continue
        if attachments is not None:
            for label, size in body["attachments"]:
                attachments[label], rest = rest[:size], rest[size:]
        return Manifest([int(number) for number in body["shards"]], body.get("buffer", {}))
    raise ValueError(
        f"reprise.ray.ReplayBuffer.load: {directory} has no whole checkpoint of all shards"
        + (f"; the newest: {newest_error}" if newest_error else "")
    )


def oldest_named(directory: str, shards: int, keep: int) -> list[int]:
    """For each shard its oldest checkpoint that the newest `keep` whole manifests name; 0 if there
    is no manifest."""
    named: list[list[int]] = []
    for path in _manifests(directory):
        try:
            checkpoints = [int(number) for number in _parse(path)[0]["shards"]]
        except (OSError, ValueError, KeyError):
            continue
        if len(checkpoints) == shards and len(named) < keep:
            named.append(checkpoints)
    return [min(numbers) for numbers in zip(*named)] if named else [0] * shards


def keep_count(directory: str, oldest: int) -> int:
    """How many checkpoints a shard has to keep so that its next save removes none from number
    `oldest` on: these and the new one. Some of them may be named by no manifest, because a save of
    all shards ended early."""
    try:
        numbers = [_number(name, "manifest") for name in os.listdir(directory)]
    except FileNotFoundError:
        return 1
    return 1 + sum(number >= max(1, oldest) for number in numbers)


@contextlib.contextmanager
def _view_up_to(directory: str, manifest: int) -> Iterator[str]:
    """A view of a shard's directory without the checkpoints after number `manifest`, which a save
    of all shards that ended early may have left."""
    later = [name for name in os.listdir(directory) if _number(name, "manifest") > manifest]
    if not later:
        yield directory
        return
    # Beside the directory, because hard links cannot cross file systems.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(directory), prefix=".view-") as view:
        for name in os.listdir(directory):
            if name not in later:
                os.link(os.path.join(directory, name), os.path.join(view, name))
        yield view


def load_shard(directory: str, shard: int, newest: bool, storage: Any) -> reprise.ReplayBuffer:
    """Loads a shard: its `newest` checkpoint, or the one that the newest manifest of all shards
    names. `storage`: where the shard's steps go, which no checkpoint says."""
    where = shard_directory(directory, shard)
    if newest:
        return reprise.ReplayBuffer.load(where, storage=storage).buffer
    with _view_up_to(where, read(directory).shards[shard]) as view:
        return reprise.ReplayBuffer.load(view, storage=storage).buffer
