"""The learner's talk with all shards: requests, answers, and what was asked again."""

from __future__ import annotations

import select
import threading
import time
import weakref
from collections import deque
from typing import Any

import numpy as np
import ray

import reprise

from .._files import uncompressed
from .._memory import bfloat16_of
from ._direct import Answer, Line, line_to
from ._link import ASKED, LOST, Link, Remote, is_full
from ._shard import Facts
from ._waiting import SLICE_SECONDS, Wait

# An item, wherever it is: its key within its shard, the shard, and which life of that shard gave
# it.
KEY = np.dtype([("key", np.int64), ("incarnation", np.uint64), ("shard", np.uint32)])


# Calls of Ray and lines cannot be waited for together: lines for so long, and then calls at once.
MIXED_SECONDS = 0.001


def keys_of(given: Any, shards: int) -> Any:
    """The array of items that `update_priorities` is given, of a buffer of so many shards."""
    keys = np.asarray(given)
    if keys.dtype != KEY:
        raise TypeError(
            f"update_priorities: keys has dtype {keys.dtype}; allowed: item_keys of a batch of "
            "reprise.ray"
        )
    if len(keys) and int(keys["shard"].max()) >= shards:
        raise ValueError("update_priorities: keys has an item of another buffer")
    return keys


def priorities_of(given: Any, keys: Any) -> Any:
    """The priorities that `update_priorities` is given for them; the client judges their range."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            "update_priorities: priorities is a masked array, whose mask would be lost; allowed: "
            "its filled(value)"
        )
    half = bfloat16_of(given)
    try:
        values = np.asarray(given) if half is None else half.astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        why = f"update_priorities: no array can be made of priorities: {error}"
        raise ValueError(why) from error
    if values.dtype.kind not in "biuf":
        raise TypeError(f"update_priorities: priorities has dtype {values.dtype}; allowed: numbers")
    if values.shape != keys.shape or keys.ndim != 1:
        raise ValueError(
            f"update_priorities: priorities has shape {values.shape}; allowed: that of keys, "
            f"{keys.shape}, of one dimension"
        )
    with np.errstate(over="ignore"):  # What is beyond float32 is refused as infinite.
        return np.ascontiguousarray(values, np.float32)


class _Flight:
    """A request without an answer."""

    def __init__(self, number: int, incarnation: int, request: Any) -> None:
        self.number, self.incarnation, self.request = number, incarnation, request
        self.calls: list[Any] = []
        self.line: Line | None = None  # It was sent on this one first.
        self.times = 0  # It was asked so often, and when last.
        self.asked = 0.0
        self.answer: Any = None


class Talk:
    """One `reprise.ShardClient` and its requests. Any thread.

    Answers are handed to the client in the sequence of their requests. A request that is asked
    again has its number again, and so is worked on once; the answer that comes first counts. It is
    asked by the line to a shard on this node, and by a call of Ray again or without a line.
    """

    def __init__(
        self,
        link: Link,
        name: str,
        selector: int = 0,
        seed: int = 0,
        allocator: Any = None,
        unique_frames: bool = False,
    ) -> None:
        self.link, self._name = link, f"{link.client}.{name}"
        self.lock = threading.RLock()  # Guards the client and the flights.
        prototype = prototype_of(link.spec)
        self.client = reprise.ShardClient(
            prototype,
            len(link.remotes),
            selector=selector,
            seed=seed,
            allocator=allocator,
            unique_frames=unique_frames,
        )
        self._flights: list[deque[_Flight]] = [deque() for _ in link.remotes]
        # To each shard, for one incarnation; None where there is none, or it broke.
        self._lines: dict[int, tuple[int, Line | None]] = {}
        self._reading = threading.Lock()  # Taken by the thread that takes answers.
        self._numbered = 0
        self._counted = (0, 0)
        self.changed = False  # Draws were allotted again and not requested yet.
        self.waiting_updates = 0  # Queued since the last request, and when the first of them was.
        self.waiting_since = 0.0
        # Weak, as a sampler that nobody has any more needs to hear of nothing.
        link.on_loss.append(weakref.WeakMethod(self._lost))
        link.upkeep.append(weakref.WeakMethod(self._send_updates))

    def _lost(self, shard: int, restarted: bool = False) -> None:
        """`restarted`: its successor is there, and gets the updates that were under way."""
        with self.lock:
            self._flights[shard].clear()
            self.client.lose(shard, restarted)
            self.changed = True
            if restarted:
                self._note_updates(1)  # Of how many there are only the client knows.
            self._count()

    def _count(self) -> None:
        before, now = self._counted, (self.client.reallotted, self.client.stale_updates)
        self._counted = now
        self.link.count("reallotted_draws", now[0] - before[0])
        self.link.count("stale_updates_at_clients", now[1] - before[1])

    def send(self) -> list[tuple[int, _Flight]]:
        """Sends every shard what there is for it, or a question for its totals."""
        self.changed = False
        with self.lock:
            self.waiting_updates = 0  # The requests below take them all.
        sent = []
        for remote in self.link.alive():
            with self.lock:
                known = remote.facts.incarnation
                flight = _Flight(self._numbered, known, self.client.request(remote.index))
                self._numbered += 1
                self._flights[remote.index].append(flight)
            sent.append((remote.index, flight))
            self._ask(remote, flight)
        return sent

    def _ask(self, remote: Remote, flight: _Flight) -> None:
        with self.lock:
            flights = self._flights[remote.index]
            oldest = flights[0].number if flights else flight.number
            flight.asked = time.monotonic()
            flight.times += 1
            line = self._line_to(remote) if flight.times == 1 else None
            try:
                if line is not None:
                    line.send(flight.number, oldest, flight.incarnation, flight.request)
                    flight.line = line
                    return
            except BlockingIOError:
                pass  # A shard that is stopped, or an update of very many.
            except OSError:
                self._lines[remote.index] = flight.incarnation, None
            try:
                call = remote.actor.exchange.remote(
                    self._name, flight.number, oldest, flight.incarnation, flight.request
                )
                flight.calls.append(call)
                return
            except LOST as error:
                failure = error
        self.link.take_out(remote, failure, flight.incarnation)

    def _line_to(self, remote: Remote) -> Line | None:
        known = remote.facts.incarnation
        if known and self._lines.get(remote.index, (0, None))[0] != known:
            line = line_to(self.link.spec.name, remote.index, known, self._name)
            self._lines[remote.index] = known, line
        return self._lines.get(remote.index, (0, None))[1]

    def collect(self, wait: Wait) -> bool:
        """Takes answers that come within a moment. True if there may be news: an answer, a loss."""
        self.link.check_open()
        if not self._reading.acquire(blocking=False):
            # What the other thread takes may be what this one waits for.
            if self._reading.acquire(timeout=wait.left()):
                self._reading.release()
                return True
            wait.check()
            return False
        try:
            news = self._collect(wait)
        finally:
            self._reading.release()
        self._hurry()
        if not news:
            wait.check()
        return news

    def _collect(self, wait: Wait) -> bool:
        with self.lock:
            waiting = [
                (self.link.remotes[shard], flight)
                for shard, flights in enumerate(self._flights)
                for flight in flights
                if flight.answer is None
            ]
            calls = {call: (remote, flight) for remote, flight in waiting for call in flight.calls}
            lines = {flight.line: remote for remote, flight in waiting if flight.line is not None}
        if not waiting:
            wait.pause(0.001)
            return True
        heard = False
        if lines:
            heard = self._hear(lines, MIXED_SECONDS if calls else wait.left())
        ready = []
        if calls:
            ready, _ = ray.wait(
                list(calls),
                num_returns=len(calls) if lines else 1,
                timeout=0 if lines else wait.left(),
            )
            if ready and not lines:
                ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        for call in ready:
            self._take(call, *calls[call], wait)
        return heard or bool(ready)

    def _hear(self, lines: dict[Line, Remote], seconds: float) -> bool:
        poll = select.poll()
        remotes = {}
        for line, remote in lines.items():
            poll.register(line, select.POLLIN)
            remotes[line.fileno()] = line, remote
        ready = poll.poll(1000 * seconds)
        for number, _ in ready:
            line, remote = remotes[number]
            try:
                answers = line.take()
            except OSError:
                self._break(line, remote)
                continue
            for one in answers:
                self._heard(one, line, remote)
        return bool(ready)

    def _heard(self, answer: Answer, line: Line, remote: Remote) -> None:
        with self.lock:
            found = (
                one
                for one in self._flights[remote.index]
                if one.number == answer.number and one.answer is None
            )
            flight = next(found, None)
        if flight is None:
            return
        if answer.failed:
            flight.line = None
            if not flight.calls:
                self._ask(remote, flight)
            return
        facts = Facts(answer.shard, answer.incarnation, answer.committed, answer.closed)
        self._answered(remote, flight, facts, answer.blob)

    def _break(self, line: Line, remote: Remote) -> None:
        """What was sent on a line that broke is asked by Ray, which knows whether the shard is
        lost."""
        with self.lock:
            known, now = self._lines[remote.index]
            if now is line:
                self._lines[remote.index] = known, None
            again = [one for one in self._flights[remote.index] if one.line is line]
            for flight in again:
                flight.line = None
        for flight in again:
            if flight.answer is None and not flight.calls:
                self._ask(remote, flight)

    def _take(self, call: Any, remote: Remote, flight: _Flight, wait: Wait) -> None:
        try:
            facts, answer = ray.get(call)
        except LOST as error:
            self.link.take_out(remote, error, flight.incarnation)
            with self.lock:
                if flight in self._flights[remote.index]:
                    self._lost(remote.index)  # It was asked while the shard was taken out.
            return
        except ray.exceptions.RayError as error:
            if not is_full(error):
                self._lost(remote.index)  # Or the next call would find the same error.
                raise
            self.link.count("full_object_store")
            with self.lock:
                flight.calls.remove(call)
                flight.times -= 1
            wait.pause(SLICE_SECONDS)
            self._ask(remote, flight)
            return
        self._answered(remote, flight, facts, answer)

    def _answered(self, remote: Remote, flight: _Flight, facts: Facts, answer: Any) -> None:
        if not self.link.learn(facts):
            return
        with self.lock:
            flights = self._flights[remote.index]
            if flight not in flights:
                return
            if answer is None:
                self._lost(remote.index, restarted=True)  # It was asked as its predecessor.
                return
            flight.answer = answer
            while flights and flights[0].answer is not None:
                self.client.answer(remote.index, flights.popleft().answer)

    def _hurry(self) -> None:
        """Asks again what has had no answer for too long."""
        late = []
        with self.lock:
            for shard, flights in enumerate(self._flights):
                for flight in flights:
                    waited = time.monotonic() - flight.asked
                    if flight.answer is None and waited > self.link.spec.answer_timeout:
                        late.append((self.link.remotes[shard], flight))
        for remote, flight in late:
            if flight.times < ASKED:
                self.link.count("asked_again")
                self._ask(remote, flight)
            else:
                failure = TimeoutError("it does not answer")
                self.link.take_out(remote, failure, flight.incarnation)
                with self.lock:
                    if flight in self._flights[remote.index]:
                        self._lost(remote.index)  # It was asked while the shard was taken out.

    def asked(self) -> set[int]:
        """Shards that have not answered yet."""
        return {shard for shard, flights in enumerate(self._flights) if flights}

    def settle(self, wait: Wait) -> None:
        """Until every shard has taken the updates, and said its totals."""
        while True:
            sent = self.send()
            while any(flight in self._flights[shard] for shard, flight in sent):
                self.collect(wait)
            if not self.waiting_updates:  # Else a shard was restarted, and gets them again.
                return

    def _send_updates(self) -> None:
        if self.waiting_updates and time.monotonic() - self.waiting_since > SLICE_SECONDS:
            self.settle(Wait("upkeep", 2 * self.link.spec.answer_timeout, str))

    def update(self, keys: Any, priorities: Any) -> None:
        """Queues updates for the next requests, but for shards that are lost: they are stale."""
        with self.lock:
            there = np.array([one.alive for one in self.link.remotes])[keys["shard"]]
            gone = len(keys) - int(np.count_nonzero(there))
            if gone:
                self.link.count("stale_updates_at_clients", gone)
                keys, priorities = keys[there], priorities[there]
            self.client.update(
                np.ascontiguousarray(keys["key"]),
                np.ascontiguousarray(keys["shard"]),
                np.ascontiguousarray(keys["incarnation"]),
                priorities,
            )
            self._note_updates(len(keys))
            self._count()

    def _note_updates(self, n: int) -> None:
        if not self.waiting_updates:
            self.waiting_since = time.monotonic()
        self.waiting_updates += n

    def items(self) -> int:
        with self.lock:
            return sum(self.client.totals(one.index)["items"] for one in self.link.alive())


def prototype_of(spec: Any, writers: int = 1) -> reprise.ReplayBuffer:
    """A small buffer like those of the shards: it checks steps, and knows the shape of batches. It
    compresses nothing, as steps are shipped as they are and nothing is drawn from it."""
    steps = max(
        writers * 64, spec.window_steps, min(4096, (64 << 20) // max(1, spec.schema.step_bytes))
    )
    options = {
        name: spec.options[name] for name in ("window", "selectors") if spec.options.get(name)
    }
    return reprise.ReplayBuffer(
        uncompressed(spec.schema),
        steps,
        rate_limiter=reprise.Unlimited(),
        max_writers=writers,
        shards=1,
        **options,
    )
