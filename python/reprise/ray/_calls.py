"""Calls of shards, over a connection to a shard of the same node or by Ray.

A call over a connection (`reprise.ShardConnection`) costs both ends tens of microseconds, without
the GIL; a call of Ray costs hundreds. If a connection breaks, its calls are made again by Ray with
the same bytes, by which the shard knows a call that it has worked on already.
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
    """Whether the object store had no room for the arguments or the answer of a call. There is room
    again once other answers are read."""
    errors = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)
    return isinstance(error, errors) or isinstance(getattr(error, "cause", None), errors)


class Request:
    """A call to a shard, which is made again with the same bytes until there is an answer, or the
    shard is taken out. `by_ray` makes the call by Ray."""

    def __init__(
        self, membership: Membership, remote: Remote, payload: Any, by_ray: Callable[[], Any]
    ) -> None:
        self.membership, self.remote, self.payload = membership, remote, payload
        self.incarnation = remote.info.incarnation
        self._by_ray = by_ray
        self.calls: list[Any] = []  # Calls of Ray that may still be answered.
        self.connection: Any = None  # The one that sent the request, until it answers or breaks.
        self.number = 0  # The request's number on that connection.
        self.attempts = 0
        self._sent_at = 0.0  # When the last attempt began.

    def send(self, connection: Any, number: int) -> None:
        self._begin_attempt()
        self.connection, self.number = connection, number
        connection.ask(number, self.payload)

    def _begin_attempt(self) -> None:
        self.attempts += 1
        self._sent_at = time.monotonic()

    def call(self) -> BaseException | None:
        """Calls the shard by Ray. Returns the error if the shard is lost."""
        self._begin_attempt()
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
        """Takes back the attempt, for which the object store had no room: the shard may be well."""
        self.membership.count("full_object_store")
        self.attempts -= 1
        self._sent_at = time.monotonic()

    def drop_connection(self) -> None:
        """Drops a connection that broke, and takes back the attempt: the shard may be well."""
        self.connection = None
        self.attempts -= 1

    def retry(
        self, ask: Callable[[Any], None], give_up: Callable[[Any, BaseException], None]
    ) -> None:
        """Asks again if no attempt is under way or the answer is late; gives up after ATTEMPTS."""
        waited = time.monotonic() - self._sent_at
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
        # By shard: an incarnation, and the connection to it, or None if there is no working one.
        self._connections: dict[int, tuple[int, Any]] = {}
        self._numbers = itertools.count(1)

    def _connection_to(self, remote: Remote) -> Any:
        """A connection to the newest known incarnation, or None; tries once for each incarnation."""
        newest = remote.info.incarnation
        connected_to, connection = self._connections.get(remote.index, (0, None))
        if newest and connected_to != newest and self._direct:
            connection = connect_to(self._membership.spec.address(remote.index, newest))
        elif connection is not None and connection.closed:
            connection = None
        self._connections[remote.index] = newest, connection
        return connection

    def connections(self) -> list[Any]:
        return [
            connection for _, connection in self._connections.values() if connection is not None
        ]

    def ask(self, request: Request) -> BaseException | None:
        """Sends a request. Returns the error if the shard is lost."""
        connection = self._connection_to(request.remote) if request.attempts == 0 else None
        if connection is None:
            return request.call()
        request.send(connection, next(self._numbers))
        return None

    def collect(self, requests: Sequence[RequestT], wait: Wait) -> list[tuple[RequestT, Any]]:
        """The answers to these requests that come within a moment: their bytes, or errors of Ray."""
        direct = {request.number: request for request in requests if request.connection is not None}
        connections = {request.connection for request in direct.values()}
        calls = {call: request for request in requests for call in request.calls}
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
        if calls:
            answers += _collect_ray_answers(calls, 0.0 if connections else wait.left())
        return answers


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
