"""A learner's session with all shards: requests, their answers, and requests sent again."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import reprise

from .._memory import bfloat16_of
from ._calls import Calls, LostShard, Request
from ._membership import Membership
from ._waiting import SLICE_SECONDS, Wait

# The key of an item over all shards: its key within its shard, the incarnation of that shard, and
# the shard.
KEY = np.dtype([("key", np.int64), ("incarnation", np.uint64), ("shard", np.uint32)])


def keys_of(given: Any, shards: int) -> Any:
    """Checks the item keys that `update_priorities` was given; returns them as an array."""
    keys = np.asarray(given)
    if keys.dtype != KEY:
        raise TypeError(
            f"update_priorities: keys has dtype {keys.dtype}; allowed: item_keys of a batch of "
            "reprise.ray"
        )
    if len(keys) and int(keys["shard"].max()) >= shards:
        raise ValueError("update_priorities: keys has an item of another buffer")
    return keys


def priorities_of(given: Any, keys: Any) -> Any:
    """Checks the priorities that `update_priorities` was given; returns float32. The client checks
    their range."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            "update_priorities: priorities is a masked array, whose mask would be lost; allowed: "
            "its filled(value)"
        )
    half = bfloat16_of(given)
    try:
        values = np.asarray(given) if half is None else half.astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        why = f"update_priorities: no array can be made of priorities: {error}"
        raise ValueError(why) from error
    if values.dtype.kind not in "biuf":
        raise TypeError(f"update_priorities: priorities has dtype {values.dtype}; allowed: numbers")
    if values.shape != keys.shape or keys.ndim != 1:
        raise ValueError(
            f"update_priorities: priorities has shape {values.shape}; allowed: that of keys, "
            f"{keys.shape}, of one dimension"
        )
    with np.errstate(
        over="ignore"
    ):  # The client refuses infinity, which values above float32's range become.
        return np.ascontiguousarray(values, np.float32)


class ClientSession:
    """One `reprise.ShardClient` and its requests. Any thread."""

    def __init__(
        self,
        membership: Membership,
        selector: int = 0,
        seed: int = 0,
        allocator: Any = None,
        unique_frames: bool = False,
    ) -> None:
        self.membership, self.calls = membership, Calls(membership)
        self.lock = threading.RLock()  # Guards the client.
        self.client = reprise.ShardClient(
            membership.spec.schema,
            len(membership.remotes),
            **membership.spec.checked,
            selector=selector,
            seed=seed,
            allocator=allocator,
            unique_frames=unique_frames,
        )
        # How many losses of each shard the client has been told of.
        self._losses = [one.losses for one in membership.remotes]
        self._reading = threading.Lock()  # Held by the thread that receives answers.
        self._counted = (0, 0)
        self.changed = False  # Draws were allotted again, and are not requested yet.
        self.waiting_updates = 0  # Updates queued since the last request.
        self.waiting_since = 0.0  # When the first of them was queued.
        with membership.lock:
            membership.sessions.add(self)

    def _look(self) -> None:
        """Tells the client which shards were lost since the last look. The successor of one that
        was restarted gets the updates that were under way. Lock held."""
        for remote in self.membership.remotes:
            if remote.losses != self._losses[remote.index]:
                self._losses[remote.index] = remote.losses
                self._lose(remote.index, remote.restarted)

    def _lose(self, shard: int, restarted: bool = False) -> None:
        self.client.lose(shard, restarted)
        self.changed = True
        if restarted:
            self._note_updates(1)  # At least one; only the client knows how many.
        self._count()

    def _count(self) -> None:
        before, now = self._counted, (self.client.reallotted, self.client.stale_updates)
        self._counted = now
        self.membership.count("reallotted_draws", now[0] - before[0])
        self.membership.count("stale_updates_at_clients", now[1] - before[1])

    def send(self) -> list[Request]:
        """Sends every shard a request with its draws and updates; it asks for the shard's totals
        too."""
        self.changed = False
        with self.lock:
            self.waiting_updates = 0  # The requests below carry all of them.
        sent = []
        for remote in self.membership.alive():
            with self.lock:
                life = (
                    remote.life
                )  # Read first: a loss that the client is not told of makes it void.
                self._look()
                sent.append(Request(remote, life, self.client.request(remote.index)))
            self.calls.ask(sent[-1])
        return sent

    def collect(self, wait: Wait) -> None:
        """Receives answers that come within a moment."""
        self.membership.check_open()
        if not self._reading.acquire(blocking=False):
            # Another thread is receiving, perhaps the answers that this one waits for.
            if self._reading.acquire(timeout=wait.left()):
                self._reading.release()
            else:
                wait.check()
            return
        try:
            some, ended = bool(self.calls.open), self.calls.collect(wait)
            # Errors last: they make void what else their shard was asked.
            ended.sort(key=lambda one: isinstance(one[1], BaseException))
            for request, answer in ended:
                self._take(request, answer)
        finally:
            self._reading.release()
        if some and not ended:
            wait.check()

    def _take(self, request: Request, answer: Any) -> None:
        shard = request.remote.index
        with self.lock:
            self._look()
            if isinstance(answer, LostShard) or request.void:
                return
            if isinstance(answer, BaseException):
                self.calls.forget(shard)
                self._lose(shard)  # Otherwise the next call would raise it, too.
                raise answer
            self.client.answer(shard, answer)

    def asked(self) -> set[int]:
        """The shards that have not answered yet."""
        return {one.remote.index for one in self.calls.open}

    def sync(self, wait: Wait) -> None:
        """Waits until every shard has taken the updates and answered with its totals."""
        while True:
            sent = self.send()
            while any(one in self.calls.open for one in sent):
                self.collect(wait)
            with self._reading:  # Another thread may have what it received.
                if (
                    not self.waiting_updates
                ):  # Otherwise a shard was restarted, and gets them again.
                    return

    def send_late_updates(self) -> None:
        if self.waiting_updates and time.monotonic() - self.waiting_since > SLICE_SECONDS:
            self.sync(Wait("upkeep", 2 * self.membership.spec.answer_timeout, str))

    def update(self, keys: Any, priorities: Any) -> None:
        """Queues updates for the next requests. Updates of lost shards count as stale."""
        with self.lock:
            self._look()
            there = np.array([one.alive for one in self.membership.remotes])[keys["shard"]]
            gone = len(keys) - int(np.count_nonzero(there))
            if gone:
                self.membership.count("stale_updates_at_clients", gone)
                keys, priorities = keys[there], priorities[there]
            self.client.update(
                np.ascontiguousarray(keys["key"]),
                np.ascontiguousarray(keys["shard"]),
                np.ascontiguousarray(keys["incarnation"]),
                priorities,
            )
            self._note_updates(len(keys))
            self._count()

    def _note_updates(self, n: int) -> None:
        if not self.waiting_updates:
            self.waiting_since = time.monotonic()
        self.waiting_updates += n

    def items(self) -> int:
        with self.lock:
            return sum(self.client.totals(one.index)["items"] for one in self.membership.alive())
