"""Calls of shards, over a connection to a shard of the same node or by Ray.

A connection (`reprise.ShardConnection`) costs both ends tens of microseconds for a call, without
the GIL; a call of Ray costs hundreds. A connection may break at any moment: the call is then made
by Ray, with the same bytes, so the shard works on it only once.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import ray

import reprise

from ._membership import LOST_ERRORS, Membership, Remote
from ._waiting import SLICE_SECONDS, Wait

ATTEMPTS = 2  # A shard that answers none of this many attempts is taken out.
# Calls of Ray and connections cannot be waited for together: if there are both, a thread waits this
# long for connections and then looks at the calls.
CONNECTION_WAIT_SECONDS = 0.001


def is_store_full(error: BaseException) -> bool:
    """Whether the object store had no room for the arguments or the answer of a call. It gets room
    as other answers are read."""
    full = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)
    return isinstance(error, full) or isinstance(getattr(error, "cause", None), full)


class Request:
    """A call to a shard, which is made again with the same bytes until there is an answer, or the
    shard is taken out. `by_ray` makes it by Ray."""

    def __init__(
        self, membership: Membership, remote: Remote, payload: Any, by_ray: Callable[[], Any]
    ) -> None:
        self.membership, self.remote, self.payload = membership, remote, payload
        self.incarnation = remote.info.incarnation
        self._by_ray = by_ray
        self.calls: list[Any] = []  # Calls of Ray that may still be answered.
        self.connection: Any = None  # The one that sent the request, until it breaks.
        self.number = 0  # The request's number on that connection.
        self.attempts = 0
        self._sent = 0.0  # When the last attempt began.

    def send(self, connection: Any, number: int) -> None:
        self._begin()
        self.connection, self.number = connection, number
        connection.ask(number, self.payload)

    def _begin(self) -> None:
        self.attempts += 1
        self._sent = time.monotonic()

    def call(self) -> BaseException | None:
        """Calls the shard by Ray. Returns the error if it is lost."""
        self._begin()
        try:
            self.calls.append(self._by_ray())
        except LOST_ERRORS as error:
            failure: BaseException = error
            return failure
        except ray.exceptions.RayError as error:
            if not is_store_full(error):
                raise
            self.on_store_full()
        return None

    def on_store_full(self) -> None:
        """The object store had no room for the arguments, or for the answer to a call."""
        self.membership.count("full_object_store")
        self.attempts -= 1
        self._sent = time.monotonic()

    def drop_connection(self) -> None:
        """Drops the connection, and the attempt from their count, because the shard may be well."""
        self.connection = None
        self.attempts -= 1

    def retry(
        self, ask: Callable[[Any], None], give_up: Callable[[Any, BaseException], None]
    ) -> None:
        """Asks again if nothing is under way, or if the answer is late."""
        waited = time.monotonic() - self._sent
        if not (self.calls or self.connection):
            if waited > SLICE_SECONDS:
                ask(self)
        elif waited > self.membership.spec.answer_timeout:
            if self.attempts < ATTEMPTS:
                self.membership.count("asked_again")
                ask(self)
            else:
                give_up(self, TimeoutError("it does not answer"))


RequestT = TypeVar("RequestT", bound=Request)


class Calls:
    """Requests of one sampler, or of all writers of a process. The first attempt of each uses the
    connection to a shard of this node, if there is one; all others are calls of Ray. Any thread may
    ask; one at a time collects."""

    def __init__(self, membership: Membership, direct: bool = True) -> None:
        self._membership = membership
        self._direct = direct and os.environ.get("REPRISE_RAY_DIRECT", "1") != "0"
        # The incarnation of each shard, and the connection to that, or None without a working one.
        self._connections: dict[int, tuple[int, Any]] = {}
        self._numbers = itertools.count(1)

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

    def ask(self, request: Request) -> BaseException | None:
        """Sends a request. Returns the error if the shard is lost."""
        connection = self._connection_to(request.remote) if request.attempts == 0 else None
        if connection is None:
            return request.call()
        request.send(connection, next(self._numbers))
        return None

    def collect(self, requests: Sequence[RequestT], wait: Wait) -> list[tuple[RequestT, Any]]:
        """The answers to these requests that come within a moment: their bytes, or errors of Ray."""
        direct = {one.number: one for one in requests if one.connection is not None}
        connections = {one.connection for one in direct.values()}
        calls = {call: one for one in requests for call in one.calls}
        if connections:
            reprise.ShardConnection.wait(
                connections, CONNECTION_WAIT_SECONDS if calls else wait.left()
            )
        elif not calls:
            time.sleep(wait.left(0.001))
        answers = []
        for connection in connections:
            for number, answer in connection.take():
                request = direct.pop(number, None)
                if request is not None:
                    request.connection = None
                    if answer is not None:  # Otherwise the next attempt, by Ray, raises the error.
                        answers.append((request, answer))
            if connection.closed:
                for request in direct.values():
                    if request.connection is connection:
                        request.drop_connection()
        return answers + (
            _collect_ray_answers(calls, 0.0 if connections else wait.left()) if calls else []
        )


def _collect_ray_answers(calls: dict[Any, RequestT], seconds: float) -> list[tuple[RequestT, Any]]:
    answers: list[tuple[RequestT, Any]] = []
    if not ray.wait(list(calls), timeout=seconds)[0]:
        return answers
    for call in ray.wait(list(calls), num_returns=len(calls), timeout=0)[0]:
        calls[call].calls.remove(call)
        try:
            answers.append((calls[call], ray.get(call)))
        except ray.exceptions.RayError as error:
            answers.append((calls[call], error))
    return answers


def connect_to(address: str) -> Any:
    """A connection to a shard of this node; None if the shard is on another node."""
    try:
        return reprise.ShardConnection(address)
    except OSError:
        return None
