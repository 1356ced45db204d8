"""The actor that knows what is true of all shards: sums for the rate limiter, losses,
checkpoints."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import reprise

from ._options import Spec

log = logging.getLogger("reprise.ray")


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
    """Every call is short and waits for nothing. A head that is restarted counts anew: the rate
    limiter from nothing, losses from the next ones on; shards tell it the rest."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._limiter = reprise.ShardedLimiter(
            spec.rate_limiter, sum(spec.capacities), max_writers=1
        )
        self._room = 0  # Steps of credit that nobody has used.
        self._inserted = self._admitted = 0
        self._shards = [_Known() for _ in spec.capacities]
        self._clients: dict[str, dict[str, int]] = {}
        self._checkpoints: str | None = None
        self._closed = False
        # Who makes the buffer says that it is new; nobody says so after a restart.
        self._new = False

    def spec(self) -> Spec:
        return self._spec

    def begin(self) -> None:
        with self._lock:
            self._new = True

    def hello(self, shard: int) -> dict[str, Any]:
        """A shard is being started, perhaps again."""
        with self._lock:
            again = bool(self._shards[shard].incarnation) or not self._new
            return {"checkpoints": self._checkpoints, "again": again, "closed": self._closed}

    def started(self, shard: int, incarnation: int, loaded: int, note: str) -> None:
        with self._lock:
            known = self._shards[shard]
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
            # A client that had no answer yet does not know which incarnation it was.
            incarnation = incarnation or known.incarnation
            known.lost.add(incarnation)
            self._limiter.tell(shard, 0)
            known.committed[incarnation] = max(committed, known.committed.get(incarnation, 0))

    def beat(
        self,
        shard: int,
        incarnation: int,
        committed: int,
        items: int,
        checkpoints: str | None,
    ) -> bool:
        """Takes what a shard has; returns whether the buffer is closed."""
        with self._lock:
            known = self._shards[shard]
            known.incarnation = incarnation
            known.committed[incarnation] = max(committed, known.committed.get(incarnation, 0))
            self._checkpoints = self._checkpoints or checkpoints
            self._limiter.tell(shard, items)
            return self._closed

    def insert(self, shard: int, sizes: Sequence[int], items: int) -> int:
        """How many of these shipments, of so many steps, may go in; they are counted."""
        with self._lock:
            if self._closed:
                return 0
            self._limiter.tell(shard, items)
            for done, steps in enumerate(sizes):
                while self._room < steps:
                    credit = self._limiter.credit()
                    if credit == 0:
                        return done
                    self._room += credit
                self._room -= steps
                self._inserted += steps
            return len(sizes)

    def give_room(self, steps: int) -> None:
        """Takes back the count of steps that had been inserted before."""
        with self._lock:
            self._room += steps
            self._inserted -= steps

    def sample(self, n: int) -> tuple[bool, bool, str]:
        """Whether n items may be drawn, which counts them; whether closed; what is missing."""
        with self._lock:
            done = not self._closed and self._limiter.admit(n)
            self._admitted += n if done else 0
            return done, self._closed, self._said()

    def _said(self) -> str:
        return (
            f"{self._admitted} items sampled for {self._inserted} steps inserted, "
            f"{self._limiter.balance:+.0f} ahead of the ratio"
            if self._spec.rate_limiter_holds_writers
            else "nobody waits for a ratio"
        )

    def undo_sample(self, n: int) -> None:
        with self._lock:
            n = min(n, self._admitted)  # A head that was restarted counts from 0.
            self._limiter.return_samples(n)
            self._admitted -= n

    def report(self, client: str, counts: dict[str, int]) -> None:
        """Counts of a process so far; the newest replace those before."""
        with self._lock:
            self._clients[client] = counts

    def saved(self, directory: str) -> None:
        with self._lock:
            self._checkpoints = directory

    def stats(self) -> dict[str, Any]:
        with self._lock:
            totals: dict[str, int] = {}
            for counts in self._clients.values():
                for name, value in counts.items():
                    totals[name] = totals.get(name, 0) + value
            return {
                **totals,
                "inserted_steps": self._inserted,
                "admitted_samples": self._admitted,
                "lost_shards": sum(len(one.lost) for one in self._shards),
                "restarts": sum(len(one.before) for one in self._shards),
                "lost_steps": sum(one.lost_steps() for one in self._shards),
                "notes": [note for one in self._shards for note in one.notes],
                "limiter": self._said(),
                "clients": len(self._clients),
            }

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
