"""State that all handles of one buffer in a process share."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from ._membership import Membership
from ._options import Spec
from ._session import ClientSession, keys_of, priorities_of
from ._waiting import Wait
from ._writer import Shipper, Writer


class Process:
    """The sessions of learners, the shipper of writers, and the membership of shards."""

    def __init__(
        self, spec: Spec, coordinator: Any, actors: Sequence[Any], incarnations: Sequence[int]
    ) -> None:
        self.membership = Membership(spec, coordinator, actors, incarnations)
        self.sessions: dict[int, ClientSession] = {}
        self.episode_writer: Writer | None = None  # The writer of `append_episode`.
        # A hash of the episode that `append_episode` recorded last, if its wait for a shard raised.
        self.unfinished_episode = b""
        # Counts writers from a random number, so that writers of different processes begin with
        # different shards.
        self.writers = int.from_bytes(os.urandom(2), "little")
        self._shipper: Shipper | None = None
        self.lock = threading.Lock()

    def session(self, selector: int, new: bool = False, **options: Any) -> ClientSession:
        """The newest session of a selector, which sends the updates for it; `new` makes another."""
        with self.lock:
            if new or selector not in self.sessions:
                self.sessions[selector] = ClientSession(self.membership, selector, **options)
            return self.sessions[selector]

    def update(self, keys: Any, priorities: Any, selector: int) -> Update:
        """Queues an update of priorities for the next request of a session."""
        self.membership.check_open()
        keys = keys_of(keys, len(self.membership.remotes))
        values = priorities_of(priorities, keys)
        session = self.session(selector)
        session.update(keys, values)
        return Update(session)

    @property
    def shipper(self) -> Shipper:
        if self._shipper is None:
            self._shipper = Shipper(self.membership)
        return self._shipper


_processes: dict[tuple[str, bytes], Process] = {}
_processes_lock = threading.Lock()


def process_of(
    spec: Spec, coordinator: Any, actors: Sequence[Any], incarnations: Sequence[int]
) -> Process:
    key = (spec.name, coordinator._actor_id.binary())
    with _processes_lock:
        for other, process in list(_processes.items()):
            if process.membership.closed:
                del _processes[other]
        if key not in _processes:
            _processes[key] = Process(spec, coordinator, actors, incarnations)
        process = _processes[key]
        for remote, given_incarnation in zip(process.membership.remotes, incarnations):
            remote.given_incarnation = max(remote.given_incarnation, given_incarnation)
        return process


class Update:
    """Returned by `update_priorities`, which does not wait. `stats()` has the counts of all
    updates."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the shards have taken this update and all earlier ones of this process for
        the same selector. TimeoutError if that takes longer."""
        self._session.sync(Wait("Update.wait", timeout, lambda: "answers of the shards"))
