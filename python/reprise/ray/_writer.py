"""Writers in any process. Steps are recorded in the process, and a thread ships them to shards."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray

import reprise

from ._calls import Calls, LostShard, Request
from ._lanes import SHIP_SECONDS, Lane, Recorder
from ._membership import Membership, Remote
from ._shard import NoWriter, error_of
from ._turn import Turn
from ._waiting import SLICE_SECONDS, Wait

log = logging.getLogger("reprise.ray")

RETRY_SECONDS = 0.01  # The first pause when the rate limiter has no credit; it doubles.
MOST_RETRY_SECONDS = 0.16
MOST_HELD_SECONDS = 1.0  # The longest pause before a refused shipment is sent again.
LOOK_SECONDS = SHIP_SECONDS / 4  # How long the shipper waits for news.


class Shipper:
    """The thread that ships steps. One request at a time is under way to each shard, with the
    shipments of all writers of this process for which the rate limiter has given credit."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._calls = Calls(membership)
        self._lock = threading.Lock()  # Guards _lanes.
        self._lanes: list[Lane] = []
        # When each shard last got a heartbeat or shipments.
        self._sent_at = [0.0 for _ in membership.remotes]
        # When each shard, after an error, may get requests again.
        self._resume_at = [0.0 for _ in membership.remotes]
        self._turn = Turn(membership.coordinator, "insert")
        self._asked: list[Lane] = []  # Those for whose shipments the turn asks.
        self.held = False  # Whether the rate limiter had no room for any of them.
        self._ask_at, self._pause = 0.0, RETRY_SECONDS
        self._wake = threading.Event()
        self.news = threading.Condition()  # Notified after every answer and shipment.
        threading.Thread(target=self._run, daemon=True, name="reprise.ray shipper").start()

    def add(self, lanes: Sequence[Lane]) -> None:
        with self._lock:
            self._lanes.extend(lanes)

    def wake(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._membership.closed:
            try:
                self._work()
            except Exception as error:
                if not ray.is_initialized():
                    return
                log.exception("%s: shipping", self._membership.spec.name)
                for lane in list(self._lanes):
                    lane.recorder.failure = error
                time.sleep(SLICE_SECONDS)
        self._tell()

    def _tell(self) -> None:
        with self.news:
            self.news.notify_all()

    def _work(self) -> None:
        """One round: makes shipments, sends what may be sent, and waits for answers."""
        now = time.monotonic()
        with self._lock:
            # Who was served longest ago gets credit first.
            self._lanes = sorted(
                (one for one in self._lanes if not one.done), key=lambda one: one.served_at
            )
            lanes = list(self._lanes)
        taken = [lane.take(self._membership.spec.run_steps, now) for lane in lanes]
        if any(taken):
            self._tell()  # Writers that waited to ship go on.
        for lane in lanes:
            lane.choose_shard(self._membership.remotes)
        self._ask_for_credit(lanes, now)
        asked = {one.remote.index for one in self._calls.open}
        for remote in self._membership.alive():
            if remote.index not in asked and now >= self._resume_at[remote.index]:
                self._ship(remote, lanes, now)
        if self._calls.open:
            for request, answer in self._calls.collect(Wait("ship", LOOK_SECONDS, str)):
                self._ended(request, answer)
                self._tell()
        elif self._turn.asked:
            self._take_credit(LOOK_SECONDS)
        else:
            self._wake.wait(LOOK_SECONDS if lanes else 1.0)
            self._wake.clear()

    def _ask_for_credit(self, lanes: list[Lane], now: float) -> None:
        self._take_credit(0.0)
        lacking = [one for one in lanes if one.shipment is not None and not one.has_credit]
        if lacking and not self._turn.asked and now >= self._ask_at:
            self._asked = lacking
            self._turn.ask([one.steps for one in lacking])

    def _take_credit(self, seconds: float) -> None:
        """Takes the answer of the coordinator, if it comes within so many seconds."""
        done = self._turn.answer(seconds) if self._turn.asked else None
        if done is None:
            return
        for one in self._asked[:done]:
            one.has_credit = True
        self._membership.closed = self._membership.closed or self._turn.closed
        self.held = done == 0
        self._pause = min(2 * self._pause, MOST_RETRY_SECONDS) if self.held else RETRY_SECONDS
        self._ask_at = time.monotonic() + (self._pause if self.held else 0.0)

    def _ship(self, remote: Remote, lanes: list[Lane], now: float) -> None:
        membership, index, life = self._membership, remote.index, remote.life
        here = [one for one in lanes if one.shard == index]
        full = [one for one in here if one.shipment is not None]
        full = [one for one in full if one.has_credit and one.retry_at <= now]
        ends = [one for one in lanes if index in one.left]
        late = now - self._sent_at[index] > membership.spec.heartbeat_seconds
        if not (full or ends or late and any(one.used for one in here)):
            return
        for one in full:
            one.in_flight = True
        self._sent_at[index] = now
        shipments = [(one.writer_id, None) for one in ends]
        shipments += [(one.writer_id, one.shipment) for one in full]
        call = reprise.ReplayShard.shipments_of(membership.number, life[0], shipments)
        self._calls.ask(Request(remote, life, call, (ends, full)))

    def _ended(self, request: Request, answer: Any) -> None:
        """Takes the outcomes of a request's shipments. Those to a lost shard are given up and
        counted: it may have appended and saved them already, so their steps could be there twice if
        sent again."""
        index, (ends, full) = request.remote.index, request.carries
        now = time.monotonic()
        outcomes: list[BaseException | None] = [None] * (len(ends) + len(full))
        if isinstance(answer, LostShard):
            self._membership.count("lost_in_flight_steps", sum(one.steps for one in full))
        elif isinstance(answer, BaseException):
            self._resume_at[index] = now + SLICE_SECONDS
            outcomes = [answer] * len(outcomes)
        else:
            told = reprise.ReplayShard.outcomes_of(answer)
            outcomes = [error_of(outcome, said) for outcome, _, said in told]
        for lane, outcome in zip(ends, outcomes):
            if outcome is None:
                lane.left.discard(index)
        for lane, outcome in zip(full, outcomes[len(ends) :]):
            lane.in_flight = False
            if outcome is None:
                lane.end_shipment(now)
            else:
                self._refused(lane, outcome, now)

    def _refused(self, lane: Lane, error: BaseException, now: float) -> None:
        """Handles a shard's refusal of a shipment, which is sent again later. The writer's next
        call raises the error, unless the error may go away by itself."""
        lane.refused_since, lane.reason = lane.refused_since or now, str(error)
        waited = now - lane.refused_since
        lane.retry_at = now + min(max(waited, SLICE_SECONDS), MOST_HELD_SECONDS)
        if isinstance(error, TimeoutError):
            return
        # The lane's own shard may come back, and shards close the writers of silent processes.
        patience = 2 * self._membership.spec.answer_timeout
        if isinstance(error, NoWriter) and (lane.shard != lane.home or waited < patience):
            return
        recorder = lane.recorder
        recorder.failure = error
        if recorder.closing:
            name = self._membership.spec.name
            log.warning("%s: a writer ended, and its last steps are lost: %s", name, error)
            with recorder.lock:
                lost = lane.steps + recorder.packer.steps_in(lane.home)
                self._membership.count("lost_in_flight_steps", lost)
                recorder.packer.take(lane.home)
                lane.end_shipment(now)


class Writer:
    """As reprise.Writer or reprise.VectorWriter, in any process. `append` records the step in this
    process; it waits only while a shard is too far behind. One thread at a time."""

    def __init__(
        self,
        membership: Membership,
        shipper: Shipper,
        first: int,
        writers: int,
        make: Callable[[reprise.StepPacker], Any],
        timeout: float | None,
    ) -> None:
        self._membership, self._shipper, self._timeout = membership, shipper, timeout
        self._recorder = Recorder(membership, first, writers)
        self._packer = self._recorder.packer
        self._writer = make(self._recorder.packer)
        self._ship_at = membership.spec.run_steps
        self._most = 2 * membership.spec.run_steps
        shipper.add(self._recorder.lanes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writer, name)

    def __del__(self) -> None:
        """Ships the steps of a writer that was dropped, without waiting for that."""
        if "_writer" in self.__dict__:
            self._end()

    def __len__(self) -> int:
        return len(self._writer)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any = None, value: Any = None, traceback: Any = None) -> None:
        self.close()

    def _check(self, what: str) -> None:
        failure, self._recorder.failure = self._recorder.failure, None
        if failure is not None:
            raise failure
        if self._membership.closed:
            raise reprise.Closed(f"{what}: {self._membership.spec.name} is closed")

    def _ready(self) -> None:
        """Waits until the next step may be appended, so that a step whose append raises was not
        taken."""
        if self._membership.closed or self._recorder.failure is not None:
            self._check("append")
        steps = self._packer.most_steps
        if steps >= self._ship_at:
            self._shipper.wake()
            if steps >= self._most:
                self._wait("append", self._timeout, lambda: self._packer.most_steps < self._most)

    def _wait(self, what: str, timeout: float | None, done: Callable[[], bool]) -> None:
        wait = Wait(what, timeout, self._missing)
        self._shipper.wake()
        # Steps that are given up end the wait, too: the failure is there before.
        while not done() or self._recorder.failure is not None:
            self._check(what)
            with self._shipper.news:
                self._shipper.news.wait(wait.left())
            if not done():
                wait.check()

    def _missing(self) -> str:
        remotes = self._membership.remotes
        lane = max(
            (one for one in self._recorder.lanes if not one.empty),
            key=lambda one: (not remotes[one.shard].alive, bool(one.reason), one.steps),
            default=self._recorder.lanes[0],
        )
        if not remotes[lane.shard].alive:
            state = "is lost"
        elif lane.reason:
            state = f"refuses them: {lane.reason}"
        elif self._shipper.held:
            state = "has to wait, as the rate limiter has no room for more"
        else:
            state = "has not acknowledged them"
        return f"{self._recorder.steps} steps are here, and shard {lane.shard} {state}"

    def append(self, **fields: Any) -> None:
        self._ready()
        self._writer.append(**fields)

    def append_episode(self, **fields: Any) -> None:
        self._ready()
        self._writer.append_episode(**fields)

    def append_transition(self, **fields: Any) -> None:
        self._ready()
        self._writer.append_transition(**fields)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every recorded step is in a shard, or counted as lost. TimeoutError."""
        recorder = self._recorder
        recorder.flush = True
        try:
            self._wait("flush", timeout, lambda: recorder.empty)
        finally:
            recorder.flush = False

    def _end(self) -> None:
        """Ends open episodes as truncated, without a wait until everything is shipped."""
        if not self._recorder.closing:
            self._writer.close()
            self._recorder.flush = self._recorder.closing = True

    def close(self, timeout: float | None = 10.0) -> None:
        """Ends open episodes as truncated, and waits until everything is shipped. TimeoutError."""
        self._end()
        if not self._membership.closed:
            self._wait("close", timeout, lambda: all(one.done for one in self._recorder.lanes))
