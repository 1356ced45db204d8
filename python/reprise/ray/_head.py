"""The actor that knows what is true of all shards: sums for the rate limiter, losses,
checkpoints."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import reprise

from ._options import Spec

log = logging.getLogger("reprise.ray")


# What processes count of their own, and report.
COUNTS = (
    "asked_again",
    "full_object_store",
    "lost_in_flight_steps",
    "reallotted_draws",
    "stale_updates_at_clients",
)
RESUME_SECONDS = 1.5  # After a restart of the head: every shard reports more often.


class Sums(NamedTuple):
    """What the rate limiter has counted. Whoever asks the head is told them, and tells them the
    next time: so a head that was restarted goes on with the newest."""

    changes: int = 0  # So far.
    inserted: int = 0  # Steps.
    admitted: int = 0  # Items.


class _Known:
    """A shard, as its reports tell it."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.committed: dict[int, int] = {}  # Steps, at most known of each incarnation.
        self.loaded: dict[int, int] = {}  # Steps that each incarnation began with.
        self.before: dict[int, int] = {}  # The incarnation before each.
        self.lost: set[int] = set()  # Incarnations that somebody found gone.
        self.notes: list[str] = []

    def lost_steps(self) -> int:
        return sum(
            max(0, self.committed.get(before, 0) - self.loaded.get(now, 0))
            for now, before in self.before.items()
        )


class Head:
    """Every call is short and waits for nothing. A head that is restarted counts losses from the
    next ones on; the sums of the rate limiter, and which checkpoints there are, others tell it."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        # With more writers it books smaller blocks, of which less is left over.
        self._limiter = reprise.ShardedLimiter(
            spec.rate_limiter, sum(spec.capacities), max_writers=16
        )
        self._room = 0  # Steps of credit that nobody has used.
        self._sums = Sums()
        self._shards = [_Known() for _ in spec.capacities]
        self._clients: dict[str, dict[str, int]] = {}
        self._checkpoints: str | None = None
        self._closed = False
        # Who makes the buffer says that it is new; nobody says so after a restart.
        self._new = False
        # Until then nobody is let in, and the newest sums are looked for in what others say.
        self._resumes: float | None = time.monotonic() + RESUME_SECONDS
        self._newest = Sums()

    def spec(self) -> Spec:
        return self._spec

    def incarnations(self) -> list[int]:
        """The present one of each shard; 0 of one that has not been heard of."""
        with self._lock:
            return [one.incarnation for one in self._shards]

    def begin(self) -> None:
        with self._lock:
            self._new, self._resumes = True, None

    def _counts(self, told: Sums) -> bool:
        """Whether the sums are known, which is so but for a while after a restart."""
        if self._resumes is None:
            return True
        self._newest = max(self._newest, told)
        if time.monotonic() < self._resumes:
            return False
        self._resumes = None
        # What was taken back meanwhile is in the present sums.
        self._change(*self._newest[1:])
        self._sums = self._sums._replace(changes=self._newest.changes + self._sums.changes)
        self._limiter.restore(self._sums.inserted, self._sums.admitted)
        return True

    def _change(self, inserted: int = 0, admitted: int = 0) -> None:
        now = self._sums
        self._sums = Sums(now.changes + 1, now.inserted + inserted, now.admitted + admitted)

    def hello(self, shard: int) -> dict[str, Any]:
        """A shard is being started, perhaps again."""
        with self._lock:
            again = bool(self._shards[shard].incarnation) or not self._new
            return {
                "checkpoints": self._checkpoints,
                "again": again,
                "closed": self._closed,
                "before": self._shards[shard].incarnation,
            }

    def started(self, shard: int, incarnation: int, loaded: int, note: str) -> None:
        with self._lock:
            known = self._shards[shard]
            if incarnation <= known.incarnation:
                return  # Late: this one is known, or its successor is.
            if known.incarnation:
                known.before[incarnation] = known.incarnation
                known.lost.add(known.incarnation)
            known.incarnation = incarnation
            known.loaded[incarnation] = loaded
            known.committed.setdefault(incarnation, loaded)
            if note:
                known.notes.append(note)
                log.warning("%s: %s", self._spec.name, note)

    def lost(self, shard: int, incarnation: int, committed: int) -> None:
        """A client found an incarnation gone; it knows of so many steps that this one committed."""
        with self._lock:
            known = self._shards[shard]
            # A client that attached before this one was heard of does not know it.
            incarnation = incarnation or known.incarnation
            known.lost.add(incarnation)
            if incarnation == known.incarnation:  # Or its successor has items.
                self._limiter.tell(shard, 0)
            known.committed[incarnation] = max(committed, known.committed.get(incarnation, 0))

    def beat(
        self,
        shard: int,
        incarnation: int,
        committed: int,
        items: int,
        checkpoints: str | None,
        told: Sums,
    ) -> tuple[bool, Sums]:
        """Takes what a shard has; returns whether the buffer is closed, and the sums."""
        with self._lock:
            known = self._shards[shard]
            # A report of the one before may be read after its successor has started.
            known.incarnation = max(known.incarnation, incarnation)
            known.committed[incarnation] = max(committed, known.committed.get(incarnation, 0))
            self._checkpoints = self._checkpoints or checkpoints
            if incarnation == known.incarnation:
                self._limiter.tell(shard, items)
            self._counts(told)
            return self._closed, self._sums

    def insert(
        self, shard: int, incarnation: int, sizes: Sequence[int], items: int, told: Sums
    ) -> tuple[int, Sums]:
        """How many of these shipments, of so many steps, may go in; they are counted."""
        with self._lock:
            if incarnation >= self._shards[shard].incarnation:
                self._limiter.tell(shard, items)
            if self._closed or not self._counts(told):
                return 0, self._sums
            done = 0
            while done < len(sizes) and self._books(sizes[done]):
                self._room -= sizes[done]
                self._change(inserted=sizes[done])
                done += 1
            return done, self._sums

    def _books(self, steps: int) -> bool:
        """Whether there is room for so many steps, which stays for whoever inserts first."""
        while self._room < steps:
            credit = self._limiter.credit()
            if credit == 0:
                return False
            self._room += credit
        return True

    def room(self, sizes: Sequence[int]) -> int:
        """Steps of these shipments that would be let in now, at least nearly; nothing is counted.
        0 if not even the first one would be."""
        with self._lock:
            limiter = self._spec.rate_limiter
            first = next(one for one in sizes if one)
            if self._closed or not self._counts(Sums()) or not self._books(first):
                return 0
            ahead = self._limiter.balance + limiter.error_buffer
            return max(first, self._room + int(ahead / limiter.samples_per_insert))

    def give_room(self, steps: int) -> None:
        """Takes back the count of steps that had been inserted before."""
        with self._lock:
            self._room += steps
            self._change(inserted=-steps)

    def undo_inserted(self, answer: tuple[int, Sums], sizes: Sequence[int]) -> None:
        """Gives back what the call of `insert` with this answer counted."""
        self.give_room(sum(sizes[: answer[0]]))

    def sample(self, n: int, told: Sums) -> tuple[bool, bool, str, Sums]:
        """Whether n items may be drawn, which counts them; whether closed; what is missing; the
        sums."""
        with self._lock:
            if not self._counts(told):
                said = "the head of the buffer, which was restarted and looks for its counts"
                return False, self._closed, said, self._sums
            done = not self._closed and self._limiter.admit(n)
            if done:
                self._change(admitted=n)
            return done, self._closed, self._said(), self._sums

    def _said(self) -> str:
        return (
            f"{self._sums.admitted} items sampled for {self._sums.inserted} steps inserted, "
            f"{self._limiter.balance:+.0f} ahead of the ratio"
            if self._spec.rate_limiter_holds_writers
            else "nobody waits for a ratio"
        )

    def undo_sample(self, n: int) -> None:
        with self._lock:
            if self._resumes is None:
                self._limiter.return_samples(n)
            self._change(admitted=-n)

    def undo_admitted(self, answer: tuple[bool, bool, str, Sums], n: int) -> None:
        """As undo_sample, if the call of `sample` with this answer counted them."""
        if answer[0]:
            self.undo_sample(n)

    def report(self, client: str, counts: dict[str, int], told: Sums) -> None:
        """Counts of a process so far; the newest replace those before."""
        with self._lock:
            if any(counts.values()):  # Most processes come and go without a fault.
                self._clients[client] = counts
            self._counts(told)

    def saved(self, directory: str) -> None:
        with self._lock:
            self._checkpoints = directory

    def stats(self) -> dict[str, Any]:
        with self._lock:
            totals = dict.fromkeys(COUNTS, 0)
            for counts in self._clients.values():
                for name, value in counts.items():
                    totals[name] += value
            return {
                **totals,
                "inserted_steps": self._sums.inserted,
                "admitted_samples": self._sums.admitted,
                "lost_shards": sum(len(one.lost) for one in self._shards),
                "restarts": sum(len(one.before) for one in self._shards),
                "lost_steps": sum(one.lost_steps() for one in self._shards),
                "notes": [note for one in self._shards for note in one.notes],
                "limiter": self._said(),
            }

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
