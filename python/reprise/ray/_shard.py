"""The actor of one shard: an in-process buffer, and the calls that other processes make."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ray

import reprise

from ._checkpoint import kept_with, load_shard, shard_directory
from ._connection import Listener
from ._coordinator import Counts
from ._local import Local
from ._options import NAMESPACE, Spec

HEARTBEAT_SECONDS = 0.5  # Between two reports to the coordinator.
ROOM_SECONDS = 0.05  # The longest that an append waits for room, because others wait behind it.
MOST_KEPT = 1000  # The most checkpoints that an in-process buffer keeps.
CREDIT_SECONDS = 0.5  # How long an append waits for the coordinator, as others wait behind it.
FORGET_SECONDS = 60.0  # A client that was silent for so long is forgotten.


class ShardInfo(NamedTuple):
    """The state of a shard, which each of its answers carries."""

    shard: int
    incarnation: int
    committed: int  # The number of committed steps.
    closed: bool


class Shipment(NamedTuple):
    """Steps of one remote writer."""

    writer: int
    steps: int
    blob: Any  # None if the writer is closed.


class NoWriter(RuntimeError):
    """`max_writers` remote writers are open already."""


class _ClientAnswers:
    """The answers that a client has not acknowledged, by number, and when it last asked."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.oldest = 0
        self.heard = 0.0


class Shard:
    """Calls may come late or twice, because a client that waited too long sends them again:

    - S1: the shard works once on each request, by its number. It keeps the answer until a later
      request says that the client has it. A request for an earlier incarnation is refused, because
      its keys may belong to a buffer that is gone.
    - S2: the shard appends each shipment once (`reprise.ReplayShard`). A shipment for an earlier
      incarnation is refused, because a checkpoint of that incarnation may contain it already.
    """

    def __init__(self, index: int, spec: Spec, start: str | None) -> None:
        # Found by name: a handle would be an argument in the object store, which may be lost before
        # a restart.
        coordinator = ray.get_actor(f"{spec.name}.coordinator", namespace=NAMESPACE)
        self._index, self._spec, self._coordinator = index, spec, coordinator
        self._lock = threading.Lock()  # Guards _answers.
        self._append_lock = threading.Lock()  # Keeps the shipments of one call together.
        # Clients, those that were silent for the longest time first.
        self._answers: OrderedDict[str, _ClientAnswers] = OrderedDict()
        # The process of each remote writer that is open here.
        self._writers: dict[int, str] = {}
        self._heard: dict[str, float] = {}  # When each process was last heard of.
        # The credit that a writer's oldest shipment has taken, if it has not been appended yet.
        self._counted: dict[int, int] = {}
        self._restarted = self._closed_writers = 0
        self._counts = Counts()
        self._ended = threading.Event()
        known = ray.get(coordinator.starting_state.remote(index), timeout=30)
        # Higher than all earlier ones, even if the clocks of nodes differ.
        self.incarnation = max(time.time_ns(), known["before"] + 1)
        again = known["again"]
        self._checkpoints = known["checkpoints"] or start
        self._note = ""
        self._buffer = self._load(again)
        self._replay_shard = reprise.ReplayShard(
            self._buffer, seed=self.incarnation % (1 << 63), incarnation=self.incarnation
        )
        self._loaded = self._committed()
        if known["closed"]:
            self._buffer.close()
        started = coordinator.started.remote(index, self.incarnation, self._loaded, self._note)
        ray.get(started, timeout=30)
        self._listener = Listener(spec.name, index, self.incarnation, self.exchange)
        threading.Thread(target=self._heartbeat, daemon=True, name="reprise.ray heartbeat").start()

    def _load(self, again: bool) -> reprise.ReplayBuffer:
        if self._checkpoints is not None:
            try:
                return load_shard(self._checkpoints, self._index, newest=again)
            except (reprise.CheckpointError, OSError, ValueError) as error:
                if not again:
                    raise
                # An empty shard is more useful than one that cannot start.
                self._note = f"shard {self._index} came back empty: {error}"
        return self._spec.buffer(self._index)

    def _committed(self) -> int:
        return int(self._buffer.stats()["committed_steps"])

    def info(self) -> ShardInfo:
        return ShardInfo(self._index, self.incarnation, self._committed(), self._buffer.closed)

    def exchange(
        self, client: str, number: int, oldest: int, incarnation: int, request: Any
    ) -> tuple[ShardInfo, Any]:
        """Returns the answer to a request, or None for one of another incarnation. `oldest`: the
        smallest number whose answer the client does not have."""
        with self._lock:
            kept, oldest = self._kept(client, oldest)
            answer = kept.get(number)
            # A late call whose repetition was answered is not worked on again.
            current = (
                number >= oldest
                and incarnation in (0, self.incarnation)
                and not self._buffer.closed
            )
            if answer is None and current:
                answer = kept[number] = self._replay_shard.exchange(request)
        return self.info(), answer

    def _kept(self, client: str, oldest: int) -> tuple[dict[int, Any], int]:
        """Forgets a client's answers before `oldest`; returns the others, and the highest `oldest`
        that the client has sent."""
        state = self._answers.setdefault(client, _ClientAnswers())
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
    ) -> tuple[ShardInfo, list[BaseException | None]]:
        """Appends shipments. Returns for each None, or the error because of which it has to be sent
        again. The list ends where the rate limiter has no credit for the next shipment, and is
        empty for another incarnation. A call without shipments is a heartbeat."""
        outcomes: list[BaseException | None] = []
        self._heard[process] = time.monotonic()  # First, because the call may wait for the lock.
        with self._append_lock:
            self._close_silent(max(FORGET_SECONDS, 10 * self._spec.answer_timeout))
            if not self._buffer.closed and incarnation in (0, self.incarnation):
                refused: dict[int, BaseException] = {}
                for one, steps in self._admitted(process, shipments):
                    outcome = refused.get(one.writer)
                    if outcome is not None:
                        self._return_credit(steps)  # An earlier shipment of its writer was refused.
                    else:
                        outcome = self._append(process, one, steps)
                    if outcome is not None:
                        refused[one.writer] = outcome
                    outcomes.append(outcome)
        return self.info(), outcomes

    def _admitted(self, process: str, shipments: Sequence[Shipment]) -> list[tuple[Shipment, int]]:
        """The first shipments, as far as there is credit, each with the credit taken now."""
        counted, sizes = dict(self._counted), []
        for one in shipments:
            sizes.append(0 if counted.pop(one.writer, 0) else one.steps)
        return list(zip(shipments[: self._take_credit(process, sizes)], sizes))

    def _append(self, process: str, one: Shipment, counted: int) -> BaseException | None:
        if one.blob is None:
            self._writers.pop(one.writer, None)
            self._close(one.writer)
            return None
        counted += self._counted.pop(one.writer, 0)
        try:
            appended = self._append_blob(one)
        except Exception as error:
            self._counted[one.writer] = counted
            return error
        if not appended.repeated:
            self._writers[one.writer] = process
        self._restarted += appended.restarted
        if counted:
            self._return_credit(counted - appended.steps)  # For repeated or missing steps.
        return None

    def _append_blob(self, one: Shipment) -> Any:
        while True:
            try:
                return self._replay_shard.append(one.blob, timeout=ROOM_SECONDS)
            except RuntimeError as error:
                if self._buffer.closed:
                    raise
                if not self._close_silent(self._spec.answer_timeout):
                    raise NoWriter(str(error)) from None

    def _close_silent(self, seconds: float) -> int:
        """Closes the writers of processes that were silent for so long. A process that is killed
        does not close its own. Returns how many it closed."""
        before = len(self._writers)
        end = time.monotonic() - seconds
        for process, heard in list(self._heard.items()):
            if heard > end:
                continue
            del self._heard[process]
            for writer in [one for one, user in self._writers.items() if user == process]:
                del self._writers[writer]
                self._close(writer)
        closed = before - len(self._writers)
        self._closed_writers += closed
        return closed

    def _close(self, writer: int) -> None:
        self._return_credit(self._counted.pop(writer, 0))
        self._replay_shard.close_writer(writer)

    def _take_credit(self, who: str, sizes: list[int]) -> int:
        """Takes credit from the coordinator for the first shipments; returns for how many."""
        if not self._spec.rate_limiter_holds_writers or not any(sizes):
            return len(sizes)
        answer = self._coordinator.insert.remote(
            self._index, self.incarnation, who, sizes, len(self._buffer), self._counts
        )
        try:
            granted, counts = ray.get(answer, timeout=CREDIT_SECONDS)
        except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
            # The coordinator is away, and may work on this call later. The next call asks again.
            self._coordinator.undo_inserted.remote(answer, sizes)
            return 0
        self._counts = max(self._counts, counts)
        return int(granted)

    def _return_credit(self, steps: int) -> None:
        if steps and self._spec.rate_limiter_holds_writers:
            self._coordinator.return_credit.remote(steps)

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
        """Saves this shard. `oldest`: the first checkpoint of each shard that has to stay."""
        where = shard_directory(directory, self._index)
        keep = min(MOST_KEPT, kept_with(where, oldest[self._index]))
        saved = self._buffer.save(where, keep=keep, **options)
        self._checkpoints = directory
        return saved

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Calls the user's function with the in-process buffer, beside the other calls."""
        if self._spec.rate_limiter_holds_writers:
            local = Local(
                self._buffer,
                lambda who, steps: self._take_credit(f"{self._index} {who}", [steps]) == 1,
                self._return_credit,
                self._spec,
            )
            return function(local, self._index, *arguments)
        return function(self._buffer, self._index, *arguments)

    def set_alpha(self, alpha: float, selector: int) -> None:
        self._buffer.selector(selector).set_alpha(alpha)

    def decay(self, factor: float, selector: int) -> None:
        self._buffer.selector(selector).decay(factor)

    def close(self) -> None:
        self._buffer.close()
        self._ended.set()

    def _heartbeat(self) -> None:
        """Reports steps, to count losses, and counts, in case the coordinator was restarted."""
        while not self._ended.wait(HEARTBEAT_SECONDS):
            stats = self._buffer.stats()
            try:
                report = self._coordinator.heartbeat.remote(
                    self._index,
                    self.incarnation,
                    stats["committed_steps"],
                    self._loaded,
                    len(self._buffer),
                    self._checkpoints,
                    self._counts,
                )
                closed, counts = ray.get(report, timeout=5)
                self._counts = max(self._counts, counts)
                if closed:
                    self._buffer.close()
            except ray.exceptions.RayError:
                continue  # The coordinator is being restarted.
