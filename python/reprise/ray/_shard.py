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

from ._checkpoint import kept_with, load_shard, shard_directory
from ._direct import Listener
from ._head import Sums
from ._local import Local
from ._options import NAMESPACE, Spec

BEAT_SECONDS = 0.5  # Between two reports to the head.
JAM_SECONDS = 0.05  # How long an append may wait for room, as others wait behind it.
MOST_KEPT = 1000  # Checkpoints; the most that an in-process buffer keeps.
HEAD_SECONDS = 0.5  # How long an append waits for the head, as others wait behind it.
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


class NoWriter(RuntimeError):
    """A remote writer that `max_writers` leaves no place for, unless others are closed."""


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
        self._lock = threading.Lock()  # Guards _answers.
        self._append_lock = threading.Lock()  # Keeps shipments of a call together.
        self._answers: OrderedDict[str, _Kept] = OrderedDict()  # The least recent client first.
        # The process of each remote writer that is open here, and when each process was heard last.
        self._writers: dict[int, str] = {}
        self._heard: dict[str, float] = {}  # When each process was heard of last.
        # Writers whose oldest shipment is not in yet, and the steps that were counted for it.
        self._counted: dict[int, int] = {}
        self._restarted = self._closed_writers = 0
        self._sums = Sums()
        self._faults: deque[tuple[str, float]] = deque()
        self._ended = threading.Event()
        known = ray.get(head.hello.remote(index), timeout=30)
        # Above those before, though clocks of nodes differ.
        self.incarnation = max(time.time_ns(), known["before"] + 1)
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

    def append(
        self, process: str, incarnation: int, shipments: Sequence[Shipment]
    ) -> tuple[Facts, list[BaseException | None]]:
        """Facts, and for each shipment None or the error because of which it has to come again. The
        rate limiter has no room for the last ones, of which nothing is said; nor is anything if
        `incarnation` is another one. A call without shipments says that the process lives."""
        outcomes: list[BaseException | None] = []
        self._heard[process] = time.monotonic()  # Also while others hold the lock.
        with self._append_lock:
            self._close_silent(max(FORGET_SECONDS, 10 * self._spec.answer_timeout))
            if not self._buffer.closed and incarnation in (0, self.incarnation):
                refused: dict[int, BaseException] = {}
                for one, steps in self._let_in(process, shipments):
                    outcome = refused.get(one.writer)
                    if outcome is not None:
                        self._give_room(steps)  # Its place is behind the one that was refused.
                    else:
                        outcome = self._append(process, one, steps)
                    if outcome is not None:
                        refused[one.writer] = outcome
                    outcomes.append(outcome)
        facts = self.facts()
        self._suffer("append")
        return facts, outcomes

    def _let_in(self, process: str, shipments: Sequence[Shipment]) -> list[tuple[Shipment, int]]:
        """Those that the rate limiter has room for, with the steps that it counted for each now."""
        counted, sizes = dict(self._counted), []
        for one in shipments:
            sizes.append(0 if counted.pop(one.writer, 0) else one.steps)
        return list(zip(shipments[: self._room(process, sizes)], sizes))

    def _append(self, process: str, one: Shipment, counted: int) -> BaseException | None:
        if one.blob is None:
            self._writers.pop(one.writer, None)
            self._close(one.writer)
            return None
        counted += self._counted.pop(one.writer, 0)
        try:
            done = self._served_append(one)
        except Exception as error:
            self._counted[one.writer] = counted
            return error
        if not done.repeated:
            self._writers[one.writer] = process
        self._restarted += done.restarted
        if counted:
            self._give_room(counted - done.steps)  # It came twice, or a part has no place here.
        return None

    def _served_append(self, one: Shipment) -> Any:
        while True:
            try:
                return self._served.append(one.blob, timeout=JAM_SECONDS)
            except RuntimeError as error:
                if self._buffer.closed:
                    raise
                if not self._close_silent(self._spec.answer_timeout):
                    raise NoWriter(str(error)) from None

    def _close_silent(self, seconds: float) -> int:
        """Closes the writers of processes that have not been heard of for so long, as those that
        were killed close none. Returns how many there were."""
        before = len(self._writers)
        end = time.monotonic() - seconds
        for process, heard in list(self._heard.items()):
            if heard > end:
                continue
            del self._heard[process]
            for writer in [one for one, its in self._writers.items() if its == process]:
                del self._writers[writer]
                self._close(writer)
        closed = before - len(self._writers)
        self._closed_writers += closed
        return closed

    def _close(self, writer: int) -> None:
        self._give_room(self._counted.pop(writer, 0))
        self._served.close_writer(writer)

    def _room(self, who: str, sizes: list[int]) -> int:
        """How many of these shipments the rate limiter lets in, which the head counts."""
        if not self._spec.rate_limiter_holds_writers or not any(sizes):
            return len(sizes)
        answer = self._head.insert.remote(
            self._index, self.incarnation, who, sizes, len(self._buffer), self._sums
        )
        try:
            done, sums = ray.get(answer, timeout=HEAD_SECONDS)
        except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
            # The head is away: asked again with the next call. This one it may work on later.
            self._head.undo_inserted.remote(answer, sizes)
            return 0
        self._sums = max(self._sums, sums)
        return int(done)

    def _give_room(self, steps: int) -> None:
        if steps and self._spec.rate_limiter_holds_writers:
            self._head.give_room.remote(steps)

    def size(self) -> int:
        return len(self._buffer)

    def stats(self) -> dict[str, Any]:
        return {
            **self._buffer.stats(),
            "incarnation": self.incarnation,
            "loaded_steps": self._loaded,
            "restarted_episodes": self._restarted,
            "silent_writers_closed": self._closed_writers,
            "pid": os.getpid(),
        }

    def save(
        self, directory: str, oldest: Sequence[int], options: dict[str, Any]
    ) -> reprise.SaveResult:
        """`oldest`: the first checkpoint of each shard that has to stay."""
        where = shard_directory(directory, self._index)
        keep = min(MOST_KEPT, kept_with(where, oldest[self._index]))
        done = self._buffer.save(where, keep=keep, **options)
        self._checkpoints = directory
        return done

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Calls a function of the user beside the other calls, with the in-process buffer."""
        if self._spec.rate_limiter_holds_writers:
            local = Local(
                self._buffer,
                lambda who, steps: self._room(f"{self._index} {who}", [steps]) == 1,
                self._give_room,
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
                    self._loaded,
                    len(self._buffer),
                    self._checkpoints,
                    self._sums,
                )
                closed, sums = ray.get(told, timeout=5)
                self._sums = max(self._sums, sums)
                if closed:
                    self._buffer.close()
            except ray.exceptions.RayError:
                continue  # The head is being restarted.
