"""Writers of other processes: steps are recorded where they are made, and shipped by a thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import ray

import reprise

from ._link import ASKED, LOST, Link, Remote, is_full
from ._shard import Shipment
from ._talk import prototype_of
from ._waiting import SLICE_SECONDS, Wait

IN_FLIGHT = 4  # Shipments of a writer without an answer.
SHIP_SECONDS = 0.02  # A step waits no longer than this for company.
RETRY_SECONDS = 0.01  # After the rate limiter had no room.


class Outbox:
    """What one writer has recorded and a shard has not acknowledged."""

    def __init__(self, link: Link, home: int, writers: int) -> None:
        self.prototype = prototype_of(link.spec, writers)
        self.packer = reprise.StepPacker(self.prototype)
        self.lock = (
            threading.Lock()
        )  # No step is appended while what there is is counted and taken.
        self.home = self.shard = home
        self.shipped: deque[Shipment] = deque()
        self.in_flight = 0  # Of `shipped`, the first so many.
        self.flush = False
        self.closing = False
        self.closed = False
        self.taken = time.monotonic()

    @property
    def steps(self) -> int:
        return int(self.packer.steps) + sum(one.steps for one in self.shipped)

    def take(self, run_steps: int, now: float) -> None:
        """Makes a shipment of what there is, if there is enough of it or it has waited enough."""
        steps = self.packer.steps
        ripe = steps >= run_steps or self.flush or now - self.taken > SHIP_SECONDS
        if steps and ripe and len(self.shipped) < IN_FLIGHT:
            with self.lock:
                steps, blob = self.packer.steps, self.packer.take()
            self.shipped.append(Shipment(self.packer.writer_id, steps, blob))
            self.taken = now
        if self.closing and not self.closed and not self.packer.steps:
            self.shipped.append(Shipment(self.packer.writer_id, 0, None))
            self.closed = True


class _Flight:
    """A call to a shard with shipments of several writers."""

    def __init__(
        self, remote: Remote, boxes: list[tuple[Outbox, int]], shipments: list[Any]
    ) -> None:
        self.remote, self.boxes, self.shipments = remote, boxes, shipments
        self.incarnation = remote.facts.incarnation
        self.calls: list[Any] = []
        self.asked = 0.0


class Shipper:
    """The thread that ships. One call at a time is under way to each shard, with everything that
    the writers of this process have for it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()  # Guards _boxes.
        self._boxes: list[Outbox] = []
        self._flights: dict[int, _Flight] = {}
        self._held: dict[int, float] = (
            {}
        )  # Shards for which the rate limiter had no room, until when.
        self._wake = threading.Event()
        self.news = threading.Condition()  # Told after every answer.
        self.failure: BaseException | None = None
        threading.Thread(target=self._run, daemon=True, name="reprise.ray shipper").start()

    def add(self, box: Outbox) -> None:
        with self._lock:
            self._boxes.append(box)

    def wake(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._link.closed:
            try:
                self._turn()
            except Exception as error:
                if not ray.is_initialized():
                    return
                self.failure = error
            with self.news:
                self.news.notify_all()
        with self.news:
            self.news.notify_all()

    def _turn(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._boxes = [one for one in self._boxes if not (one.closed and not one.shipped)]
            boxes = list(self._boxes)
        for box in boxes:
            box.take(self._link.spec.run_steps, now)
            self._place(box)
        for remote in self._link.alive():
            if remote.index not in self._flights and now >= self._held.get(remote.index, 0.0):
                self._ship(remote, [one for one in boxes if one.shard == remote.index])
        if not self._flights:
            self._wake.wait(SHIP_SECONDS / 4 if boxes else 1.0)
            self._wake.clear()
            return
        calls = {call: one for one in self._flights.values() for call in one.calls}
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=SHIP_SECONDS / 4)
        for call in ready:
            self._answered(calls[call], call)
        if not ready:
            self._hurry()

    def _place(self, box: Outbox) -> None:
        """Whose shard is lost ships to another one, and home again once it is back."""
        if self._link.remotes[box.home].alive:
            wanted = box.home
        elif self._link.remotes[box.shard].alive:
            wanted = box.shard
        else:
            alive = self._link.alive()
            if not alive:
                return
            wanted = alive[box.home % len(alive)].index
        if wanted != box.shard and box.in_flight == 0:
            box.shard = wanted

    def _ship(self, remote: Remote, boxes: list[Outbox]) -> None:
        parts = [(box, len(box.shipped)) for box in boxes if box.shipped]
        if not parts:
            return
        shipments = [one for box, n in parts for one in list(box.shipped)[:n]]
        for box, n in parts:
            box.in_flight = n
        flight = self._flights[remote.index] = _Flight(remote, parts, shipments)
        self._ask(flight)

    def _ask(self, flight: _Flight) -> None:
        flight.asked = time.monotonic()
        try:
            flight.calls.append(
                flight.remote.actor.append.remote(flight.incarnation, flight.shipments)
            )
        except LOST as error:
            self._failed(flight, error)

    def _answered(self, flight: _Flight, call: Any) -> None:
        index = flight.remote.index
        if self._flights.get(index) is not flight:
            return
        try:
            facts, done = ray.get(call)
        except LOST as error:
            self._failed(flight, error)
            return
        except ray.exceptions.RayError as error:
            if not is_full(error):
                del self._flights[index]
                raise
            self._link.count("full_object_store")
            flight.calls.remove(call)
            self._held[index] = time.monotonic() + SLICE_SECONDS
            self._ask(flight)
            return
        self._link.learn(facts)
        if flight.incarnation not in (0, facts.incarnation):
            self._failed(flight, RuntimeError("it was restarted"))
            return
        del self._flights[index]
        if done < len(flight.shipments):
            self._held[index] = time.monotonic() + RETRY_SECONDS
        for box, n in flight.boxes:
            box.in_flight = 0
            for _ in range(min(n, done)):
                box.shipped.popleft()
            done = max(0, done - n)

    def _failed(self, flight: _Flight, error: BaseException) -> None:
        """A lost shard may have appended what it did not acknowledge, and saved it: appended once
        more, those steps could be there twice. They are given up, and counted."""
        self._flights.pop(flight.remote.index, None)
        if flight.remote.facts.incarnation == flight.incarnation:
            self._link.take_out(flight.remote, error)
        for box, n in flight.boxes:
            box.in_flight = 0
            for _ in range(n):
                self._link.count("lost_in_flight_steps", box.shipped.popleft().steps)

    def _hurry(self) -> None:
        for flight in list(self._flights.values()):
            if time.monotonic() - flight.asked > self._link.spec.answer_timeout:
                if len(flight.calls) < ASKED:
                    self._link.count("asked_again")
                    self._ask(flight)
                else:
                    self._failed(flight, TimeoutError("it does not answer"))


class Writer:
    """As reprise.Writer or reprise.VectorWriter, in any process. `append` records the step here; it
    waits only while the shards are too far behind. One thread at a time."""

    def __init__(
        self,
        link: Link,
        shipper: Shipper,
        home: int,
        writers: int,
        make: Callable[[reprise.ReplayBuffer], Any],
        timeout: float | None,
    ) -> None:
        self._link, self._shipper, self._timeout = link, shipper, timeout
        self._box = Outbox(link, home, writers)
        self._packer, self._lock = self._box.packer, self._box.lock
        self._writer = make(self._box.prototype)
        self._ship_at = link.spec.run_steps
        self._most = 2 * link.spec.run_steps
        shipper.add(self._box)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writer, name)

    def __del__(self) -> None:
        """Nobody has it any more: what it recorded is shipped, and waited for by nobody."""
        box = self.__dict__.get("_box")
        if box is not None and not box.closing and "_writer" in self.__dict__:
            self._writer.close()
            box.flush = box.closing = True

    def __len__(self) -> int:
        return len(self._writer)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any = None, value: Any = None, traceback: Any = None) -> None:
        self.close()

    def _ready(self) -> None:
        """Before a step is taken, so that one that raises was not taken."""
        if self._link.closed:
            raise reprise.Closed(f"append: {self._link.spec.name} is closed")
        steps = self._packer.steps
        if steps >= self._ship_at:
            self._shipper.wake()
            if steps >= self._most:
                self._wait("append", self._timeout, lambda: self._packer.steps < self._most)

    def _wait(self, what: str, timeout: float | None, done: Callable[[], bool]) -> None:
        wait = Wait(what, timeout, self._missing)
        while not done():
            if self._shipper.failure is not None:
                failure, self._shipper.failure = self._shipper.failure, None
                raise failure
            if self._link.closed:
                raise reprise.Closed(f"{what}: {self._link.spec.name} is closed")
            self._shipper.wake()
            with self._shipper.news:
                self._shipper.news.wait(wait.left())
            if not done():
                wait.check()

    def _missing(self) -> str:
        shard = self._link.remotes[self._box.shard]
        state = "has not acknowledged them" if shard.alive else "is lost"
        return f"{self._box.steps} steps are here, and shard {shard.index} {state}"

    def append(self, **fields: Any) -> None:
        self._ready()
        with self._lock:
            self._writer.append(**fields)

    def append_episode(self, **fields: Any) -> None:
        self._ready()
        with self._lock:
            self._writer.append_episode(**fields)

    def append_transition(self, **fields: Any) -> None:
        self._ready()
        with self._lock:
            self._writer.append_transition(**fields)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every step recorded here is in a shard, or counted as lost. TimeoutError."""
        box = self._box
        box.flush = True
        try:
            self._wait("flush", timeout, lambda: not box.packer.steps and not box.shipped)
        finally:
            box.flush = False

    def close(self, timeout: float | None = 10.0) -> None:
        """Ends open episodes as truncated, and waits until everything is shipped. TimeoutError."""
        if not self._box.closing:
            with self._lock:
                self._writer.close()
            self._box.flush = self._box.closing = True
        if not self._link.closed:
            self._wait("close", timeout, lambda: self._box.closed and not self._box.shipped)
