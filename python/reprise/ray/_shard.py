"""The actor that holds one shard: an in-process buffer, and what other processes may ask of it."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ray

import reprise

from ._checkpoint import load_shard, shard_directory
from ._direct import Listener
from ._local import Local
from ._options import NAMESPACE, Spec

BEAT_SECONDS = 0.5  # Between two reports to the head.
FORGET_SECONDS = 60.0  # A client that has asked nothing for so long asks nothing again.


class Facts(NamedTuple):
    """What each answer says about its shard."""

    shard: int
    incarnation: int
    committed: int  # Steps.
    closed: bool


class Shipment(NamedTuple):
    """Steps of one remote writer."""

    writer: int
    steps: int
    blob: Any  # None: the writer is closed.


class _Kept:
    """What a client was answered, by number, and when it asked last."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.oldest = 0
        self.heard = 0.0


class Shard:
    """Calls may come late or twice, as a client that waited too long asks again. Numbers decide:

    - S1: a request of a client is worked on once. Its answer is kept until the client says, with a
      later request, that it has it. One that was made for an earlier incarnation is refused, as its
      keys may be of a buffer that is gone.
    - S2: a shipment is appended once (`reprise.ReplayShard`). One that an earlier incarnation was
      sent is refused, because a checkpoint of that one may have it already.
    """

    def __init__(self, index: int, spec: Spec, start: str | None) -> None:
        # By its name: a handle would be an argument in an object store, which a restart may miss.
        head = ray.get_actor(f"{spec.name}.head", namespace=NAMESPACE)
        self._index, self._spec, self._head = index, spec, head
        self.incarnation = time.time_ns()
        self._lock = threading.Lock()  # Guards _answers.
        self._append_lock = threading.Lock()  # Keeps shipments of a call together.
        self._answers: OrderedDict[str, _Kept] = OrderedDict()  # The least recent client first.
        self._writers: OrderedDict[int, None] = OrderedDict()  # The least recent first.
        self._faults: deque[tuple[str, float]] = deque()
        self._ended = threading.Event()
        known = ray.get(head.hello.remote(index), timeout=30)
        again = known["again"]
        self._checkpoints = known["checkpoints"] or start
        self._note = ""
        self._buffer = self._load(again)
        self._served = reprise.ReplayShard(
            self._buffer, seed=self.incarnation % (1 << 63), incarnation=self.incarnation
        )
        self._loaded = self._committed()
        if known["closed"]:
            self._buffer.close()
        started = head.started.remote(index, self.incarnation, self._loaded, self._note)
        ray.get(started, timeout=30)
        self._listener = Listener(spec.name, index, self.incarnation, self.exchange)
        threading.Thread(target=self._beat, daemon=True, name="reprise.ray beat").start()

    def _load(self, again: bool) -> reprise.ReplayBuffer:
        if self._checkpoints is not None:
            try:
                return load_shard(self._checkpoints, self._index, newest=again)
            except (reprise.CheckpointError, OSError, ValueError) as error:
                if not again:
                    raise
                # An empty shard serves better than one that cannot start.
                self._note = f"shard {self._index} came back empty: {error}"
        return self._spec.buffer(self._index)

    def _committed(self) -> int:
        return int(self._buffer.stats()["committed_steps"])

    def facts(self) -> Facts:
        return Facts(self._index, self.incarnation, self._committed(), self._buffer.closed)

    def exchange(
        self, client: str, number: int, oldest: int, incarnation: int, request: Any
    ) -> tuple[Facts, Any]:
        """Answers a request; None for one of another incarnation. `oldest`: the first number whose
        answer the client does not have."""
        with self._lock:
            kept, oldest = self._kept(client, oldest)
            answer = kept.get(number)
            # A call that is late, behind the answer to its repetition, is not done once more.
            right = (
                number >= oldest
                and incarnation in (0, self.incarnation)
                and not self._buffer.closed
            )
            if answer is None and right:
                answer = kept[number] = self._served.exchange(request)
        facts = self.facts()
        self._suffer("exchange")
        return facts, answer

    def _kept(self, client: str, oldest: int) -> tuple[dict[int, Any], int]:
        """A client's answers from `oldest` on, and the highest `oldest` that it ever named."""
        state = self._answers.setdefault(client, _Kept())
        self._answers.move_to_end(client)
        state.heard = time.monotonic()
        oldest = state.oldest = max(state.oldest, oldest)
        for one in [one for one in state.answers if one < oldest]:
            del state.answers[one]
        longest = max(FORGET_SECONDS, 10 * self._spec.answer_timeout)
        while next(iter(self._answers.values())).heard < state.heard - longest:
            self._answers.popitem(last=False)
        return state.answers, oldest

    def append(self, incarnation: int, shipments: Sequence[Shipment]) -> tuple[Facts, int]:
        """Facts, and how many shipments are done with: none if `incarnation` is another one, and
        those only for which the rate limiter has room."""
        done = 0
        with self._append_lock:
            if not self._buffer.closed and incarnation in (0, self.incarnation):
                room = self._room([one.steps for one in shipments])
                for one in shipments[:room]:
                    self._append(one)
                    done += 1
        facts = self.facts()
        self._suffer("append")
        return facts, done

    def _append(self, one: Shipment) -> None:
        self._writers[one.writer] = None
        self._writers.move_to_end(one.writer)
        if one.blob is None:
            del self._writers[one.writer]
            self._served.close_writer(one.writer)
            return
        while True:
            try:
                done = self._served.append(one.blob, timeout=self._spec.answer_timeout)
                break
            except RuntimeError:
                # Too many writers: those of processes that were killed are never closed by them.
                if self._buffer.closed or len(self._writers) < 2:
                    raise
                self._served.close_writer(self._writers.popitem(last=False)[0])
        if self._spec.rate_limiter_holds_writers and done.steps != one.steps:
            # It came twice, or a part of it has no place here.
            self._head.give_room.remote(one.steps - done.steps)

    def _room(self, sizes: list[int]) -> int:
        """How many of these shipments the rate limiter lets in, which the head counts."""
        if not self._spec.rate_limiter_holds_writers:
            return len(sizes)
        answer = self._head.insert.remote(self._index, sizes, len(self._buffer))
        try:
            return int(ray.get(answer, timeout=self._spec.answer_timeout))
        except ray.exceptions.GetTimeoutError:
            return 0  # The head is away: asked again with the next call.

    def size(self) -> int:
        return len(self._buffer)

    def stats(self) -> dict[str, Any]:
        return {
            **self._buffer.stats(),
            "incarnation": self.incarnation,
            "loaded_steps": self._loaded,
            "pid": os.getpid(),
        }

    def save(self, directory: str, options: dict[str, Any]) -> reprise.SaveResult:
        where = shard_directory(directory, self._index)
        done = self._buffer.save(where, **options)
        self._checkpoints = directory
        return done

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Calls a function of the user beside the other calls, with the in-process buffer."""
        if self._spec.rate_limiter_holds_writers:
            local = Local(
                self._buffer,
                lambda steps: self._room([steps]) == 1,
                self._head.give_room.remote,
                self._spec,
            )
            return function(local, self._index, *arguments)
        return function(self._buffer, self._index, *arguments)

    def set_alpha(self, alpha: float, selector: int) -> None:
        self._buffer.set_alpha(alpha, selector)

    def decay(self, factor: float, selector: int) -> None:
        self._buffer.decay(factor, selector)

    def close(self) -> None:
        self._buffer.close()
        self._ended.set()

    def fault(self, call: str, seconds: float, times: int = 1) -> None:
        """For tests: the next answers of a call come so much later, though its work is done. This
        replaces what was planted before."""
        self._faults = deque([(call, seconds)] * times)

    def _suffer(self, call: str) -> None:
        for planted in list(self._faults):
            if planted[0] == call:
                self._faults.remove(planted)
                self._ended.wait(planted[1])
                return

    def _beat(self) -> None:
        """Tells the head what it needs to count losses, and the sums in case it is a new one."""
        while not self._ended.wait(BEAT_SECONDS):
            stats = self._buffer.stats()
            try:
                told = self._head.beat.remote(
                    self._index,
                    self.incarnation,
                    stats["committed_steps"],
                    len(self._buffer),
                    self._checkpoints,
                )
                if ray.get(told, timeout=5):
                    self._buffer.close()
            except ray.exceptions.RayError:
                continue  # The head is being restarted.
