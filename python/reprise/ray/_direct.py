"""Exchanges with a shard on the same node, over a socket of that machine. A call of Ray costs both
ends hundreds of microseconds of processor time, and such an exchange tens.

A line may break at any moment, or refuse to take a request: the caller then makes the call of Ray
with the same number, and the shard works on it once.
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

# A message is taken whole or not at all, so a request never waits half sent.
KIND = getattr(socket, "SOCK_SEQPACKET", 0)
REQUEST = struct.Struct("<QQQ")  # Number, oldest, incarnation; the request follows.
ANSWER = struct.Struct("<QQQ?QQQ")  # See `Answer`; as much of the blob as fits follows.
MESSAGE_BYTES = 128 << 10  # Below what a socket takes in one message by default.
DONE, REFUSED, FAILED = range(3)


def _address(name: str, shard: int, incarnation: int) -> str:
    """In Linux's abstract namespace: nothing to clean up after a SIGKILL. The node is a part of it,
    so that tests with several nodes on a machine use Ray between them."""
    node = ray.get_runtime_context().get_node_id()
    of = f"{node} {name} {shard} {incarnation}"
    return f"\0reprise-{hashlib.blake2b(of.encode(), digest_size=24).hexdigest()}"


def _is_own(line: socket.socket) -> bool:
    """Whether the other end is of this user; the namespace has no permissions."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(user == os.getuid())


class Listener:
    """The end of a shard: a thread for each client."""

    def __init__(
        self, name: str, shard: int, incarnation: int, exchange: Callable[..., tuple[Any, Any]]
    ) -> None:
        self._exchange = exchange
        self.lines: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        if sys.platform != "linux":
            return
        self._listener = socket.socket(socket.AF_UNIX, KIND)
        self._listener.bind(_address(name, shard, incarnation))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True, name="reprise.ray listener").start()

    def _accept(self) -> None:
        with self._listener:  # Once this has ended, clients see it and ask by Ray.
            while True:
                line, _ = self._listener.accept()
                if not _is_own(line):
                    line.close()
                    continue
                self.lines.add(line)
                threading.Thread(
                    target=self._serve, args=(line,), daemon=True, name="reprise.ray line"
                ).start()

    def _serve(self, line: socket.socket) -> None:
        room = memoryview(bytearray(REQUEST.size + MESSAGE_BYTES))
        with line:
            try:
                client = line.recv(1024).decode()
                while taken := line.recv_into(room):
                    self._answer(line, client, room[:taken])
            except OSError:
                return  # The client has ended.

    def _answer(self, line: socket.socket, client: str, message: memoryview) -> None:
        number, oldest, incarnation = REQUEST.unpack_from(message)
        request = message[REQUEST.size :]
        try:
            facts, answer = self._exchange(client, number, oldest, incarnation, request)
        except Exception:
            # The call of Ray that follows raises it where the caller sees it.
            line.send(ANSWER.pack(number, FAILED, 0, False, 0, 0, 0))
            return
        blob = memoryview(b"" if answer is None else answer)
        head = ANSWER.pack(
            number,
            REFUSED if answer is None else DONE,
            facts.shard,
            facts.closed,
            facts.incarnation,
            facts.committed,
            len(blob),
        )
        line.sendmsg([head, blob[:MESSAGE_BYTES]])
        for at in range(MESSAGE_BYTES, len(blob), MESSAGE_BYTES):
            line.send(blob[at : at + MESSAGE_BYTES])


class Answer:
    """What a shard says to a request. `failed`: ask by Ray. `blob`: None if it was refused."""

    def __init__(self, message: memoryview) -> None:
        head = ANSWER.unpack_from(message)
        self.number, state, self.shard, self.closed, self.incarnation, self.committed, size = head
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

    def take(self, line: socket.socket) -> int:
        taken = line.recv_into(self.blob[self._got :], min(self.missing, MESSAGE_BYTES))
        self._got += taken
        return taken


class Line:
    """The end of a client. Any thread may send, one at a time may take."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._room = memoryview(bytearray(MESSAGE_BYTES + ANSWER.size))
        self._begun: Answer | None = None

    def fileno(self) -> int:
        return self._line.fileno()

    def send(self, number: int, oldest: int, incarnation: int, request: Any) -> None:
        """Sends nothing if it raises: BlockingIOError if the request is not taken, OSError once the
        shard is gone."""
        if len(request) > MESSAGE_BYTES:
            raise BlockingIOError("too large for one message")
        self._line.sendmsg([REQUEST.pack(number, oldest, incarnation), request])

    def take(self) -> list[Answer]:
        """The answers that are there. OSError once the shard is gone."""
        answers: list[Answer] = []
        while True:
            try:
                if self._begun is None:
                    taken = self._line.recv_into(self._room)
                    if taken:
                        self._begun = Answer(self._room[:taken])
                else:
                    taken = self._begun.take(self._line)
            except BlockingIOError:
                return answers
            if not taken:
                raise ConnectionError("the shard is gone")
            if self._begun is not None and not self._begun.missing:
                answers.append(self._begun)
                self._begun = None


def line_to(name: str, shard: int, incarnation: int, client: str) -> Line | None:
    """None if that shard is on another node, or REPRISE_RAY_DIRECT is 0."""
    if sys.platform != "linux" or os.environ.get("REPRISE_RAY_DIRECT", "1") == "0":
        return None
    line = socket.socket(socket.AF_UNIX, KIND)
    try:
        line.setblocking(False)
        line.connect(_address(name, shard, incarnation))
        if _is_own(line):
            line.send(client.encode())
            return Line(line)
    except OSError:
        pass
    line.close()
    return None
