"""What all handles of one buffer in a process share."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from ._link import Link
from ._options import Spec
from ._talk import Talk
from ._waiting import Wait
from ._writer import Shipper, Writer


class Process:
    """What all handles of a buffer in one process share."""

    def __init__(
        self, spec: Spec, head: Any, actors: Sequence[Any], incarnations: Sequence[int]
    ) -> None:
        self.link = Link(spec, head, actors, incarnations)
        self.talks: dict[int, Talk] = {}
        self.writer: Writer | None = None
        # Writers so far, counted from a random number: those of many processes begin apart.
        self.writers = int.from_bytes(os.urandom(2), "little")
        self._shipper: Shipper | None = None
        self.lock = threading.Lock()

    def talk(self, selector: int, new: bool = False, **options: Any) -> Talk:
        """The newest talk about a selector, which takes updates along, or a new one."""
        with self.lock:
            if new or selector not in self.talks:
                name = f"{selector}-{uuid.uuid4().hex[:6]}"
                self.talks[selector] = Talk(self.link, name, selector, **options)
            return self.talks[selector]

    @property
    def shipper(self) -> Shipper:
        if self._shipper is None:
            self._shipper = Shipper(self.link)
        return self._shipper


_processes: dict[tuple[str, bytes], Process] = {}
_processes_lock = threading.Lock()


def process_of(
    spec: Spec, head: Any, actors: Sequence[Any], incarnations: Sequence[int]
) -> Process:
    where = (spec.name, head._actor_id.binary())
    with _processes_lock:
        for known, process in list(_processes.items()):
            if process.link.closed:
                del _processes[known]
        if where not in _processes:
            _processes[where] = Process(spec, head, actors, incarnations)
        process = _processes[where]
        for remote, given in zip(process.link.remotes, incarnations):
            remote.given = max(remote.given, given)
        return process


class Update:
    """A call of `update_priorities`, which does not wait. `stats()` has the counts of all
    updates."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def wait(self, timeout: float | None = None) -> None:
        """Until the shards have taken this update, and those before it. TimeoutError."""
        self._talk.settle(Wait("Update.wait", timeout, lambda: "answers of the shards"))
