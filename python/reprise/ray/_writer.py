"""Writers of other processes: steps are recorded where they are made, and shipped by a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray

import reprise

from ._link import ASKED, LOST, Link, Remote, is_full
from ._outbox import SHIP_SECONDS, Outbox, Part, Recorder, waiting_in
from ._shard import NoWriter
from ._waiting import SLICE_SECONDS, Wait

log = logging.getLogger("reprise.ray")

RETRY_SECONDS = 0.01  # After the rate limiter had no room; twice as long after each refusal.
MOST_RETRY_SECONDS = 0.16
MOST_HELD_SECONDS = 1.0  # Between two attempts of a shipment that a shard refuses.


class _Flight:
    """A call to a shard: ends of writers that have left it, and shipments of several writers."""

    def __init__(self, remote: Remote, ends: list[Outbox], parts: list[Part]) -> None:
        self.remote, self.ends, self.parts = remote, ends, parts
        self.shipments = [box.end() for box in ends] + [one for _, one in parts]
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
        self._told = [0.0 for _ in link.remotes]  # When each shard was last told that we live.
        self._held = [0.0 for _ in link.remotes]  # Until when each shard, which failed, is spared.
        # Steps for which the rate limiter has room; None: it has not refused any.
        self.room: int | None = None
        self._question: Any = None
        self._ask_at, self._pause = 0.0, RETRY_SECONDS
        self._wake = threading.Event()
        self.news = threading.Condition()  # Told after every answer and shipment.
        threading.Thread(target=self._run, daemon=True, name="reprise.ray shipper").start()

    def add(self, boxes: Sequence[Outbox]) -> None:
        with self._lock:
            self._boxes.extend(boxes)

    def wake(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._link.closed:
            try:
                self._turn()
            except Exception as error:
                if not ray.is_initialized():
                    return
                log.exception("%s: shipping", self._link.spec.name)
                for box in list(self._boxes):
                    box.own.failure = error
                time.sleep(SLICE_SECONDS)
        self._tell()

    def _tell(self) -> None:
        with self.news:
            self.news.notify_all()

    def _turn(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._boxes = sorted(
                (one for one in self._boxes if not one.done), key=lambda one: one.served
            )
            boxes = list(self._boxes)
        taken = [box.take(self._link.spec.run_steps, now) for box in boxes]
        if any(taken):
            self._tell()  # Writers that are far ahead go on.
        for box in boxes:
            self._place(box)
        waiting = self._with_room(waiting_in(boxes, now), now)
        for remote in self._link.alive():
            if remote.index not in self._flights and now >= self._held[remote.index]:
                self._ship(remote, boxes, waiting, now)
        calls = {call: one for one in self._flights.values() for call in one.calls}
        if not calls:
            self._wake.wait(SHIP_SECONDS / 4 if boxes else 1.0)
            self._wake.clear()
            self._hurry()
            return
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=SHIP_SECONDS / 4)
        for call in ready:
            self._answered(calls[call], call)
            self._tell()
        if not ready:
            self._hurry()

    def _place(self, box: Outbox) -> None:
        """Whose shard is lost ships to another one, and home again once it is back."""
        remotes = self._link.remotes
        if box.left:
            box.left = {one for one in box.left if remotes[one].alive}
        if remotes[box.home].alive:
            wanted = box.home
        elif remotes[box.shard].alive:
            wanted = box.shard
        else:
            alive = self._link.alive()
            if not alive:
                return
            wanted = alive[box.home % len(alive)].index
        if wanted != box.shard and box.in_flight == 0:
            if remotes[box.shard].alive:
                box.left.add(box.shard)
            box.left.discard(wanted)
            box.shard = wanted

    def _with_room(self, waiting: list[Part], now: float) -> list[Part]:
        """Those that the rate limiter has room for. Once it had none, the head is asked, so that no
        blob is sent in vain again and again."""
        if self.room is None:
            return waiting
        if self._question is not None and ray.wait([self._question], timeout=0)[0]:
            question, self._question = self._question, None
            try:
                self.room = ray.get(question)
            except ray.exceptions.RayError:
                self.room = 0  # The head is being restarted.
            longer = min(2 * self._pause, MOST_RETRY_SECONDS)
            self._pause = RETRY_SECONDS if self.room else longer
            self._ask_at = now + self._pause
        sizes = [one.steps for _, one in waiting]
        total = sum(sizes)
        if self.room >= total > 0:
            self.room = None
            return waiting
        if self._question is None and total > 0 and now >= self._ask_at:
            self._question = self._link.head.room.remote(self._link.client, sizes)
        left, fit = self.room, 0
        while fit < len(sizes) and sizes[fit] <= left:
            left -= sizes[fit]
            fit += 1
        return waiting[:fit]

    def _ship(self, remote: Remote, boxes: list[Outbox], waiting: list[Part], now: float) -> None:
        index = remote.index
        parts = [part for part in waiting if part[0].shard == index]
        ends = [box for box in boxes if index in box.left]
        beat = now - self._told[index] > self._link.spec.beat_seconds
        lives = beat and any(box.used and box.shard == index for box in boxes)
        if not (parts or ends or lives):
            return
        for box, one in parts:
            box.in_flight += 1
            if self.room is not None:
                self.room -= one.steps
        self._told[index] = now
        flight = self._flights[index] = _Flight(remote, ends, parts)
        self._ask(flight)

    def _ask(self, flight: _Flight) -> None:
        flight.asked = time.monotonic()
        try:
            flight.calls.append(
                flight.remote.actor.append.remote(
                    self._link.client, flight.incarnation, flight.shipments
                )
            )
        except LOST as error:
            self._failed(flight, error)
        except ray.exceptions.RayError as error:
            if not is_full(error):
                raise
            self._link.count("full_object_store")  # No room for the shipments.

    def _answered(self, flight: _Flight, call: Any) -> None:
        index = flight.remote.index
        if self._flights.get(index) is not flight:
            return
        try:
            facts, outcomes = ray.get(call)
        except LOST as error:
            self._failed(flight, error)
            return
        except ray.exceptions.RayError as error:
            if is_full(error):
                self._link.count("full_object_store")
                flight.calls.remove(call)
                flight.asked = time.monotonic()
            else:
                cause = getattr(error, "cause", None) or error
                self._held[index] = time.monotonic() + SLICE_SECONDS
                self._ended(flight, [cause] * len(flight.shipments))
            return
        self._link.learn(facts)
        if flight.incarnation not in (0, facts.incarnation):
            self._failed(flight, RuntimeError("it was restarted"))
            return
        if len(outcomes) < len(flight.shipments) and not facts.closed:
            self.room = 0
        self._ended(flight, outcomes)

    def _ended(self, flight: _Flight, outcomes: Sequence[BaseException | None]) -> None:
        """What came of the first shipments of a flight; the rate limiter has no room for others."""
        del self._flights[flight.remote.index]
        now = time.monotonic()
        for box, outcome in zip(flight.ends, outcomes):
            if outcome is None:
                box.left.discard(flight.remote.index)
        for box, _ in flight.parts:
            box.in_flight = 0
        for (box, one), outcome in zip(flight.parts, outcomes[len(flight.ends) :]):
            if not box.shipped or box.shipped[0] is not one:
                continue  # One before it was refused.
            if outcome is None:
                box.taken_by_shard(now)
            else:
                self._refused(box, outcome, now)

    def _refused(self, box: Outbox, error: BaseException, now: float) -> None:
        """A shard could not take the oldest shipment of a writer, which goes out again later. Its
        own next call raises the error, unless what is missing may come by itself."""
        box.refused, box.reason = box.refused or now, str(error)
        waited = now - box.refused
        box.held = now + min(max(waited, SLICE_SECONDS), MOST_HELD_SECONDS)
        if isinstance(error, TimeoutError):
            return
        # Its own shard may come back, and writers of processes that are gone are closed in time.
        visits = box.shard != box.home
        if isinstance(error, NoWriter) and (visits or waited < 2 * self._link.spec.answer_timeout):
            return
        own = box.own
        own.failure = error
        if own.closing:
            name = self._link.spec.name
            log.warning("%s: a writer ended, and its last steps are lost: %s", name, error)
            with own.lock:
                self._link.count("lost_in_flight_steps", own.packer.steps_in(box.home))
                own.packer.take(box.home)
            self._give_up(box, len(box.shipped))
            box.closed = True
            box.left.add(box.shard)  # Which may have some of it.

    def _give_up(self, box: Outbox, shipments: int) -> None:
        for _ in range(shipments):
            self._link.count("lost_in_flight_steps", box.shipped.popleft().steps)

    def _failed(self, flight: _Flight, error: BaseException) -> None:
        """A lost shard may have appended what it did not acknowledge, and saved it: appended once
        more, those steps could be there twice. They are given up, and counted."""
        self._flights.pop(flight.remote.index, None)
        self._link.take_out(flight.remote, error, flight.incarnation)
        for box in flight.ends:
            box.left.discard(flight.remote.index)
        for box, _ in flight.parts:
            self._give_up(box, box.in_flight)
            box.in_flight = 0

    def _hurry(self) -> None:
        for flight in list(self._flights.values()):
            waited = time.monotonic() - flight.asked
            if not flight.calls and waited > SLICE_SECONDS:
                self._ask(flight)  # The object store was full.
            elif waited > self._link.spec.answer_timeout:
                if len(flight.calls) < ASKED:
                    self._link.count("asked_again")
                    self._ask(flight)
                else:
                    self._failed(flight, TimeoutError("it does not answer"))


class Writer:
    """As reprise.Writer or reprise.VectorWriter, in any process. `append` records the step here; it
    waits only while a shard is too far behind. One thread at a time."""

    def __init__(
        self,
        link: Link,
        shipper: Shipper,
        first: int,
        writers: int,
        make: Callable[[reprise.ReplayBuffer], Any],
        timeout: float | None,
    ) -> None:
        self._link, self._shipper, self._timeout = link, shipper, timeout
        self._own = Recorder(link, first, writers)
        self._packer, self._lock = self._own.packer, self._own.lock
        self._writer = make(self._own.prototype)
        self._ship_at = link.spec.run_steps
        self._most = 2 * link.spec.run_steps
        shipper.add(self._own.boxes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writer, name)

    def __del__(self) -> None:
        """Nobody has it any more: what it recorded is shipped, and waited for by nobody."""
        own = self.__dict__.get("_own")
        if own is not None and not own.closing and "_writer" in self.__dict__:
            self._writer.close()
            own.flush = own.closing = True

    def __len__(self) -> int:
        return len(self._writer)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any = None, value: Any = None, traceback: Any = None) -> None:
        self.close()

    def _check(self, what: str) -> None:
        failure, self._own.failure = self._own.failure, None
        if failure is not None:
            raise failure
        if self._link.closed:
            raise reprise.Closed(f"{what}: {self._link.spec.name} is closed")

    def _ready(self, timeout: float | None = None) -> None:
        """Before a step is taken, so that one that raises was not taken."""
        if self._link.closed or self._own.failure is not None:
            self._check("append")
        steps = self._packer.most_steps
        if steps >= self._ship_at:
            self._shipper.wake()
            if steps >= self._most:
                timeout = self._timeout if timeout is None else timeout
                self._wait("append", timeout, lambda: self._packer.most_steps < self._most)

    def _wait(self, what: str, timeout: float | None, done: Callable[[], bool]) -> None:
        wait = Wait(what, timeout, self._missing)
        self._shipper.wake()
        while True:
            if self._own.failure is not None:
                self._check(what)
            if done():
                if self._own.failure is not None:
                    self._check(what)  # It came meanwhile.
                return
            self._check(what)
            with self._shipper.news:
                self._shipper.news.wait(wait.left())
            if not done():
                wait.check()

    def _missing(self) -> str:
        remotes = self._link.remotes
        box = max(
            (one for one in self._own.boxes if not one.empty),
            key=lambda one: (not remotes[one.shard].alive, bool(one.reason), one.shipped_steps),
            default=self._own.boxes[0],
        )
        if not remotes[box.shard].alive:
            state = "is lost"
        elif box.reason:
            state = f"refuses them: {box.reason}"
        elif self._shipper.room is not None:
            state = "has to wait, as the rate limiter has no room for more"
        else:
            state = "has not acknowledged them"
        return f"{self._own.steps} steps are here, and shard {box.shard} {state}"

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
        own = self._own
        own.flush = True
        try:
            self._wait("flush", timeout, lambda: own.empty)
        finally:
            own.flush = False

    def leave(self) -> None:
        """Gives its places at the shards to others until it has more steps; no episode is open."""
        for box in self._own.boxes:
            box.leaves = box.used

    def close(self, timeout: float | None = 10.0) -> None:
        """Ends open episodes as truncated, and waits until everything is shipped. TimeoutError."""
        own = self._own
        if not own.closing:
            with self._lock:
                self._writer.close()
            own.flush = own.closing = True
        if not self._link.closed:
            done = lambda: all(one.closed and not one.shipped for one in own.boxes)
            self._wait("close", timeout, done)
