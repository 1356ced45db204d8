"""Connections over a Unix socket to shards on the same node. An exchange over a connection costs
both ends tens of microseconds of processor time; a call of Ray costs hundreds.

A connection may break at any moment, or refuse to take a request. The caller then makes a call of
Ray with the same request number, so the shard still works on the request only once.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

# The kernel takes a message whole or not at all, so a request is never left half sent.
KIND = getattr(socket, "SOCK_SEQPACKET", 0)
REQUEST = struct.Struct("<QQQ")  # Number, oldest, incarnation; the request follows.
ANSWER = struct.Struct("<QQQ?QQQ")  # See `Answer`; the part of the blob that fits follows.
MESSAGE_BYTES = 128 << 10  # A socket takes this much in one message by default.
DONE, REFUSED, FAILED = range(3)


def _address(name: str, shard: int, incarnation: int) -> str:
    """An address in Linux's abstract namespace, which leaves nothing to clean up after a SIGKILL.
    The address contains the node, so tests that start several nodes on one machine use Ray between
    them.
    """
    node = ray.get_runtime_context().get_node_id()
    of = f"{node} {name} {shard} {incarnation}"
    return f"\0reprise-{hashlib.blake2b(of.encode(), digest_size=24).hexdigest()}"


def _is_own(connection: socket.socket) -> bool:
    """Whether the other end runs as this user; abstract addresses have no permissions."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return bool(user == os.getuid())


class Listener:
    """The shard's end. One thread serves each client."""

    def __init__(
        self, name: str, shard: int, incarnation: int, exchange: Callable[..., tuple[Any, Any]]
    ) -> None:
        self._exchange = exchange
        self.connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        if sys.platform != "linux":
            return
        self._listener = socket.socket(socket.AF_UNIX, KIND)
        self._listener.bind(_address(name, shard, incarnation))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True, name="reprise.ray listener").start()

    def _accept(self) -> None:
        with self._listener:  # When the socket is closed, clients notice and use Ray.
            while True:
                connection, _ = self._listener.accept()
                if not _is_own(connection):
                    connection.close()
                    continue
                self.connections.add(connection)
                threading.Thread(
                    target=self._serve,
                    args=(connection,),
                    daemon=True,
                    name="reprise.ray connection",
                ).start()

    def _serve(self, connection: socket.socket) -> None:
        memory = memoryview(bytearray(REQUEST.size + MESSAGE_BYTES))
        with connection:
            try:
                client = connection.recv(1024).decode()
                while taken := connection.recv_into(memory):
                    self._answer(connection, client, memory[:taken])
            except OSError:
                return  # The client has gone.

    def _answer(self, connection: socket.socket, client: str, message: memoryview) -> None:
        number, oldest, incarnation = REQUEST.unpack_from(message)
        request = message[REQUEST.size :]
        try:
            info, answer = self._exchange(client, number, oldest, incarnation, request)
        except Exception:
            # The client repeats the request by a call of Ray, which raises the error there.
            connection.send(ANSWER.pack(number, FAILED, 0, False, 0, 0, 0))
            return
        blob = memoryview(b"" if answer is None else answer)
        header = ANSWER.pack(
            number,
            REFUSED if answer is None else DONE,
            info.shard,
            info.closed,
            info.incarnation,
            info.committed,
            len(blob),
        )
        connection.sendmsg([header, blob[:MESSAGE_BYTES]])
        for at in range(MESSAGE_BYTES, len(blob), MESSAGE_BYTES):
            connection.send(blob[at : at + MESSAGE_BYTES])


class Answer:
    """A shard's answer to a request. If `failed`, the client has to ask by Ray. `blob` is None if
    the shard refused the request."""

    def __init__(self, message: memoryview) -> None:
        header = ANSWER.unpack_from(message)
        self.number, state, self.shard, self.closed, self.incarnation, self.committed, size = header
        self.failed = state == FAILED
        self.blob: Any = None
        if state == DONE:
            self.blob = np.empty(size, np.uint8)
        self._got = 0
        self._add(message[ANSWER.size :])

    def _add(self, part: memoryview) -> None:
        if len(part):
            self.blob[: len(part)] = part
            self._got = len(part)

    @property
    def missing(self) -> int:
        return 0 if self.blob is None else len(self.blob) - self._got

    def take(self, connection: socket.socket) -> int:
        taken = connection.recv_into(self.blob[self._got :], min(self.missing, MESSAGE_BYTES))
        self._got += taken
        return taken


class Connection:
    """The client's end. Any thread may send; one thread at a time may take answers."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._memory = memoryview(bytearray(MESSAGE_BYTES + ANSWER.size))
        self._begun: Answer | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, number: int, oldest: int, incarnation: int, request: Any) -> None:
        """Raises BlockingIOError if the socket does not take the request, OSError if the shard is
        gone; nothing was sent then."""
        if len(request) > MESSAGE_BYTES:
            raise BlockingIOError("too large for one message")
        self._socket.sendmsg([REQUEST.pack(number, oldest, incarnation), request])

    def take(self) -> list[Answer]:
        """Returns the answers that have arrived. OSError if the shard is gone."""
        answers: list[Answer] = []
        while True:
            try:
                if self._begun is None:
                    taken = self._socket.recv_into(self._memory)
                    if taken:
                        self._begun = Answer(self._memory[:taken])
                else:
                    taken = self._begun.take(self._socket)
            except BlockingIOError:
                return answers
            if not taken:
                raise ConnectionError("the shard is gone")
            if self._begun is not None and not self._begun.missing:
                answers.append(self._begun)
                self._begun = None


def connect_to(name: str, shard: int, incarnation: int, client: str) -> Connection | None:
    """Returns None if the shard is on another node, or if REPRISE_RAY_DIRECT is 0."""
    if sys.platform != "linux" or os.environ.get("REPRISE_RAY_DIRECT", "1") == "0":
        return None
    connection = socket.socket(socket.AF_UNIX, KIND)
    try:
        connection.setblocking(False)
        connection.connect(_address(name, shard, incarnation))
        if _is_own(connection):
            connection.send(client.encode())
            return Connection(connection)
    except OSError:
        pass
    connection.close()
    return None
