"""A learner's session with all shards: requests, their answers, and requests sent again."""

from __future__ import annotations

import select
import threading
import time
import weakref
from collections import deque
from typing import Any

import numpy as np
import ray

import reprise

from .._files import uncompressed
from .._memory import bfloat16_of
from ._connection import Answer, Connection, connect_to
from ._membership import LOST, Membership, Remote, Request, is_full
from ._shard import ShardInfo
from ._waiting import SLICE_SECONDS, Wait

# The key of an item over all shards: its key within its shard, the incarnation of that shard, and
# the shard.
KEY = np.dtype([("key", np.int64), ("incarnation", np.uint64), ("shard", np.uint32)])


# Calls of Ray and connections cannot be waited for together: if there are both, a thread waits this
# long for connections and then looks at the calls.
MIXED_SECONDS = 0.001


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


class _Exchange(Request):
    """A request to one shard, until its answer was given to the client."""

    def __init__(self, membership: Membership, remote: Remote, number: int, payload: Any) -> None:
        super().__init__(membership, remote)
        self.number, self.payload = number, payload
        self.answer: Any = None


class ClientSession:
    """One `reprise.ShardClient` and its requests. Any thread.

    The client gets answers in the order of their requests. A request that is sent again keeps its
    number, so the shard works on it once, and the first answer counts. The first attempt uses the
    connection to a shard on this node, if there is one; all others are calls of Ray.
    """

    def __init__(
        self,
        membership: Membership,
        name: str,
        selector: int = 0,
        seed: int = 0,
        allocator: Any = None,
        unique_frames: bool = False,
    ) -> None:
        self.membership, self._name = membership, f"{membership.client}.{name}"
        self.lock = threading.RLock()  # Guards the client and the requests.
        prototype = prototype_of(membership.spec)
        self.client = reprise.ShardClient(
            prototype,
            len(membership.remotes),
            selector=selector,
            seed=seed,
            allocator=allocator,
            unique_frames=unique_frames,
        )
        self._requests: list[deque[_Exchange]] = [deque() for _ in membership.remotes]
        # For each shard an incarnation and the connection to it, which is None if it cannot be made
        # or broke.
        self._connections: dict[int, tuple[int, Connection | None]] = {}
        self._reading = threading.Lock()  # Held by the thread that receives answers.
        self._numbered = 0
        self._counted = (0, 0)
        self.changed = False  # Draws were allotted again, and are not requested yet.
        self.waiting_updates = 0  # Updates queued since the last request.
        self.waiting_since = 0.0  # When the first of them was queued.
        # Weak references, so that the membership does not keep a dropped sampler alive.
        membership.on_loss.append(weakref.WeakMethod(self._lost))
        membership.upkeep.append(weakref.WeakMethod(self._send_updates))

    def _lost(self, shard: int, restarted: bool = False) -> None:
        """Forgets the requests of a lost shard. If it `restarted`, its successor gets the updates
        that were under way."""
        with self.lock:
            self._requests[shard].clear()
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

    def send(self) -> list[_Exchange]:
        """Sends every shard a request with its draws and updates; it asks for the shard's totals
        too."""
        self.changed = False
        with self.lock:
            self.waiting_updates = 0  # The requests below carry all of them.
        sent = []
        for remote in self.membership.alive():
            with self.lock:
                payload = self.client.request(remote.index)
                request = _Exchange(self.membership, remote, self._numbered, payload)
                self._numbered += 1
                self._requests[remote.index].append(request)
            sent.append(request)
            self._ask(request)
        return sent

    def _ask(self, request: _Exchange) -> None:
        remote = request.remote
        with self.lock:
            requests = self._requests[remote.index]
            oldest = requests[0].number if requests else request.number
            message = request.number, oldest, request.incarnation, request.payload
            connection = self._connection_to(remote) if request.attempts == 0 else None
            try:
                if connection is not None:
                    connection.send(*message)
                    request.connection = connection
                    request.begin()
                    return
            except BlockingIOError:
                pass  # The shard is stopped, or the request too large: Ray carries it.
            except OSError:
                self._connections[remote.index] = request.incarnation, None
            failure = request.call(remote.actor.exchange, self._name, *message)
        if failure is not None:
            self._give_up(request, failure)

    def _give_up(self, request: _Exchange, error: BaseException) -> None:
        self.membership.take_out(request.remote, error, request.incarnation)
        with self.lock:
            if request in self._requests[request.remote.index]:
                # The shard was taken out while the request was sent.
                self._lost(request.remote.index)

    def _connection_to(self, remote: Remote) -> Connection | None:
        known = remote.info.incarnation
        if known and self._connections.get(remote.index, (0, None))[0] != known:
            connection = connect_to(self.membership.spec.name, remote.index, known, self._name)
            self._connections[remote.index] = known, connection
        return self._connections.get(remote.index, (0, None))[1]

    def collect(self, wait: Wait) -> bool:
        """Receives answers that come within a moment. Returns True if there may be an answer or a
        loss."""
        self.membership.check_open()
        if not self._reading.acquire(blocking=False):
            # Another thread is receiving, perhaps the answers that this one waits for.
            if self._reading.acquire(timeout=wait.left()):
                self._reading.release()
                return True
            wait.check()
            return False
        try:
            news = self._collect(wait)
        finally:
            self._reading.release()
        with self.lock:
            waiting = [one for requests in self._requests for one in requests]
        for request in waiting:
            if request.answer is None:
                request.retry(self._ask, self._give_up)
        if not news:
            wait.check()
        return news

    def _collect(self, wait: Wait) -> bool:
        with self.lock:
            waiting = [one for queue in self._requests for one in queue if one.answer is None]
            calls = {call: request for request in waiting for call in request.calls}
            connections = {one.connection: one.remote for one in waiting if one.connection}
        if not calls and not connections:
            wait.pause(0.001)
            return not waiting
        heard = False
        if connections:
            heard = self._hear(connections, MIXED_SECONDS if calls else wait.left())
        ready = []
        if calls:
            ready, _ = ray.wait(
                list(calls),
                num_returns=len(calls) if connections else 1,
                timeout=0 if connections else wait.left(),
            )
            if ready and not connections:
                ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        for call in ready:
            self._take(call, calls[call])
        return heard or bool(ready)

    def _hear(self, connections: dict[Connection, Remote], seconds: float) -> bool:
        poll = select.poll()
        remotes = {}
        for connection, remote in connections.items():
            poll.register(connection, select.POLLIN)
            remotes[connection.fileno()] = connection, remote
        ready = poll.poll(1000 * seconds)
        for number, _ in ready:
            connection, remote = remotes[number]
            try:
                answers = connection.take()
            except OSError:
                self._break(connection, remote)
                continue
            for one in answers:
                self._heard(one, connection, remote)
        return bool(ready)

    def _heard(self, answer: Answer, connection: Connection, remote: Remote) -> None:
        with self.lock:
            found = (
                one
                for one in self._requests[remote.index]
                if one.number == answer.number and one.answer is None
            )
            request = next(found, None)
        if request is None:
            return
        if answer.failed:
            request.connection = None
            if not request.calls:
                self._ask(request)
            return
        info = ShardInfo(answer.shard, answer.incarnation, answer.committed, answer.closed)
        self._answered(request, info, answer.blob)

    def _break(self, connection: Connection, remote: Remote) -> None:
        """Sends requests of a broken connection again by Ray, which knows whether the shard is
        lost."""
        with self.lock:
            known, now = self._connections[remote.index]
            if now is connection:
                self._connections[remote.index] = known, None
            again = [one for one in self._requests[remote.index] if one.connection is connection]
            for request in again:
                request.connection = None
        for request in again:
            if request.answer is None and not request.calls:
                self._ask(request)

    def _take(self, call: Any, request: _Exchange) -> None:
        try:
            info, answer = ray.get(call)
        except LOST as error:
            self._give_up(request, error)
        except ray.exceptions.RayError as error:
            if not is_full(error):
                self._lost(request.remote.index)  # Otherwise the next call would raise it, too.
                raise
            with self.lock:
                request.found_no_room(call)
        else:
            self._answered(request, info, answer)

    def _answered(self, request: _Exchange, info: ShardInfo, answer: Any) -> None:
        if not self.membership.learn(info):
            return
        shard = request.remote.index
        with self.lock:
            requests = self._requests[shard]
            if request not in requests:
                return
            if answer is None:
                self._lost(shard, restarted=True)  # The request was for an earlier incarnation.
                return
            request.answer = answer
            while requests and requests[0].answer is not None:
                self.client.answer(shard, requests.popleft().answer)

    def asked(self) -> set[int]:
        """The shards that have not answered yet."""
        return {shard for shard, requests in enumerate(self._requests) if requests}

    def sync(self, wait: Wait) -> None:
        """Waits until every shard has taken the updates and answered with its totals."""
        while True:
            sent = self.send()
            while any(request in self._requests[request.remote.index] for request in sent):
                self.collect(wait)
            if not self.waiting_updates:  # Otherwise a shard was restarted, and gets them again.
                return

    def _send_updates(self) -> None:
        if self.waiting_updates and time.monotonic() - self.waiting_since > SLICE_SECONDS:
            self.sync(Wait("upkeep", 2 * self.membership.spec.answer_timeout, str))

    def update(self, keys: Any, priorities: Any) -> None:
        """Queues updates for the next requests. Updates of lost shards count as stale."""
        with self.lock:
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


def prototype_of(spec: Any, writers: int = 1) -> reprise.ReplayBuffer:
    """A small buffer with the options of a shard. It checks steps, and knows the shape of batches.
    It compresses nothing, because steps are shipped as they are and nothing is drawn from it."""
    steps = max(
        writers * 64, spec.window_steps, min(4096, (64 << 20) // max(1, spec.schema.step_bytes))
    )
    options = {
        name: spec.options[name] for name in ("window", "selectors") if spec.options.get(name)
    }
    return reprise.ReplayBuffer(
        uncompressed(spec.schema),
        steps,
        rate_limiter=reprise.Unlimited(),
        max_writers=writers,
        shards=1,
        **options,
    )
