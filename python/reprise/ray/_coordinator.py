"""The actor with the state that all shards share: the rate limiter, losses, checkpoints."""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import ray

import reprise

from ._options import NAMESPACE, Spec

log = logging.getLogger("reprise.ray")


# What processes count and report.
CLIENT_COUNTERS = (
    "asked_again",
    "full_object_store",
    "lost_in_flight_steps",
    "reallotted_draws",
    "stale_updates_at_clients",
)
SILENT_SECONDS = 2.0  # A waiting process or sampler asks several times a second.
UNUSED_SECONDS = 3.0  # Steps that were let in are with a shard sooner, and it reports more often.
BACKUP_SECONDS = 1.5  # How long a restarted coordinator waits for shards.


class _Incarnation:
    """An incarnation of a shard."""

    def __init__(self) -> None:
        self.loaded = 0  # Steps that were in its checkpoint.
        self.committed = 0  # The most committed steps that were reported.
        self.lost = False  # Whether a client found it gone.


class _ShardHistory:
    """All incarnations of a shard, from its reports and those of clients."""

    def __init__(self) -> None:
        self.incarnations: dict[int, _Incarnation] = {}
        self.items = 0
        self.notes: list[str] = []

    @property
    def incarnation(self) -> int:
        """The newest incarnation; 0 if none is known."""
        return max(self.incarnations, default=0)

    def of(self, incarnation: int) -> _Incarnation:
        return self.incarnations.setdefault(incarnation, _Incarnation())

    def tell(self, incarnation: int, committed: int, loaded: int = 0) -> int:
        """Returns how many steps it appended since it was last told of."""
        new, one = incarnation not in self.incarnations, self.of(incarnation)
        before = one.committed
        one.loaded = max(one.loaded, loaded)
        one.committed = max(one.committed, committed, loaded)
        return 0 if new else one.committed - before

    def losses(self) -> int:
        newest = self.incarnation
        return sum(one.lost or number < newest for number, one in self.incarnations.items())

    def lost_steps(self) -> int:
        incarnations = [self.incarnations[one] for one in sorted(self.incarnations)]
        return sum(max(0, a.committed - b.loaded) for a, b in zip(incarnations, incarnations[1:]))


class _State:
    """What shards keep for a coordinator that is restarted, as of their last report."""

    def __init__(self, shards: int) -> None:
        self.reports = 0  # The newest state has the most.
        self.inserted = self.admitted = 0  # Steps that were let in, and items.
        # Steps that were let in, and those of them that were appended or given up.
        self.let_in = self.settled = 0
        self.shards = [_ShardHistory() for _ in range(shards)]
        self.counters = dict.fromkeys(CLIENT_COUNTERS, 0)  # Sums over all processes.
        self.checkpoints: str | None = None


Backup = tuple[int, bytes]  # The reports of a state, and its pickle.


def _newest_backup(spec: Spec) -> _State | None:
    """The state of the coordinator in whose place this process was started; None if there was
    none."""
    context = ray.get_runtime_context() if ray.is_initialized() else None
    if not (context and context.get_actor_id() and context.was_current_actor_reconstructed):
        return None
    calls: list[Any] = []
    for shard in range(len(spec.capacities)):
        with contextlib.suppress(ValueError):  # It has not started.
            actor = ray.get_actor(f"{spec.name}.shard-{shard}", namespace=NAMESPACE)
            calls.append(actor.backup.remote())
    newest: Backup = 0, pickle.dumps(_State(len(spec.capacities)))
    for call in calls and ray.wait(calls, num_returns=len(calls), timeout=BACKUP_SECONDS)[0]:
        with contextlib.suppress(ray.exceptions.RayError):
            newest = max(newest, ray.get(call))
    state: _State = pickle.loads(newest[1])
    return state


class _Gate:
    """Those who wait to insert or to sample, longest first: processes and samplers by their names.
    Who has not asked for SILENT_SECONDS is forgotten."""

    def __init__(self, admits: Callable[[int, int], bool]) -> None:
        self._admits = admits  # Of n steps or items, and the sum for which others waited longer.
        # The steps or items that each waits for, and when it last asked.
        self._waiting: dict[str, tuple[int, float]] = {}

    def enter(self, who: str, sizes: Sequence[int]) -> int:
        """Returns how many of the sizes are let in. If none is, `who` waits."""
        end = time.monotonic() - SILENT_SECONDS
        self._waiting = {name: entry for name, entry in self._waiting.items() if entry[1] >= end}
        for done, n in enumerate(sizes):
            longer = takewhile(lambda one: one != who, self._waiting)
            if not self._admits(n, sum(self._waiting[one][0] for one in longer)):
                if done == 0:  # A dict keeps the place of a known key.
                    self._waiting[who] = n, time.monotonic()
                return done
            self.leave(who)
        return len(sizes)

    def leave(self, who: str) -> None:
        self._waiting.pop(who, None)


class Entered(NamedTuple):
    """The answer to a call of `Coordinator.enter`."""

    done: int  # How many of the sizes are let in.
    closed: bool
    why: str  # The state of the ratio.


class Coordinator:
    """Every call is short and waits for nothing. A restarted one goes on with what the shards keep
    of its state."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        # For more writers the limiter gives credit in smaller blocks, of which less stays unused.
        self._limiter = reprise.ShardedLimiter(
            spec.rate_limiter, sum(spec.capacities), max_writers=16
        )
        self._credit = 0  # Steps of credit that nobody has used.
        self._gates = {"insert": _Gate(self._admits_inserts), "sample": _Gate(self._admits_samples)}
        self._let_in_before: deque[tuple[float, int]] = deque()
        self._closed = False
        backup = _newest_backup(spec)
        self._restarted = backup is not None
        self._state = state = backup or _State(len(spec.capacities))
        self._limiter.restore(state.inserted, state.admitted)
        for shard, history in enumerate(state.shards):
            self._limiter.tell(shard, history.items)

    def spec(self) -> Spec:
        return self._spec

    def incarnations(self) -> list[int]:
        """The newest incarnation of each shard; 0 if none is known."""
        with self._lock:
            return [one.incarnation for one in self._state.shards]

    def starting_state(self, shard: int) -> dict[str, Any]:
        """What a shard that is being started has to know."""
        with self._lock:
            before = self._state.shards[shard].incarnation
            return {
                "checkpoints": self._state.checkpoints,
                "again": bool(before) or self._restarted,
                "closed": self._closed,
                "before": before,
            }

    def started(self, shard: int, incarnation: int, loaded: int, note: str) -> None:
        with self._lock:
            history = self._state.shards[shard]
            again = incarnation in history.incarnations
            history.tell(incarnation, loaded, loaded)
            if note and not again:
                history.notes.append(note)
                log.warning("%s: %s", self._spec.name, note)

    def lost(self, shard: int, incarnation: int, committed: int) -> None:
        """A client found an incarnation gone, of which it knew so many steps."""
        with self._lock:
            history = self._state.shards[shard]
            # A client that attached before the shard reported knows no incarnation.
            incarnation = incarnation or history.incarnation
            if not incarnation:
                return  # Nobody knows which incarnation it was.
            history.tell(incarnation, committed)
            if incarnation == history.incarnation and not history.of(incarnation).lost:
                self._tell_items(shard, 0)  # A successor would have items.
            history.of(incarnation).lost = True

    def _tell_items(self, shard: int, items: int) -> None:
        self._state.shards[shard].items = items
        self._limiter.tell(shard, items)

    def heartbeat(
        self, shard: int, incarnation: int, committed: int, items: int
    ) -> tuple[bool, Backup]:
        """Takes a shard's report. Returns whether the buffer is closed, and the state."""
        with self._lock:
            history = self._state.shards[shard]
            appended = history.tell(incarnation, committed)
            # A report of an earlier incarnation may arrive after its successor has started.
            if incarnation == history.incarnation:
                self._tell_items(shard, items)
            if self._spec.rate_limiter_holds_writers:
                self._settle(appended)
            self._state.reports += 1
            return self._closed, (self._state.reports, pickle.dumps(self._state))

    def _settle(self, appended: int) -> None:
        """Counts appended steps. Steps that were let in and have not come for UNUSED_SECONDS make
        room for others, because their process or their shard may be gone."""
        now, before, state = time.monotonic(), self._let_in_before, self._state
        before.append((now, state.let_in))
        while len(before) > 1 and before[1][0] < now - UNUSED_SECONDS:
            before.popleft()
        due = before[0][1] if before[0][0] < now - UNUSED_SECONDS else 0
        state.settled += appended
        # Those that come later after all count again.
        unused = max(due - state.settled, 0) or min(state.let_in - state.settled, 0)
        state.settled += unused
        state.inserted -= unused
        self._credit += unused
        self._tell_let_in()

    def _tell_let_in(self) -> None:
        """Steps that were let in count as items until shards tell those that they have."""
        self._limiter.tell(len(self._state.shards), self._state.let_in - self._state.settled)

    def enter(self, gate: str, who: str, sizes: Sequence[int]) -> Entered:
        """Lets in the first of these sizes that may be, and counts them: at the gate "insert"
        steps of the shipments of a process, at the gate "sample" items of the batches of a sampler.
        `who`: the process or the sampler, which waits for its turn if nothing is let in."""
        with self._lock:
            done = 0 if self._closed else self._gates[gate].enter(who, sizes)
            return Entered(done, self._closed, self._reason())

    def _admits_inserts(self, steps: int, before: int) -> bool:
        while self._credit < before + steps:
            more = self._limiter.credit()
            if more == 0:
                return False
            self._credit += more
        self._credit -= steps
        self._state.let_in += steps
        self._state.inserted += steps
        self._tell_let_in()
        return True

    def _admits_samples(self, n: int, before: int) -> bool:
        left = self._spec.rate_limiter.error_buffer - self._limiter.balance
        if not self._limiter.admit(n):  # ValueError for a batch that can never be admitted.
            return False
        if before == 0 or before + n <= left:
            self._state.admitted += n
            return True
        self._limiter.return_samples(n)
        return False

    def leave(self, gate: str, who: str) -> None:
        """Forgets who asks no more, so that others do not wait for it."""
        with self._lock:
            self._gates[gate].leave(who)

    def _reason(self) -> str:
        return (
            f"{self._state.admitted} items sampled for {self._state.inserted} steps inserted, "
            f"{self._limiter.balance:+.0f} ahead of the ratio"
            if self._spec.rate_limiter_holds_writers
            else "nobody waits for a ratio"
        )

    def undo_samples(self, n: int) -> None:
        """Takes back items that were let in and that nobody has drawn."""
        with self._lock:
            self._limiter.return_samples(n)
            self._state.admitted -= n

    def undo(self, entered: Entered, gate: str, who: str, sizes: Sequence[int]) -> None:
        """Undoes the call of `enter` with this answer, which came too late."""
        self.leave(gate, who)
        if gate == "sample":  # Steps that nobody appends make room by themselves.
            self.undo_samples(sum(sizes[: entered.done]))

    def report(self, news: dict[str, int]) -> None:
        """Adds what a process has counted since its last report."""
        with self._lock:
            for name, n in news.items():
                self._state.counters[name] += n

    def saved(self, directory: str) -> None:
        with self._lock:
            self._state.checkpoints = directory

    def stats(self) -> dict[str, Any]:
        with self._lock:
            return {
                **self._state.counters,
                "inserted_steps": self._state.inserted,
                "admitted_samples": self._state.admitted,
                "lost_shards": sum(one.losses() for one in self._state.shards),
                "restarts": sum(max(0, len(one.incarnations) - 1) for one in self._state.shards),
                "lost_steps": sum(one.lost_steps() for one in self._state.shards),
                "notes": [note for one in self._state.shards for note in one.notes],
                "limiter": self._reason(),
            }

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
