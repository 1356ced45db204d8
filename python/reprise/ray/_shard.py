"""The actor of one shard: an in-process buffer, and the calls that other processes make."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ray

import reprise

from ._checkpoint import kept_with, load_shard, shard_directory
from ._coordinator import Backup
from ._local import Local
from ._options import NAMESPACE, Spec

HEARTBEAT_SECONDS = 0.5  # Between two reports to the coordinator.
MOST_KEPT = 1000  # The most checkpoints that an in-process buffer keeps.
FORGET_SECONDS = 60.0  # A client that was silent for so long is forgotten.


class ShardInfo(NamedTuple):
    """The state of a shard, which each of its answers carries."""

    shard: int
    incarnation: int
    committed: int  # The number of committed steps.
    closed: bool


class NoWriter(RuntimeError):
    """`max_writers` remote writers are open already."""


OUTCOMES = (None, TimeoutError, NoWriter, reprise.Closed, ValueError, OSError, MemoryError)


def error_of(outcome: int, said: str) -> BaseException | None:
    """The error because of which a shipment has to be sent again, in `ReplayShard.outcomes_of`."""
    kind = OUTCOMES[outcome] if outcome < len(OUTCOMES) else RuntimeError
    return None if kind is None else kind(said)


def told_by(shard: int, answer: Any) -> tuple[ShardInfo, bool]:
    """What an answer says of its shard, and whether the shard did what it was asked."""
    incarnation, committed, closed, done = reprise.ReplayShard.state_of(answer)
    return ShardInfo(shard, incarnation, committed, closed), done


class Shard:
    """Calls may come late or twice, by Ray or over a connection: `reprise.ReplayShard` works on each
    request and on each shipment once, and refuses those for an earlier incarnation."""

    def __init__(self, index: int, spec: Spec, start: str | None) -> None:
        # Found by name: a handle would be an argument in the object store, which may be lost before
        # a restart.
        coordinator = ray.get_actor(f"{spec.name}.coordinator", namespace=NAMESPACE)
        self._index, self._spec, self._coordinator = index, spec, coordinator
        self._backup: Backup = 0, b""
        self._ended = threading.Event()
        known = ray.get(coordinator.starting_state.remote(index), timeout=30)
        # Higher than all earlier ones, even if the clocks of nodes differ.
        self.incarnation = max(time.time_ns(), known["before"] + 1)
        again = known["again"]
        self._checkpoints = known["checkpoints"] or start
        self._note = ""
        self._buffer = self._load(again)
        self._replay_shard = reprise.ReplayShard(
            self._buffer,
            seed=self.incarnation % (1 << 63),
            incarnation=self.incarnation,
            silent=spec.answer_timeout,
            forgotten=max(FORGET_SECONDS, 10 * spec.answer_timeout),
        )
        self._loaded = self._committed()
        if known["closed"]:
            self._buffer.close()
        started = coordinator.started.remote(index, self.incarnation, self._loaded, self._note)
        ray.get(started, timeout=30)
        with contextlib.suppress(OSError):  # Then all calls come by Ray.
            self._host = self._replay_shard.share(spec.address(index, self.incarnation))
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

    def backup(self) -> Backup:
        return self._backup

    def exchange(self, call: Any) -> Any:
        """Returns the answer to a request or to the shipments of a client."""
        return self._replay_shard.exchange(call)

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
        """Saves this shard. `oldest`: the first checkpoint of each shard that has to stay."""
        where = shard_directory(directory, self._index)
        keep = min(MOST_KEPT, kept_with(where, oldest[self._index]))
        saved = self._buffer.save(where, keep=keep, **options)
        self._checkpoints = directory
        return saved

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Calls the user's function with the in-process buffer, beside the other calls."""
        limited = self._spec.rate_limiter_holds_writers
        local: Any = Local(self._buffer, self._coordinator, self._spec) if limited else self._buffer
        return function(local, self._index, *arguments)

    def set_alpha(self, alpha: float, selector: int) -> None:
        self._buffer.selector(selector).set_alpha(alpha)

    def decay(self, factor: float, selector: int) -> None:
        self._buffer.selector(selector).decay(factor)

    def close(self) -> None:
        self._buffer.close()
        self._ended.set()

    def _heartbeat(self) -> None:
        """Reports steps and items, and keeps the state of the coordinator, which may be lost."""
        while not self._ended.wait(HEARTBEAT_SECONDS):
            committed, items = self._committed(), len(self._buffer)
            try:
                report = self._coordinator.heartbeat.remote(
                    self._index, self.incarnation, committed, items
                )
                closed, self._backup = ray.get(report, timeout=5)
                if closed:
                    self._buffer.close()
            except ray.exceptions.RayError:
                continue  # The coordinator is being restarted.
