"""A learner's session with all shards: requests, their answers, and requests sent again."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from typing import Any

import numpy as np

import reprise

from .._memory import bfloat16_of
from ._calls import Calls, Request, is_store_full
from ._membership import LOST_ERRORS, Membership
from ._shard import parse_answer
from ._waiting import SLICE_SECONDS, Wait

# The key of an item over all shards: its key within its shard, the shard's incarnation, and the
# shard's index.
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
    """Checks the priorities that `update_priorities` was given; returns float32. ShardClient checks
    their range."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            "update_priorities: priorities is a masked array, whose mask would be lost; allowed: "
            "its filled(value)"
        )
    as_bfloat16 = bfloat16_of(given)
    try:
        values = np.asarray(given) if as_bfloat16 is None else as_bfloat16.astype(np.float32)
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
    # Values above float32's range become infinity, which ShardClient refuses.
    with np.errstate(over="ignore"):
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
        self.membership, self._calls = membership, Calls(membership)
        self.lock = threading.RLock()  # Guards the client and the requests.
        self.client = reprise.ShardClient(
            membership.spec.schema,
            len(membership.remotes),
            **membership.spec.checked_options,
            selector=selector,
            seed=seed,
            allocator=allocator,
            unique_frames=unique_frames,
        )
        # For each shard the requests that it has not answered.
        self._requests: list[list[Request]] = [[] for _ in membership.remotes]
        self._receive_lock = threading.Lock()  # Held by the thread that receives answers.
        # The client's reallotted draws and stale updates, as far as the membership counts them.
        self._counted = (0, 0)
        # Whether draws of a lost shard were allotted to others, and not yet requested there.
        self.changed = False
        self.waiting_updates = 0  # Updates queued since the last request.
        self.waiting_since = 0.0  # When the first of these updates was queued.
        # Weak references, so that the membership does not keep a dropped sampler alive.
        membership.on_loss.append(weakref.WeakMethod(self._lost))
        membership.upkeep.append(weakref.WeakMethod(self._send_updates))

    def _lost(self, shard: int, restarted: bool = False) -> None:
        """Forgets the requests of a lost shard. If the shard `restarted`, its successor gets the
        updates that were under way."""
        with self.lock:
            self._requests[shard].clear()
            self.client.lose(shard, restarted)
            self.changed = True
            if restarted:
                self._count_queued(1)  # At least 1 may be queued; only the client knows how many.
            self._count()

    def _count(self) -> None:
        """Counts what the client has reallotted and found stale since the last call."""
        reallotted, stale = self.client.reallotted, self.client.stale_updates
        self.membership.count("reallotted_draws", reallotted - self._counted[0])
        self.membership.count("stale_updates_at_clients", stale - self._counted[1])
        self._counted = reallotted, stale

    def send(self) -> list[Request]:
        """Sends every shard that is alive a request with its draws and updates, also without any:
        each answer has the shard's totals."""
        self.changed = False
        with self.lock:
            self.waiting_updates = 0  # The requests below carry all updates.
        sent = []
        for remote in self.membership.alive():
            with self.lock:
                payload = self.client.request(remote.index)
                by_ray = functools.partial(remote.actor.exchange.remote, payload)
                request = Request(self.membership, remote, payload, by_ray)
                self._requests[remote.index].append(request)
            sent.append(request)
            self._ask(request)
        return sent

    def _ask(self, request: Request) -> None:
        failure = self._calls.ask(request)
        if failure is not None:
            self._give_up(request, failure)

    def _give_up(self, request: Request, error: BaseException) -> None:
        self.membership.take_out(request.remote, error, request.incarnation)
        with self.lock:
            if request in self._requests[request.remote.index]:
                # The shard was out already, so `take_out` did not call `_lost`.
                self._lost(request.remote.index)

    def collect(self, wait: Wait) -> bool:
        """Receives answers that come within a moment. Returns True if an answer or a loss may have
        come, so that the caller has to look."""
        self.membership.check_open()
        if not self._receive_lock.acquire(blocking=False):
            # Another thread receives answers, perhaps those for which this thread waits.
            if self._receive_lock.acquire(timeout=wait.left()):
                self._receive_lock.release()
                return True
            wait.check()
            return False
        try:
            with self.lock:
                waiting = [request for requests in self._requests for request in requests]
            answers = self._calls.collect(waiting, wait)
            for request, answer in answers:
                self._handle_answer(request, answer)
        finally:
            self._receive_lock.release()
        for request in waiting:
            if request in self._requests[request.remote.index]:
                request.retry(self._ask, self._give_up)
        if waiting and not answers:
            wait.check()
        return bool(answers) or not waiting

    def _handle_answer(self, request: Request, answer: Any) -> None:
        shard = request.remote.index
        if isinstance(answer, LOST_ERRORS):
            self._give_up(request, answer)
        elif isinstance(answer, BaseException) and is_store_full(answer):
            request.on_store_full()
        elif isinstance(answer, BaseException):
            self._lost(shard)  # Drops the request, so that the next call does not raise this again.
            raise answer
        else:
            info, done = parse_answer(shard, answer)
            if self.membership.update_info(info):
                with self.lock:
                    if request not in self._requests[shard]:
                        return
                    if done:
                        self._requests[shard].remove(request)
                        self.client.answer(shard, answer)
                    else:  # The request was for an earlier incarnation.
                        self._lost(shard, restarted=True)

    def unanswered_shards(self) -> set[int]:
        """The shards that have not answered all requests yet."""
        return {shard for shard, requests in enumerate(self._requests) if requests}

    def sync(self, wait: Wait) -> None:
        """Waits until every shard has taken the updates and answered with its totals."""
        while True:
            sent = self.send()
            while any(request in self._requests[request.remote.index] for request in sent):
                self.collect(wait)
            if not self.waiting_updates:  # Else a shard was restarted, and gets its updates again.
                return

    def _send_updates(self) -> None:
        if self.waiting_updates and time.monotonic() - self.waiting_since > SLICE_SECONDS:
            self.sync(Wait("upkeep", 2 * self.membership.spec.answer_timeout, str))

    def update(self, keys: Any, priorities: Any) -> None:
        """Queues updates for the next requests. Updates of lost shards count as stale."""
        with self.lock:
            alive = np.array([remote.alive for remote in self.membership.remotes])[keys["shard"]]
            stale = len(keys) - int(np.count_nonzero(alive))
            if stale:
                self.membership.count("stale_updates_at_clients", stale)
                keys, priorities = keys[alive], priorities[alive]
            self.client.update(
                np.ascontiguousarray(keys["key"]),
                np.ascontiguousarray(keys["shard"]),
                np.ascontiguousarray(keys["incarnation"]),
                priorities,
            )
            self._count_queued(len(keys))
            self._count()

    def _count_queued(self, n: int) -> None:
        if not self.waiting_updates:
            self.waiting_since = time.monotonic()
        self.waiting_updates += n

    def items(self) -> int:
        with self.lock:
            shards = [remote.index for remote in self.membership.alive()]
            return sum(self.client.totals(shard)["items"] for shard in shards)
