"""The actor with the state that all shards share: the rate limiter, losses, checkpoints."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import reprise

from ._options import Spec

log = logging.getLogger("reprise.ray")


# The counters that each process reports.
CLIENT_COUNTERS = (
    "asked_again",
    "full_object_store",
    "lost_in_flight_steps",
    "reallotted_draws",
    "sampled_batches",
    "stale_updates_at_clients",
)
SILENT_SECONDS = 2.0  # A waiting process or sampler asks several times a second.
# A shard that has not reported for this long, while others have, counts as empty. Each shard
# reports several times a second.
EMPTY_SECONDS = 5.0
# A restarted coordinator admits nobody for this long, in which every shard reports its counts.
RESUME_SECONDS = 1.5


class Counts(NamedTuple):
    """The counts of the rate limiter. Each answer of the coordinator carries them and the next
    request brings them back, so that a restarted coordinator can continue with the newest."""

    changes: int = 0  # The number of changes so far; the newest counts have the most.
    inserted: int = 0  # Steps that were appended, or that may be at any moment.
    admitted: int = 0  # Items that were drawn, or that may be at any moment.


class _Incarnation:
    """An incarnation of a shard."""

    def __init__(self) -> None:
        self.loaded = 0  # Steps that were in its checkpoint.
        self.committed = 0  # The highest number of committed steps that was reported.
        self.lost = False  # Whether a client found it gone.


class _ShardHistory:
    """All incarnations of a shard, from its reports and those of clients."""

    def __init__(self) -> None:
        self.incarnations: dict[int, _Incarnation] = {}
        self.notes: list[str] = []

    @property
    def incarnation(self) -> int:
        """The newest incarnation; 0 if none is known."""
        return max(self.incarnations, default=0)

    def get_incarnation(self, incarnation: int) -> _Incarnation:
        return self.incarnations.setdefault(incarnation, _Incarnation())

    def record(self, incarnation: int, committed: int, loaded: int = 0) -> None:
        one = self.get_incarnation(incarnation)
        one.loaded = max(one.loaded, loaded)
        one.committed = max(one.committed, committed, loaded)

    def losses(self) -> int:
        newest = self.incarnation
        return sum(one.lost or number < newest for number, one in self.incarnations.items())

    def lost_steps(self) -> int:
        incarnations = [self.incarnations[one] for one in sorted(self.incarnations)]
        return sum(max(0, a.committed - b.loaded) for a, b in zip(incarnations, incarnations[1:]))


class _WaitingList:
    """The processes or samplers that wait for the rate limiter, longest first. One that has not
    asked for SILENT_SECONDS is forgotten."""

    def __init__(self) -> None:
        # The steps or items that each waits for, and when it last asked.
        self._waiting: dict[str, tuple[int, float]] = {}

    def amount_before(self, who: str) -> int:
        """The sum of the steps or items for which others have waited longer."""
        end = time.monotonic() - SILENT_SECONDS
        self._waiting = {name: entry for name, entry in self._waiting.items() if entry[1] >= end}
        longer = takewhile(lambda one: one != who, self._waiting)
        return sum(self._waiting[one][0] for one in longer)

    def amount_of_others(self, who: str) -> int:
        """The sum of the steps or items for which others wait."""
        return sum(n for one, (n, _) in self._waiting.items() if one != who)

    def add(self, who: str, n: int) -> None:
        self._waiting[who] = n, time.monotonic()  # A dict keeps the place of a known key.

    def remove(self, who: str) -> None:
        self._waiting.pop(who, None)


class Coordinator:
    """Every call is short and waits for nothing. After a restart of the coordinator others tell it
    what it knew: shards tell the rate limiter's counts, the checkpoints and the steps that they
    loaded, learners the counts, and all clients their counters and the losses that they saw."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        # For more writers the limiter gives credit in smaller blocks, of which less stays unused.
        self._limiter = reprise.ShardedLimiter(
            spec.rate_limiter, sum(spec.capacities), max_writers=16
        )
        self._credit = 0  # Steps of credit that nobody has used.
        self._waiting_inserts = _WaitingList()  # Processes that insert.
        self._waiting_draws = _WaitingList()  # Samplers.
        self._counts = Counts()
        self._shards = [_ShardHistory() for _ in spec.capacities]
        self._reported: dict[int, float] = {}  # When each shard last reported its items.
        self._clients: dict[str, dict[str, int]] = {}
        self._checkpoints: str | None = None
        self._closed = False
        # `begin()` sets this when the buffer is created; after a restart it stays False.
        self._new = False
        # Until then nobody is admitted, and `_newest_counts` collects the newest counts of others.
        self._resume_at: float | None = time.monotonic() + RESUME_SECONDS
        self._newest_counts = Counts()

    def spec(self) -> Spec:
        return self._spec

    def incarnations(self) -> list[int]:
        """The newest incarnation of each shard; 0 if none is known."""
        with self._lock:
            return [one.incarnation for one in self._shards]

    def begin(self) -> None:
        with self._lock:
            self._new, self._resume_at = True, None

    def _has_counts(self, newer_counts: Counts) -> bool:
        """Whether the counts are known: always, except for a while after a restart."""
        if self._resume_at is None:
            return True
        self._newest_counts = max(self._newest_counts, newer_counts)
        if time.monotonic() < self._resume_at:
            return False
        self._resume_at = None
        # The counts since the restart, which credit returned meanwhile has changed, are added.
        self._change(*self._newest_counts[1:])
        self._counts = self._counts._replace(
            changes=self._newest_counts.changes + self._counts.changes
        )
        self._limiter.restore(self._counts.inserted, self._counts.admitted)
        return True

    def _change(self, inserted: int = 0, admitted: int = 0) -> None:
        now = self._counts
        self._counts = Counts(now.changes + 1, now.inserted + inserted, now.admitted + admitted)

    def starting_state(self, shard: int) -> dict[str, Any]:
        """What a shard that is being started has to know."""
        with self._lock:
            restarted = bool(self._shards[shard].incarnation) or not self._new
            return {
                "checkpoints": self._checkpoints,
                "again": restarted,
                "closed": self._closed,
                "last_incarnation": self._shards[shard].incarnation,
            }

    def started(self, shard: int, incarnation: int, loaded: int, note: str) -> None:
        with self._lock:
            history = self._shards[shard]
            again = incarnation in history.incarnations
            history.record(incarnation, loaded, loaded)
            if note and not again:
                history.notes.append(note)
                log.warning("%s: %s", self._spec.name, note)

    def _lost(self, shard: int, incarnation: int, committed: int) -> None:
        """Records that a client found an incarnation gone, and how many steps it knew of it."""
        history = self._shards[shard]
        # A client that attached before the shard's first report sends 0, and means the newest.
        incarnation = incarnation or history.incarnation
        if not incarnation:
            return  # Nobody knows which incarnation it was.
        history.record(incarnation, committed)
        if incarnation == history.incarnation and not history.get_incarnation(incarnation).lost:
            # Not for an earlier incarnation: its successor has items.
            self._limiter.set_items(shard, 0)
        history.get_incarnation(incarnation).lost = True

    def heartbeat(
        self,
        shard: int,
        incarnation: int,
        committed: int,
        loaded: int,
        items: int,
        checkpoints: str | None,
        newer_counts: Counts,
    ) -> tuple[bool, Counts]:
        """Takes a shard's report. Returns whether the buffer is closed, and the counts."""
        with self._lock:
            history = self._shards[shard]
            history.record(incarnation, committed, loaded)
            self._checkpoints = self._checkpoints or checkpoints
            self._record_items(shard, incarnation, items)
            self._has_counts(newer_counts)
            return self._closed, self._counts

    def _record_items(self, shard: int, incarnation: int, items: int) -> None:
        # A report of an earlier incarnation may arrive after its successor has started.
        if incarnation >= self._shards[shard].incarnation:
            self._limiter.set_items(shard, items)
            self._reported[shard] = time.monotonic()
        self._forget_silent()

    def _forget_silent(self) -> None:
        """Tells the limiter that silent shards have no items. A client's report of a loss does not
        suffice, because the last report of the lost shard may arrive after it."""
        end = max(self._reported.values(), default=0.0) - EMPTY_SECONDS
        for shard in [one for one, reported in self._reported.items() if reported < end]:
            del self._reported[shard]
            self._limiter.set_items(shard, 0)

    def insert(
        self,
        shard: int,
        incarnation: int,
        who: str,
        sizes: Sequence[int],
        items: int,
        newer_counts: Counts,
    ) -> tuple[int, Counts]:
        """Returns how many of these shipments may be appended, and counts their steps. `sizes`: the
        steps of each. `who`: the process that sent them; processes take turns."""
        with self._lock:
            self._record_items(shard, incarnation, items)
            if self._closed or not self._has_counts(newer_counts):
                return 0, self._counts
            done = 0
            while done < len(sizes) and self._grant(who, sizes[done]):
                self._waiting_inserts.remove(who)
                self._credit -= sizes[done]
                self._change(inserted=sizes[done])
                done += 1
            return done, self._counts

    def _grant(self, who: str, steps: int) -> bool:
        """Whether there is credit for `steps` steps, besides those for which others have waited
        longer. If not, `who` waits."""
        granted = self._has_credit(self._waiting_inserts.amount_before(who) + steps)
        if not granted:
            self._waiting_inserts.add(who, steps)
        return granted

    def _has_credit(self, steps: int) -> bool:
        """Whether there is credit for `steps` steps; takes more from the limiter if necessary. Any
        process may use the credit later."""
        while self._credit < steps:
            more = self._limiter.credit()
            if more == 0:
                return False
            self._credit += more
        return True

    def credit(self, who: str, sizes: Sequence[int]) -> int:
        """Returns about how many steps of these shipments may be appended now, without counting
        them; 0 if not even the first shipment may be. `who` keeps its turn until it inserts."""
        with self._lock:
            limiter = self._spec.rate_limiter
            first = next(one for one in sizes if one)
            if self._closed or not self._has_counts(Counts()) or not self._grant(who, first):
                return 0
            self._waiting_inserts.add(who, first)
            ahead = self._limiter.balance + limiter.error_buffer
            free = self._credit + int(ahead / limiter.samples_per_insert)
            return max(first, free - self._waiting_inserts.amount_of_others(who))

    def return_credit(self, steps: int) -> None:
        """Takes back steps that `insert` counted and that were not appended."""
        with self._lock:
            self._credit += steps
            self._change(inserted=-steps)

    def undo_inserted(self, answer: tuple[int, Counts], sizes: Sequence[int]) -> None:
        """Takes back what the call of `insert` with this answer counted."""
        self.return_credit(sum(sizes[: answer[0]]))

    def sample(self, who: str, n: int, newer_counts: Counts) -> tuple[bool, bool, str, Counts]:
        """Returns whether n items may be drawn, and counts them if so; whether the buffer is
        closed; the reason if not; the counts. `who`: the sampler, which waits for its turn."""
        with self._lock:
            if not self._has_counts(newer_counts):
                why = "the coordinator of the buffer, which was restarted and looks for its counts"
                return False, self._closed, why, self._counts
            admitted = not self._closed and self._admits(who, n)
            if admitted:
                self._waiting_draws.remove(who)
                self._change(admitted=n)
            else:
                self._waiting_draws.add(who, n)
            return admitted, self._closed, self._reason(), self._counts

    def _admits(self, who: str, n: int) -> bool:
        """Whether n items may be drawn, besides those for which others have waited longer."""
        amount_before = self._waiting_draws.amount_before(who)
        left = self._spec.rate_limiter.error_buffer - self._limiter.balance
        if not self._limiter.admit(n):  # ValueError for a batch that can never be admitted.
            return False
        if amount_before == 0 or amount_before + n <= left:
            return True
        self._limiter.return_samples(n)
        return False

    def leave(self, who: str) -> None:
        """Forgets a sampler that asks no more, so that others do not wait for it."""
        with self._lock:
            self._waiting_draws.remove(who)

    def _reason(self) -> str:
        return (
            f"{self._counts.admitted} items sampled for {self._counts.inserted} steps inserted, "
            f"{self._limiter.balance:+.0f} ahead of the ratio"
            if self._spec.rate_limiter_holds_writers
            else "nobody waits for a ratio"
        )

    def undo_sample(self, n: int) -> None:
        with self._lock:
            if self._resume_at is None:
                self._limiter.return_samples(n)
            self._change(admitted=-n)

    def undo_admitted(self, answer: tuple[bool, bool, str, Counts], who: str, n: int) -> None:
        """Undoes the call of `sample` with this answer: its count, or its turn."""
        if answer[0]:
            self.undo_sample(n)
        else:
            self.leave(who)

    def report(
        self,
        client: str,
        counters: dict[str, int],
        newer_counts: Counts,
        losses: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """Takes a process's counters, which replace its earlier ones, and the losses that it saw:
        shard, incarnation, and the steps that this incarnation committed, as far as it knows."""
        with self._lock:
            for one in losses:
                self._lost(*one)
            if any(counters.values()):  # Most processes come and go without a fault.
                self._clients[client] = counters
            self._has_counts(newer_counts)

    def saved(self, directory: str) -> None:
        with self._lock:
            self._checkpoints = directory

    def stats(self) -> dict[str, Any]:
        with self._lock:
            totals = dict.fromkeys(CLIENT_COUNTERS, 0)
            for counters in self._clients.values():
                for name, value in counters.items():
                    totals[name] += value
            return {
                **totals,
                "inserted_steps": self._counts.inserted,
                "admitted_samples": self._counts.admitted,
                "lost_shards": sum(one.losses() for one in self._shards),
                "restarts": sum(max(0, len(one.incarnations) - 1) for one in self._shards),
                "lost_steps": sum(one.lost_steps() for one in self._shards),
                "notes": [note for one in self._shards for note in one.notes],
                "limiter": self._reason(),
            }

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
