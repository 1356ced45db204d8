"""Calls of shards, over a connection to a shard of the same node or by Ray.

A connection (`reprise.ShardConnection`) costs both ends tens of microseconds for a call, without
the GIL; a call of Ray costs hundreds. A connection may break at any moment: the call is then made
by Ray, with the same bytes, so the shard works on it only once.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

import ray

import reprise

from ._membership import LOST, Membership, Remote
from ._shard import told_by
from ._waiting import SLICE_SECONDS, Wait

ATTEMPTS = 2  # A shard that has not answered after so many is taken out.
# Calls of Ray and connections cannot be waited for together: if there are both, a thread waits this
# long for connections and then looks at the calls.
MIXED_SECONDS = 0.001


class LostShard(Exception):
    """The shard was lost before it answered."""


def is_full(error: BaseException) -> bool:
    """Whether the object store had no room for an answer. It gets room as other answers are
    read."""
    full = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)
    return isinstance(error, full) or isinstance(getattr(error, "cause", None), full)


class Request:
    """A call of a shard, which is made again with the same bytes until it ends: with an answer, an
    error, or the loss of the shard. `life`: that of the shard for which it was made."""

    def __init__(
        self, remote: Remote, life: tuple[int, int], payload: Any, carries: Any = None
    ) -> None:
        self.remote, self.life, self.payload, self.carries = remote, life, payload, carries
        self.calls: list[Any] = []  # Those of Ray that may still be answered.
        self.connection: Any = None  # Where it was sent, until that breaks.
        self.number = 0  # There.
        self.attempts = 0
        self.sent = time.monotonic()  # When the last attempt began.

    @property
    def void(self) -> bool:
        return self.life[1] != self.remote.losses


Ended = tuple[Request, Any]


class Calls:
    """Requests of one sampler, or of all writers of a process. The first attempt of each uses the
    connection to a shard of this node, if there is one; all others are calls of Ray. Any thread may
    ask; one at a time collects."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._direct = os.environ.get("REPRISE_RAY_DIRECT", "1") != "0"
        # For each shard an incarnation and the connection to it; None if there is none, or it broke.
        self._connections: dict[int, tuple[int, Any]] = {}
        self._numbers = itertools.count(1)
        self.open: list[Request] = []  # Those that have not ended.

    def _connection_to(self, remote: Remote) -> Any:
        known = remote.info.incarnation
        of, connection = self._connections.get(remote.index, (0, None))
        if known and of != known and self._direct:
            connection = connect_to(self._membership.spec.address(remote.index, known))
        elif connection is not None and connection.closed:
            connection = None
        self._connections[remote.index] = known, connection
        return connection

    def connections(self) -> list[Any]:
        return [one for _, one in self._connections.values() if one is not None]

    def ask(self, request: Request) -> None:
        self.open.append(request)
        self._send(request)

    def forget(self, shard: int) -> None:
        for one in self.open[:]:
            if one.remote.index == shard:
                self.open.remove(one)

    def _send(self, request: Request) -> None:
        request.attempts += 1
        request.sent = time.monotonic()
        remote = request.remote
        connection = self._connection_to(remote) if request.attempts == 1 else None
        if connection is not None:
            request.number, request.connection = next(self._numbers), connection
            connection.ask(request.number, request.payload)
            return
        try:
            request.calls.append(remote.actor.exchange.remote(request.payload))
        except LOST as error:
            self._membership.take_out(remote, error, request.life)
        except ray.exceptions.RayError as error:
            if not is_full(error):
                raise
            self._found_no_room(request)

    def _found_no_room(self, request: Request) -> None:
        """The object store had no room for the arguments, or for the answer to a call."""
        self._membership.count("full_object_store")
        request.attempts -= 1
        request.sent = time.monotonic()

    def _retry(self, request: Request) -> None:
        """Asks again if nothing is under way, or if the answer is late."""
        waited = time.monotonic() - request.sent
        if not (request.calls or request.connection):
            if waited > SLICE_SECONDS:
                self._send(request)
        elif waited > self._membership.spec.answer_timeout:
            if request.attempts < ATTEMPTS:
                self._membership.count("asked_again")
                self._send(request)
            else:
                error = TimeoutError("it does not answer")
                self._membership.take_out(request.remote, error, request.remote.life)

    def collect(self, wait: Wait) -> list[Ended]:
        """Receives what comes within a moment. Returns the requests that end, each with its answer
        or with the error."""
        open_now = list(self.open)
        ended: list[Ended] = []
        for request, answer in self._receive(open_now, wait):
            if isinstance(answer, LOST):
                self._membership.take_out(request.remote, answer, request.life)
            elif isinstance(answer, BaseException) and is_full(answer):
                self._found_no_room(request)
            elif request in self.open:
                ended.extend(self._answered(request, answer))
        for request in open_now:
            if request in self.open and not request.void:
                self._retry(request)
            if request in self.open and request.void:
                ended.append(self._end(request, LostShard()))
        return ended

    def _answered(self, request: Request, answer: Any) -> list[Ended]:
        if isinstance(answer, BaseException):
            return [self._end(request, getattr(answer, "cause", None) or answer)]
        info, done = told_by(request.remote.index, answer)
        self._membership.learn(info)
        if request.void:
            return []
        if not done:
            kind = reprise.Closed if info.closed else RuntimeError
            answer = kind(f"shard {info.shard} of {self._membership.spec.name} refuses calls")
        return [self._end(request, answer)]

    def _end(self, request: Request, answer: Any) -> Ended:
        self.open.remove(request)
        return request, answer

    def _receive(self, requests: Sequence[Request], wait: Wait) -> list[Ended]:
        """The answers to these requests that come within a moment: their bytes, or errors of Ray."""
        direct = {one.number: one for one in requests if one.connection is not None}
        connections = {one.connection for one in direct.values()}
        calls = {call: one for one in requests for call in one.calls}
        if connections:
            reprise.ShardConnection.wait(connections, MIXED_SECONDS if calls else wait.left())
        elif not calls:
            wait.pause(0.001)
        news: list[Ended] = []
        for connection in connections:
            for number, answer in connection.take():
                request = direct.pop(number, None)
                if request is not None:
                    request.connection = None
                    if answer is not None:  # Otherwise a call of Ray raises the error, too.
                        news.append((request, answer))
            if connection.closed:
                for request in direct.values():
                    if request.connection is connection:
                        request.connection = None
        if calls and ray.wait(list(calls), timeout=0.0 if connections else wait.left())[0]:
            for call in ray.wait(list(calls), num_returns=len(calls), timeout=0)[0]:
                calls[call].calls.remove(call)
                try:
                    news.append((calls[call], ray.get(call)))
                except ray.exceptions.RayError as error:
                    news.append((calls[call], error))
        return news


def connect_to(address: str) -> Any:
    """Returns None if the shard is on another node."""
    try:
        return reprise.ShardConnection(address)
    except OSError:
        return None
