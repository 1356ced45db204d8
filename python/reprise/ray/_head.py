"""The actor that knows what is true of all shards: sums for the rate limiter, losses,
checkpoints."""

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


# What processes count of their own, and report.
COUNTS = (
    "asked_again",
    "full_object_store",
    "lost_in_flight_steps",
    "reallotted_draws",
    "stale_updates_at_clients",
)
SILENT_SECONDS = 2.0  # Whoever waits for room asks several times in one.
RESUME_SECONDS = 1.5  # After a restart of the head: every shard reports more often.


class Sums(NamedTuple):
    """What the rate limiter has counted. Whoever asks the head is told them, and tells them the
    next time: so a head that was restarted goes on with the newest."""

    changes: int = 0  # So far.
    inserted: int = 0  # Steps.
    admitted: int = 0  # Items.


class _Life:
    """An incarnation of a shard."""

    def __init__(self) -> None:
        self.loaded = 0  # Steps that it began with.
        self.committed = 0  # Steps, at most known.
        self.lost = False  # Somebody found it gone.


class _Known:
    """A shard, as its reports and those of clients tell it."""

    def __init__(self) -> None:
        self.lives: dict[int, _Life] = {}
        self.notes: list[str] = []

    @property
    def incarnation(self) -> int:
        """The newest one; 0 if none has been heard of."""
        return max(self.lives, default=0)

    def life(self, incarnation: int) -> _Life:
        return self.lives.setdefault(incarnation, _Life())

    def tell(self, incarnation: int, committed: int, loaded: int = 0) -> None:
        life = self.life(incarnation)
        life.loaded = max(life.loaded, loaded)
        life.committed = max(life.committed, committed, loaded)

    def losses(self) -> int:
        newest = self.incarnation
        return sum(life.lost or one < newest for one, life in self.lives.items())

    def lost_steps(self) -> int:
        lives = [self.lives[one] for one in sorted(self.lives)]
        return sum(max(0, a.committed - b.loaded) for a, b in zip(lives, lives[1:]))


class _Turns:
    """Who waits for the rate limiter, the longest first. Who has not asked for a while waits no
    more."""

    def __init__(self) -> None:
        # Steps of a writer or items of a sampler, and when it asked last.
        self._waiting: dict[str, tuple[int, float]] = {}

    def before(self, who: str) -> int:
        """For how many steps or items others have waited longer."""
        end = time.monotonic() - SILENT_SECONDS
        self._waiting = {one: its for one, its in self._waiting.items() if its[1] >= end}
        longer = takewhile(lambda one: one != who, self._waiting)
        return sum(self._waiting[one][0] for one in longer)

    def others(self, who: str) -> int:
        """For how many steps or items others wait."""
        return sum(n for one, (n, _) in self._waiting.items() if one != who)

    def wait(self, who: str, n: int) -> None:
        self._waiting[who] = n, time.monotonic()  # Where it is, if it waits already.

    def served(self, who: str) -> None:
        self._waiting.pop(who, None)


class Head:
    """Every call is short and waits for nothing. What a head knew that is restarted others tell it:
    shards the sums of the rate limiter, which checkpoints there are, and what they began with,
    learners the sums, and all clients the losses that they saw and their counts."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        # With more writers it books smaller blocks, of which less is left over.
        self._limiter = reprise.ShardedLimiter(
            spec.rate_limiter, sum(spec.capacities), max_writers=16
        )
        self._room = 0  # Steps of credit that nobody has used.
        self._turns = _Turns()  # Of processes that insert.
        self._draws = _Turns()  # Of samplers.
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
            again = incarnation in known.lives
            known.tell(incarnation, loaded, loaded)
            if note and not again:
                known.notes.append(note)
                log.warning("%s: %s", self._spec.name, note)

    def _lost(self, shard: int, incarnation: int, committed: int) -> None:
        """A client found an incarnation gone; it knows of so many steps that this one committed."""
        known = self._shards[shard]
        # A client that attached before this one was heard of does not know it.
        incarnation = incarnation or known.incarnation
        if not incarnation:
            return  # Nobody knows which one.
        known.tell(incarnation, committed)
        if incarnation == known.incarnation and not known.life(incarnation).lost:
            self._limiter.tell(shard, 0)  # Or its successor has items.
        known.life(incarnation).lost = True

    def beat(
        self,
        shard: int,
        incarnation: int,
        committed: int,
        loaded: int,
        items: int,
        checkpoints: str | None,
        told: Sums,
    ) -> tuple[bool, Sums]:
        """Takes what a shard has; returns whether the buffer is closed, and the sums."""
        with self._lock:
            known = self._shards[shard]
            known.tell(incarnation, committed, loaded)
            self._checkpoints = self._checkpoints or checkpoints
            # A report of the one before may be read after its successor has started.
            if incarnation == known.incarnation:
                self._limiter.tell(shard, items)
            self._counts(told)
            return self._closed, self._sums

    def insert(
        self, shard: int, incarnation: int, who: str, sizes: Sequence[int], items: int, told: Sums
    ) -> tuple[int, Sums]:
        """How many of these shipments, of so many steps, may go in; they are counted. `who`: the
        process that they are of, which gets room by turns."""
        with self._lock:
            if incarnation >= self._shards[shard].incarnation:
                self._limiter.tell(shard, items)
            if self._closed or not self._counts(told):
                return 0, self._sums
            done = 0
            while done < len(sizes) and self._grants(who, sizes[done]):
                self._turns.served(who)
                self._room -= sizes[done]
                self._change(inserted=sizes[done])
                done += 1
            return done, self._sums

    def _grants(self, who: str, steps: int) -> bool:
        """Whether there is room for so many steps, besides those for which others have waited
        longer."""
        granted = self._books(self._turns.before(who) + steps)
        if not granted:
            self._turns.wait(who, steps)
        return granted

    def _books(self, steps: int) -> bool:
        """Whether there is room for so many steps, which stays for whoever inserts first."""
        while self._room < steps:
            credit = self._limiter.credit()
            if credit == 0:
                return False
            self._room += credit
        return True

    def room(self, who: str, sizes: Sequence[int]) -> int:
        """Steps of these shipments that would be let in now, at least nearly; nothing is counted.
        0 if not even the first one would be. Whoever is told so keeps its turn until it inserts."""
        with self._lock:
            limiter = self._spec.rate_limiter
            first = next(one for one in sizes if one)
            if self._closed or not self._counts(Sums()) or not self._grants(who, first):
                return 0
            self._turns.wait(who, first)
            ahead = self._limiter.balance + limiter.error_buffer
            room = self._room + int(ahead / limiter.samples_per_insert)
            return max(first, room - self._turns.others(who))

    def give_room(self, steps: int) -> None:
        """Takes back the count of steps that had been inserted before."""
        with self._lock:
            self._room += steps
            self._change(inserted=-steps)

    def undo_inserted(self, answer: tuple[int, Sums], sizes: Sequence[int]) -> None:
        """Gives back what the call of `insert` with this answer counted."""
        self.give_room(sum(sizes[: answer[0]]))

    def sample(self, who: str, n: int, told: Sums) -> tuple[bool, bool, str, Sums]:
        """Whether n items may be drawn, which counts them; whether closed; what is missing; the
        sums. `who`: the sampler, which waits for its turn until it is let in, leaves or is
        silent."""
        with self._lock:
            if not self._counts(told):
                said = "the head of the buffer, which was restarted and looks for its counts"
                return False, self._closed, said, self._sums
            done = not self._closed and self._admits(who, n)
            if done:
                self._draws.served(who)
                self._change(admitted=n)
            else:
                self._draws.wait(who, n)
            return done, self._closed, self._said(), self._sums

    def _admits(self, who: str, n: int) -> bool:
        """Whether n items may be drawn, besides those for which others have waited longer."""
        before = self._draws.before(who)
        left = self._spec.rate_limiter.error_buffer - self._limiter.balance
        if not self._limiter.admit(n):  # ValueError for a batch that never could be, whoever waits.
            return False
        if before == 0 or before + n <= left:
            return True
        self._limiter.return_samples(n)
        return False

    def leave(self, who: str) -> None:
        """Of a sampler that asks no more: others need not wait for it."""
        with self._lock:
            self._draws.served(who)

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

    def undo_admitted(self, answer: tuple[bool, bool, str, Sums], who: str, n: int) -> None:
        """Undoes the call of `sample` with this answer: what it counted, or the turn that it took."""
        if answer[0]:
            self.undo_sample(n)
        else:
            self.leave(who)

    def report(
        self,
        client: str,
        counts: dict[str, int],
        told: Sums,
        losses: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """Counts of a process so far; the newest replace those before. Losses that it saw: shard,
        incarnation, and the steps that it knows this one committed."""
        with self._lock:
            for one in losses:
                self._lost(*one)
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
                "lost_shards": sum(one.losses() for one in self._shards),
                "restarts": sum(max(0, len(one.lives) - 1) for one in self._shards),
                "lost_steps": sum(one.lost_steps() for one in self._shards),
                "notes": [note for one in self._shards for note in one.notes],
                "limiter": self._said(),
            }

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
