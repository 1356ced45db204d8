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
SILENT_SECONDS = 2.0  # Who waits asks several times a second; who asks no more waits no more.
# A shard that has not reported for this long, while others have, counts as empty. Each shard
# reports twice a second.
EMPTY_SECONDS = 5.0
# A restarted coordinator admits nobody for this long, in which every shard reports its counts.
RESUME_SECONDS = 1.5


class Counts(NamedTuple):
    """The counts of the rate limiter. The coordinator's answers carry them, and later requests
    bring them back, so that a restarted coordinator can continue with the newest counts."""

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
        self.notes: list[str] = []  # What went wrong as incarnations started.

    @property
    def incarnation(self) -> int:
        """The newest incarnation; 0 if none is known."""
        return max(self.incarnations, default=0)

    def get_incarnation(self, number: int) -> _Incarnation:
        return self.incarnations.setdefault(number, _Incarnation())

    def record(self, number: int, committed: int, loaded: int = 0) -> None:
        incarnation = self.get_incarnation(number)
        incarnation.loaded = max(incarnation.loaded, loaded)
        incarnation.committed = max(incarnation.committed, committed, loaded)

    def losses(self) -> int:
        """How many incarnations were lost: those found gone, and all before the newest."""
        newest = self.incarnation
        return sum(each.lost or number < newest for number, each in self.incarnations.items())

    def lost_steps(self) -> int:
        """How many steps incarnations had committed that their successors did not load."""
        in_order = [self.incarnations[number] for number in sorted(self.incarnations)]
        return sum(max(0, a.committed - b.loaded) for a, b in zip(in_order, in_order[1:]))


class _WaitingList:
    """The processes or samplers that wait for the rate limiter; who has waited longest is first.
    Who has not asked for SILENT_SECONDS is forgotten."""

    def __init__(self) -> None:
        # By name: how many steps or items each process or sampler waits for, and when it last asked.
        self._waiting: dict[str, tuple[int, float]] = {}

    def amount_before(self, who: str) -> int:
        """How many steps or items in all those wait for who have waited longer than `who`."""
        end = time.monotonic() - SILENT_SECONDS
        self._waiting = {name: entry for name, entry in self._waiting.items() if entry[1] >= end}
        longer = takewhile(lambda name: name != who, self._waiting)
        return sum(self._waiting[name][0] for name in longer)

    def amount_of_others(self, who: str) -> int:
        """How many steps or items in all the others than `who` wait for."""
        return sum(n for name, (n, _) in self._waiting.items() if name != who)

    def add(self, who: str, n: int) -> None:
        self._waiting[who] = n, time.monotonic()  # A dict keeps the place of a known key.

    def remove(self, who: str) -> None:
        self._waiting.pop(who, None)


class Coordinator:
    """Every call is short and waits for nothing. After a restart of the coordinator others tell it
    again what it knew: shards and learners the rate limiter's counts, shards the directory of
    checkpoints and the steps that they loaded, all processes their counters and the losses seen."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        # Blocks of credit are smaller for more writers: of a block for 16 little stays unused.
        self._limiter = reprise.ShardedLimiter(
            spec.rate_limiter, sum(spec.capacities), max_writers=16
        )
        self._credit = 0  # Steps of credit that no process has used.
        self._waiting_inserts = _WaitingList()  # Processes that wait to insert.
        self._waiting_draws = _WaitingList()  # Samplers that wait to draw.
        self._counts = Counts()
        self._shards = [_ShardHistory() for _ in spec.capacities]
        self._reported_at: dict[int, float] = {}  # When each shard last reported its items.
        self._clients: dict[str, dict[str, int]] = {}
        self._checkpoints: str | None = None  # The directory of the newest checkpoint, if known.
        self._closed = False
        # `begin()` sets this when the buffer is created; after a restart it stays False.
        self._new = False
        # Until this time nobody is admitted, and `_newest_counts` is the newest of the counts that
        # others report; afterwards None.
        self._resume_at: float | None = time.monotonic() + RESUME_SECONDS
        self._newest_counts = Counts()

    def spec(self) -> Spec:
        return self._spec

    def incarnations(self) -> list[int]:
        """The newest incarnation of each shard; 0 if none is known."""
        with self._lock:
            return [history.incarnation for history in self._shards]

    def begin(self) -> None:
        with self._lock:
            self._new, self._resume_at = True, None

    def _has_counts(self, reported_counts: Counts) -> bool:
        """Whether the counts are known: always, except for a while after a restart.
        `reported_counts`: those that the present call brings, which may be the newest then."""
        if self._resume_at is None:
            return True
        self._newest_counts = max(self._newest_counts, reported_counts)
        if time.monotonic() < self._resume_at:
            return False
        self._resume_at = None
        # Own counts are not 0 if credit was returned since the restart, so the newest are added.
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
            return {
                "checkpoints": self._checkpoints,
                "restarted": bool(self._shards[shard].incarnation) or not self._new,
                "closed": self._closed,
                "last_incarnation": self._shards[shard].incarnation,
            }

    def started(self, shard: int, incarnation: int, loaded: int, note: str) -> None:
        """Records an incarnation that has started. Ray may make this call twice."""
        with self._lock:
            history = self._shards[shard]
            is_known = incarnation in history.incarnations
            history.record(incarnation, loaded, loaded)
            if note and not is_known:
                history.notes.append(note)
                log.warning("%s: %s", self._spec.name, note)

    def _lost(self, shard: int, incarnation: int, committed: int) -> None:
        """Records that a client found an incarnation gone, and how many steps it knew of it."""
        history = self._shards[shard]
        # A client that attached before the shard's first report sends 0 for the newest incarnation.
        incarnation = incarnation or history.incarnation
        if not incarnation:
            return  # Neither the client nor the coordinator knows which incarnation it was.
        history.record(incarnation, committed)
        if incarnation == history.incarnation and not history.get_incarnation(incarnation).lost:
            # Not if an earlier incarnation was lost: then the shard has its successor's items.
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
        reported_counts: Counts,
    ) -> tuple[bool, Counts]:
        """Takes a shard's report. Returns whether the buffer is closed, and the counts."""
        with self._lock:
            history = self._shards[shard]
            history.record(incarnation, committed, loaded)
            self._checkpoints = self._checkpoints or checkpoints
            self._record_items(shard, incarnation, items)
            self._has_counts(reported_counts)
            return self._closed, self._counts

    def _record_items(self, shard: int, incarnation: int, items: int) -> None:
        # A report of an earlier incarnation may arrive after its successor has started.
        if incarnation >= self._shards[shard].incarnation:
            self._limiter.set_items(shard, items)
            self._reported_at[shard] = time.monotonic()
        self._forget_silent()

    def _forget_silent(self) -> None:
        """Tells the limiter that silent shards have no items. A client's report of a loss does not
        suffice, because the lost shard's own last report may arrive after the client's."""
        end = max(self._reported_at.values(), default=0.0) - EMPTY_SECONDS
        for shard in [index for index, time_of in self._reported_at.items() if time_of < end]:
            del self._reported_at[shard]
            self._limiter.set_items(shard, 0)

    def insert(
        self,
        shard: int,
        incarnation: int,
        who: str,
        sizes: Sequence[int],
        items: int,
        reported_counts: Counts,
    ) -> tuple[int, Counts]:
        """Returns how many of the first shipments may be appended, and the counts, with their steps.
        `sizes`: the steps of each. `who`: the process that sent them; who asked earlier is first.
        """
        with self._lock:
            self._record_items(shard, incarnation, items)
            if self._closed or not self._has_counts(reported_counts):
                return 0, self._counts
            granted = 0
            while granted < len(sizes) and self._grant(who, sizes[granted]):
                self._waiting_inserts.remove(who)
                self._credit -= sizes[granted]
                self._change(inserted=sizes[granted])
                granted += 1
            return granted, self._counts

    def _grant(self, who: str, steps: int) -> bool:
        """Whether there is credit for `steps` steps beyond the credit for which others have waited
        longer. If not, puts `who` on the waiting list."""
        granted = self._has_credit(self._waiting_inserts.amount_before(who) + steps)
        if not granted:
            self._waiting_inserts.add(who, steps)
        return granted

    def _has_credit(self, steps: int) -> bool:
        """Whether there is credit for `steps` steps; takes more from the limiter if necessary,
        which any process may use later."""
        while self._credit < steps:
            more = self._limiter.credit()
            if more == 0:
                return False
            self._credit += more
        return True

    def credit(self, who: str, sizes: Sequence[int]) -> int:
        """Returns about how many steps of these shipments may be appended now, without counting
        them; 0 if not even the first shipment may be. `who` stays on the list until it inserts."""
        with self._lock:
            limiter = self._spec.rate_limiter
            first = next(steps for steps in sizes if steps)
            if self._closed or not self._has_counts(Counts()) or not self._grant(who, first):
                return 0
            self._waiting_inserts.add(who, first)
            # Inserts may go on until the balance is at its lower bound, -error_buffer.
            to_bound = self._limiter.balance + limiter.error_buffer
            free = self._credit + int(to_bound / limiter.samples_per_insert)
            return max(first, free - self._waiting_inserts.amount_of_others(who))

    def return_credit(self, steps: int) -> None:
        """Takes back steps that `insert` counted and that were not appended."""
        with self._lock:
            self._credit += steps
            self._change(inserted=-steps)

    def undo_inserted(self, answer: tuple[int, Counts], sizes: Sequence[int]) -> None:
        """Takes back what the call of `insert` with this answer counted."""
        self.return_credit(sum(sizes[: answer[0]]))

    def sample(self, who: str, n: int, reported_counts: Counts) -> tuple[bool, bool, str, Counts]:
        """Returns whether n items may be drawn, and counts them if so; whether the buffer is
        closed; what a sampler that may not draw waits for; the limiter's counts. `who`: the
        sampler, which is on the waiting list until it may draw."""
        with self._lock:
            if not self._has_counts(reported_counts):
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
        """Whether n items may be drawn beyond those for which others waited longer; counts them."""
        amount_before = self._waiting_draws.amount_before(who)
        # Draws may go on until the balance is at its upper bound, error_buffer.
        to_bound = self._spec.rate_limiter.error_buffer - self._limiter.balance
        if not self._limiter.admit(n):  # ValueError for a batch that can never be admitted.
            return False
        if amount_before == 0 or amount_before + n <= to_bound:
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
        """Undoes the call of `sample` with this answer: its count, or its place on the list."""
        if answer[0]:
            self.undo_sample(n)
        else:
            self.leave(who)

    def report(
        self,
        client: str,
        counters: dict[str, int],
        reported_counts: Counts,
        losses: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """Takes a process's counters, which replace its earlier ones, and the losses that it saw:
        shard, incarnation, and the steps that this incarnation committed, as far as it knows."""
        with self._lock:
            for loss in losses:
                self._lost(*loss)
            if any(counters.values()):  # Only these, because there may be very many processes.
                self._clients[client] = counters
            self._has_counts(reported_counts)

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
                "lost_shards": sum(shard.losses() for shard in self._shards),
                "restarts": sum(max(0, len(shard.incarnations) - 1) for shard in self._shards),
                "lost_steps": sum(shard.lost_steps() for shard in self._shards),
                "notes": [note for shard in self._shards for note in shard.notes],
                "limiter": self._reason(),
            }

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
