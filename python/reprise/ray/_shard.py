"""The actor of one shard: an in-process buffer, and the calls that other processes make."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ray

import reprise

from ._checkpoint import keep_count, load_shard, shard_directory
from ._coordinator import Counts
from ._local import Local
from ._options import NAMESPACE, Spec

log = logging.getLogger("reprise.ray")

HEARTBEAT_SECONDS = 0.5  # Between two reports to the coordinator.
APPEND_WAIT_SECONDS = 0.05  # The longest that an append waits for room: others wait meanwhile.
MAX_KEPT = 1000  # The most checkpoints that an in-process buffer keeps.
CREDIT_SECONDS = 0.5  # The longest that an append waits for the coordinator.
FORGET_SECONDS = 60.0  # A client that was silent for this long is forgotten.


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


# The errors by the numbers of outcomes in `ReplayShard.outcomes_of`; 0 is success, and a number
# beyond these any other error.
OUTCOMES = (None, TimeoutError, NoWriter, reprise.Closed, ValueError, OSError, MemoryError)


def error_of(outcome: int, reason: str) -> BaseException | None:
    """The error for an outcome of `ReplayShard.outcomes_of`; None if the shipment was appended."""
    kind = OUTCOMES[outcome] if outcome < len(OUTCOMES) else RuntimeError
    return None if kind is None else kind(reason)


def parse_answer(shard: int, answer: Any) -> tuple[ShardInfo, bool]:
    """The state of a shard, from its answer, and whether the shard did what it was asked."""
    incarnation, committed, closed, done = reprise.ReplayShard.state_of(answer)
    return ShardInfo(shard, incarnation, committed, closed), done


LARGEST = ("version", "longest", "waiting_for")  # Numbers in `stats` that are not added up.
OWN = ("incarnation", "loaded_steps", "pid")  # Numbers that mean nothing for several shards.


def sums_of(stats: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums of the numbers in `stats` of several shards, also in dicts of waits; of LARGEST the
    largest number, and nothing of OWN."""
    sums: dict[str, Any] = {}
    for of_shard in stats:
        for name, value in of_shard.items():
            if isinstance(value, dict):
                sums[name] = sums_of([sums.get(name, {}), value])
            elif name in LARGEST:
                sums[name] = max(sums.get(name, 0), value)
            elif isinstance(value, (int, float)) and name not in OWN:
                sums[name] = sums.get(name, 0) + value
    return sums


class Shard:
    """Calls may come late or twice, by Ray or over a connection: `reprise.ReplayShard` works on each
    request and on each shipment once, and refuses those for an earlier incarnation."""

    def __init__(self, index: int, spec: Spec, start: str | None) -> None:
        # Looked up by name: a handle would be an argument in the object store, which may be lost
        # before a restart needs it.
        coordinator = ray.get_actor(f"{spec.name}.coordinator", namespace=NAMESPACE)
        self._index, self._spec, self._coordinator = index, spec, coordinator
        self._append_lock = threading.Lock()  # Guards _held_credit.
        # For a writer whose oldest shipment was refused after it had taken credit: how many steps
        # of credit, and the writer's process.
        self._held_credit: dict[int, tuple[int, int]] = {}
        self._counts = Counts()
        self._ended = threading.Event()
        state = ray.get(coordinator.starting_state.remote(index), timeout=30)
        # Higher than all earlier incarnations, even if the clocks of nodes differ.
        self.incarnation = max(time.time_ns(), state["last_incarnation"] + 1)
        self._checkpoints = state["checkpoints"] or start
        self._note = ""  # What went wrong at the start, for the coordinator.
        self._buffer = self._load(state["restarted"])
        self._replay_shard = reprise.ReplayShard(
            self._buffer,
            seed=self.incarnation % (1 << 63),
            incarnation=self.incarnation,
            silent=spec.answer_timeout,
            forgotten=max(FORGET_SECONDS, 10 * spec.answer_timeout),
        )
        self._local = Local(
            self._buffer,
            lambda steps: self._take_credit(f"{self._index} run", [steps]) == 1,
            self._return_credit,
            spec,
        )
        self._loaded = self._committed()
        if state["closed"]:
            self._buffer.close()
        started = coordinator.started.remote(index, self.incarnation, self._loaded, self._note)
        ray.get(started, timeout=30)
        with contextlib.suppress(OSError):  # Without a host all calls come by Ray.
            self._host = self._replay_shard.share(spec.address(index, self.incarnation))
        threading.Thread(target=self._heartbeat, daemon=True, name="reprise.ray heartbeat").start()

    def _load(self, restarted: bool) -> reprise.ReplayBuffer:
        """The buffer of the checkpoint if there is one, else an empty one. If the shard
        `restarted`, a checkpoint that cannot be loaded is no error."""
        if self._checkpoints is not None:
            try:
                storage = self._spec.options.get("storage")
                return load_shard(self._checkpoints, self._index, restarted, storage)
            except (reprise.CheckpointError, OSError, ValueError) as error:
                if not restarted:
                    raise
                # An empty shard is more useful than one that cannot start.
                self._note = f"shard {self._index} came back empty: {error}"
        return self._spec.buffer(self._index)

    def _committed(self) -> int:
        return int(self._buffer.stats()["committed_steps"])

    def info(self) -> ShardInfo:
        return ShardInfo(self._index, self.incarnation, self._committed(), self._buffer.closed)

    def exchange(self, request: Any) -> Any:
        """Returns the answer to a request of a client."""
        return self._replay_shard.exchange(request)

    def append(
        self, who: str, process: int, call: Any, shipments: Sequence[tuple[int, int]]
    ) -> Any:
        """Appends the shipments of a process's call. Returns the answer, with the outcomes of the
        first shipments, as far as the rate limiter had credit. `shipments`: the writer and the steps
        of each. `who`: the process at the coordinator; `process`: its number in the call."""
        if not self._spec.rate_limiter_holds_writers:
            return self._replay_shard.append_all(call, timeout=APPEND_WAIT_SECONDS)
        # Before the lock: while this call waits for the lock, the process must not count as silent.
        self._replay_shard.note_alive(process)
        with self._append_lock:
            # A writer's first shipment takes no credit if it did so before it was refused.
            held, sizes = set(self._held_credit), []
            for writer, steps in shipments:
                sizes.append(0 if writer in held else steps)
                held.discard(writer)
            granted = self._take_credit(who, sizes)
            answer = self._replay_shard.append_all(call, timeout=APPEND_WAIT_SECONDS, most=granted)
            self._return_unused_credit(process, shipments, sizes[:granted], answer)
        return answer

    def _return_unused_credit(
        self, process: int, shipments: Sequence[tuple[int, int]], sizes: list[int], answer: Any
    ) -> None:
        """Gives back credit that these shipments did not use, but holds that of a writer's first
        refused shipment, which comes again. `sizes`: the credit that each took in this call."""
        done = parse_answer(self._index, answer)[1]
        outcomes = self._replay_shard.outcomes_of(answer) if done else []
        unused, refused = sum(sizes[len(outcomes) :]), set()
        for (writer, _), size, (outcome, steps, _) in zip(shipments, sizes, outcomes):
            if writer in refused:
                unused += size
                continue
            left = size + self._held_credit.pop(writer, (0, 0))[0] - steps
            if outcome:
                refused.add(writer)
                self._held_credit[writer] = left, process
            else:
                unused += left  # Not 0 if the shipment came twice, and appended nothing now.
        self._return_credit(unused)

    def _forget_silent(self) -> None:
        """Gives back the credit held for processes that are gone."""
        with self._append_lock:
            for writer, (steps, process) in list(self._held_credit.items()):
                if self._replay_shard.is_silent(process):
                    del self._held_credit[writer]
                    self._return_credit(steps)

    def _take_credit(self, who: str, sizes: list[int]) -> int:
        """Takes credit for as many of the first shipments as possible; returns for how many."""
        if not self._spec.rate_limiter_holds_writers or not any(sizes):
            return len(sizes)
        answer = self._coordinator.insert.remote(
            self._index, self.incarnation, who, sizes, len(self._buffer), self._counts
        )
        try:
            granted, counts = ray.get(answer, timeout=CREDIT_SECONDS)
        except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
            # The coordinator is being restarted or is late, and may work on this call later.
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
            **self._replay_shard.deliveries,
            "pid": os.getpid(),
        }

    def save(
        self, directory: str, oldest: Sequence[int], options: dict[str, Any]
    ) -> reprise.SaveResult:
        """Saves this shard. `oldest`: for each shard the number of the first checkpoint to keep."""
        where = shard_directory(directory, self._index)
        keep = min(MAX_KEPT, keep_count(where, oldest[self._index]))
        saved = self._buffer.save(where, keep=keep, **options)
        self._checkpoints = directory
        return saved

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Calls the user's function with the in-process buffer, beside the other calls."""
        if not self._spec.rate_limiter_holds_writers:
            return function(self._buffer, self._index, *arguments)
        try:
            return function(self._local, self._index, *arguments)
        finally:
            self._local.give_back()

    def set_alpha(self, alpha: float, selector: int) -> None:
        self._buffer.selector(selector).set_alpha(alpha)

    def decay(self, factor: float, selector: int) -> None:
        self._buffer.selector(selector).decay(factor)

    def set_version(self, version: int) -> None:
        self._buffer.set_version(version)

    def close(self) -> None:
        self._buffer.close()
        self._ended.set()

    def _heartbeat(self) -> None:
        failed = False
        while not self._ended.wait(HEARTBEAT_SECONDS):
            try:
                self._report()
                failed = False
            except ray.exceptions.RayError:
                continue  # The coordinator is being restarted.
            except Exception:
                if not failed:  # A lasting error is logged once.
                    log.exception("%s: a report of shard %d", self._spec.name, self._index)
                failed = True

    def _report(self) -> None:
        """Reports to the coordinator: committed steps, by which it counts lost ones, and the rate
        limiter's counts, which it needs after a restart."""
        self._forget_silent()
        report = self._coordinator.heartbeat.remote(
            self._index,
            self.incarnation,
            self._buffer.stats()["committed_steps"],
            self._loaded,
            len(self._buffer),
            self._checkpoints,
            self._counts,
        )
        closed, counts = ray.get(report, timeout=5)
        self._counts = max(self._counts, counts)
        if closed:
            self._buffer.close()
