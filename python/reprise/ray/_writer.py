"""Writers in any process. Steps are recorded in the process, and a thread ships them to shards."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray

import reprise

from ._calls import Calls, Request, is_store_full
from ._membership import LOST_ERRORS, Membership, Remote
from ._queue import SHIP_SECONDS, ShipmentQueue, QueuedShipment, Recorder, shipments_to_send
from ._shard import NoWriter, error_of, parse_answer
from ._waiting import SLICE_SECONDS, Wait

log = logging.getLogger("reprise.ray")

# The first and the longest pause between questions for credit; it doubles after each refusal.
RETRY_SECONDS = 0.01
MAX_RETRY_SECONDS = 0.16
MAX_REFUSAL_PAUSE_SECONDS = 1.0  # The longest pause before a refused shipment is sent again.


class _AppendRequest(Request):
    """A call to a shard, with shipments of several writers and the ends of writers that left it."""

    def __init__(
        self,
        membership: Membership,
        remote: Remote,
        ends: list[ShipmentQueue],
        parts: list[QueuedShipment],
    ) -> None:
        self.ends, self.parts = ends, parts
        self.shipments = [queue.closing_shipment() for queue in ends]
        self.shipments += [shipment for _, shipment in parts]
        call = reprise.ReplayShard.shipments_of(
            membership.number,
            remote.info.incarnation,
            [(shipment.writer, shipment.blob) for shipment in self.shipments],
        )
        sizes = [(shipment.writer, shipment.steps) for shipment in self.shipments]
        by_ray = functools.partial(
            remote.actor.append.remote, membership.client, membership.number, call, sizes
        )
        super().__init__(membership, remote, call, by_ray)


class Shipper:
    """The thread that ships steps. One request at a time is under way to each shard, with the
    shipments of all writers of this process."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        # Shipments that need credit go by Ray: only Shard.append, a call of Ray, takes credit.
        self._calls = Calls(membership, direct=not membership.spec.rate_limiter_holds_writers)
        self._lock = threading.Lock()  # Guards _queues.
        self._queues: list[ShipmentQueue] = []
        self._requests: dict[int, _AppendRequest] = {}
        # When each shard last got a heartbeat or shipments.
        self._sent_at = [0.0 for _ in membership.remotes]
        # When each shard, after an error, may get requests again.
        self._resume_at = [0.0 for _ in membership.remotes]
        # After the rate limiter has refused a shipment: for how many steps it had credit when last
        # asked, less those sent since. None: shipments are sent without asking.
        self.credit: int | None = None
        self._credit_call: Any = None
        self._next_credit_call, self._pause = 0.0, RETRY_SECONDS
        self._wake = threading.Event()
        self.changed = threading.Condition()  # Notified after answers, and when shipments are made.
        threading.Thread(target=self._run, daemon=True, name="reprise.ray shipper").start()

    def add(self, queues: Sequence[ShipmentQueue]) -> None:
        with self._lock:
            self._queues.extend(queues)

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
                for queue in list(self._queues):
                    queue.recorder.failure = error
                time.sleep(SLICE_SECONDS)
        self._notify()

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _work(self) -> None:
        """One round: makes shipments, sends what may be sent, and waits for answers."""
        now = time.monotonic()
        with self._lock:
            open_queues = [queue for queue in self._queues if not queue.done]
            # The queue that was served longest ago comes first.
            self._queues = sorted(open_queues, key=lambda queue: queue.served_at)
            queues = list(self._queues)
        made_shipment = [queue.take(self._membership.spec.shipment_steps, now) for queue in queues]
        if any(made_shipment):
            self._notify()  # Writers wait until their packer has fewer steps.
        for queue in queues:
            self._choose_shard(queue)
        waiting = self._limit_to_credit(shipments_to_send(queues, now), now)
        for remote in self._membership.alive():
            if remote.index not in self._requests and now >= self._resume_at[remote.index]:
                self._ship(remote, queues, waiting, now)
        requests = list(self._requests.values())
        if not requests:
            self._wake.wait(SHIP_SECONDS / 4 if queues else 1.0)
            self._wake.clear()
            return
        for request, answer in self._calls.collect(requests, Wait("ship", SHIP_SECONDS / 4, str)):
            self._on_answer(request, answer)
            self._notify()
        for request in list(self._requests.values()):
            request.retry(self._ask, self._on_shard_lost)

    def _choose_shard(self, queue: ShipmentQueue) -> None:
        """Sends a queue's shipments to another shard while its own shard is lost."""
        remotes = self._membership.remotes
        queue.left = {shard for shard in queue.left if remotes[shard].alive}
        if remotes[queue.home_shard].alive:
            wanted = queue.home_shard
        elif remotes[queue.shard].alive:
            wanted = queue.shard
        else:
            alive = self._membership.alive()
            if not alive:
                return
            wanted = alive[queue.home_shard % len(alive)].index
        if wanted != queue.shard and queue.in_flight == 0:
            if remotes[queue.shard].alive:
                queue.left.add(queue.shard)
            queue.left.discard(wanted)
            queue.shard = wanted

    def _limit_to_credit(self, waiting: list[QueuedShipment], now: float) -> list[QueuedShipment]:
        """The first shipments, as far as the rate limiter has credit. After a refusal the
        coordinator is asked how much credit there is, so that no shipment is sent in vain."""
        if self.credit is None:
            return waiting
        if self._credit_call is not None and ray.wait([self._credit_call], timeout=0)[0]:
            credit_call, self._credit_call = self._credit_call, None
            try:
                self.credit = ray.get(credit_call)
            except ray.exceptions.RayError:
                self.credit = 0  # The coordinator is being restarted.
            longer = min(2 * self._pause, MAX_RETRY_SECONDS)
            self._pause = RETRY_SECONDS if self.credit else longer
            self._next_credit_call = now + self._pause
        sizes = [shipment.steps for _, shipment in waiting]
        total = sum(sizes)
        if self.credit >= total > 0:
            self.credit = None
            return waiting
        if self._credit_call is None and total > 0 and now >= self._next_credit_call:
            self._credit_call = self._membership.coordinator.credit.remote(
                self._membership.client, sizes
            )
        remaining, count = self.credit, 0
        while count < len(sizes) and sizes[count] <= remaining:
            remaining -= sizes[count]
            count += 1
        return waiting[:count]

    def _ship(
        self, remote: Remote, queues: list[ShipmentQueue], waiting: list[QueuedShipment], now: float
    ) -> None:
        """Sends a shard its shipments and ends of writers, or else a heartbeat if one is due."""
        index = remote.index
        parts = [(queue, shipment) for queue, shipment in waiting if queue.shard == index]
        ends = [queue for queue in queues if index in queue.left]
        is_due = now - self._sent_at[index] > self._membership.spec.heartbeat_seconds
        is_due = is_due and any(queue.used and queue.shard == index for queue in queues)
        if not (parts or ends or is_due):
            return
        for queue, shipment in parts:
            queue.in_flight += 1
            if self.credit is not None:
                self.credit -= shipment.steps
        self._sent_at[index] = now
        request = self._requests[index] = _AppendRequest(self._membership, remote, ends, parts)
        self._ask(request)

    def _ask(self, request: _AppendRequest) -> None:
        failure = self._calls.ask(request)
        if failure is not None:
            self._on_shard_lost(request, failure)

    def _on_answer(self, request: _AppendRequest, answer: Any) -> None:
        index = request.remote.index
        if self._requests.get(index) is not request:
            return
        if isinstance(answer, LOST_ERRORS):
            self._on_shard_lost(request, answer)
        elif isinstance(answer, BaseException) and is_store_full(answer):
            request.on_store_full()
        elif isinstance(answer, BaseException):
            cause = getattr(answer, "cause", None) or answer
            self._resume_at[index] = time.monotonic() + SLICE_SECONDS
            self._handle_outcomes(request, [cause] * len(request.shipments))
        else:
            info, done = parse_answer(index, answer)
            self._membership.update_info(info)
            if request.incarnation not in (0, info.incarnation):
                self._on_shard_lost(request, RuntimeError("it was restarted"))
                return
            outcomes = reprise.ReplayShard.outcomes_of(answer) if done else []
            if len(outcomes) < len(request.shipments) and not info.closed:
                self.credit = 0  # The rate limiter had no credit for the other shipments.
            self._handle_outcomes(
                request, [error_of(outcome, reason) for outcome, _, reason in outcomes]
            )

    def _handle_outcomes(
        self, request: _AppendRequest, errors: Sequence[BaseException | None]
    ) -> None:
        """Takes the outcomes of a request's first shipments, for each an error, or None if it was
        appended. The others had no credit, and stay in their queues."""
        del self._requests[request.remote.index]
        now = time.monotonic()
        for queue, error in zip(request.ends, errors):
            if error is None:
                queue.left.discard(request.remote.index)
        for queue, _ in request.parts:
            queue.in_flight = 0
        for (queue, shipment), error in zip(request.parts, errors[len(request.ends) :]):
            if not queue.shipped or queue.shipped[0] is not shipment:
                continue  # An earlier shipment of the queue was refused, so this one waits.
            if error is None:
                queue.on_appended(now)
            else:
                self._on_refusal(queue, error, now)

    def _on_refusal(self, queue: ShipmentQueue, error: BaseException, now: float) -> None:
        """Handles a shard's refusal of a queue's oldest shipment, which is sent again later. The
        writer's next call raises the error, unless the reason may go away by itself."""
        queue.refused_since, queue.refusal = queue.refused_since or now, str(error)
        waited = now - queue.refused_since
        queue.retry_at = now + min(max(waited, SLICE_SECONDS), MAX_REFUSAL_PAUSE_SECONDS)
        if isinstance(error, TimeoutError):
            return
        # A shard may have a writer left later: it closes the writers of silent processes, and
        # others leave it when their own shard is back.
        is_away = queue.shard != queue.home_shard
        if isinstance(error, NoWriter) and (
            is_away or waited < 2 * self._membership.spec.answer_timeout
        ):
            return
        recorder = queue.recorder
        recorder.failure = error
        if recorder.closing:
            name = self._membership.spec.name
            log.warning("%s: a writer ended, and its last steps are lost: %s", name, error)
            with recorder.lock:
                self._membership.count(
                    "lost_in_flight_steps", recorder.packer.steps_in(queue.home_shard)
                )
                recorder.packer.take(queue.home_shard)
            self._drop_shipments(queue, len(queue.shipped))
            queue.closed = True
            queue.left.add(queue.shard)  # The shard may have steps of the writer, and closes it.

    def _drop_shipments(self, queue: ShipmentQueue, shipments: int) -> None:
        for _ in range(shipments):
            self._membership.count("lost_in_flight_steps", queue.shipped.popleft().steps)

    def _on_shard_lost(self, request: _AppendRequest, error: BaseException) -> None:
        """Gives up and counts the shipments of a request to a lost shard. They are not sent to its
        successor, which would have their steps twice if it loads a checkpoint that has them."""
        self._requests.pop(request.remote.index, None)
        self._membership.take_out(request.remote, error, request.incarnation)
        for queue in request.ends:
            queue.left.discard(request.remote.index)
        for queue, _ in request.parts:
            self._drop_shipments(queue, queue.in_flight)
            queue.in_flight = 0


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
        # With so many steps in a lane the shipper is woken, and with `_max_steps` an append waits.
        self._ship_threshold = membership.spec.shipment_steps
        self._max_steps = 2 * membership.spec.shipment_steps
        shipper.add(self._recorder.queues)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writer, name)

    def __del__(self) -> None:
        """Ends a writer that was dropped. Its steps are shipped later, without a wait here."""
        recorder = self.__dict__.get("_recorder")
        if recorder is not None and "_writer" in self.__dict__:
            self._end()

    def _end(self) -> None:
        """Ends open episodes as truncated, and makes the shipper ship all steps."""
        recorder = self._recorder
        if not recorder.closing:
            self._writer.close()
            recorder.flush = recorder.closing = True

    def __len__(self) -> int:
        return len(self._writer)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any = None, value: Any = None, traceback: Any = None) -> None:
        """As `close`; after an exception without a wait, which may be for the exception's cause."""
        if kind is None:
            self.close()
        else:
            self._end()

    def _check(self, call: str) -> None:
        """Raises the error that the shipper met, once, or Closed if the buffer is closed."""
        failure, self._recorder.failure = self._recorder.failure, None
        if failure is not None:
            raise failure
        if self._membership.closed:
            raise reprise.Closed(f"{call}: {self._membership.spec.name} is closed")

    def _wait_until_ready(self, timeout: float | None = None) -> None:
        """Waits until the next step may be appended. Called before the append, so that an append
        that raises has not taken its step."""
        if self._membership.closed or self._recorder.failure is not None:
            self._check("append")
        steps = self._packer.most_steps
        if steps >= self._ship_threshold:
            self._shipper.wake()
            if steps >= self._max_steps:
                timeout = self._timeout if timeout is None else timeout
                self._wait("append", timeout, lambda: self._packer.most_steps < self._max_steps)

    def _wait(self, call: str, timeout: float | None, done: Callable[[], bool]) -> None:
        """Waits until `done` is true, and raises what `_check` raises meanwhile."""
        wait = Wait(call, timeout, self._wait_reason)
        self._shipper.wake()
        while True:
            is_done = done()
            if self._recorder.failure is not None or not is_done:
                self._check(call)
            if is_done:
                return
            with self._shipper.changed:
                self._shipper.changed.wait(wait.left())
            if not done():
                wait.check()

    def _wait_reason(self) -> str:
        """Why steps are still here, by the queue with the worst reason."""
        remotes = self._membership.remotes
        queue = max(
            (queue for queue in self._recorder.queues if not queue.empty),
            key=lambda q: (not remotes[q.shard].alive, bool(q.refusal), q.shipped_steps),
            default=self._recorder.queues[0],
        )
        if not remotes[queue.shard].alive:
            state = "is lost"
        elif queue.refusal:
            state = f"refuses them: {queue.refusal}"
        elif self._shipper.credit is not None:
            state = "has to wait, as the rate limiter has no room for more"
        else:
            state = "has not acknowledged them"
        return f"{self._recorder.steps} steps are here, and shard {queue.shard} {state}"

    def append(self, **fields: Any) -> None:
        self._wait_until_ready()
        self._writer.append(**fields)

    def append_episode(self, **fields: Any) -> None:
        self._wait_until_ready()
        self._writer.append_episode(**fields)

    def append_transition(self, **fields: Any) -> None:
        self._wait_until_ready()
        self._writer.append_transition(**fields)

    def append_transitions(self, **fields: Any) -> None:
        self._wait_until_ready()
        self._writer.append_transitions(**fields)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every recorded step is in a shard, or counted as lost; else TimeoutError."""
        recorder = self._recorder
        recorder.flush = True
        try:
            self._wait("flush", timeout, lambda: recorder.empty)
        finally:
            recorder.flush = False

    def leave(self) -> None:
        """Gives up the places at the shards until there are more steps. No episode may be open."""
        for queue in self._recorder.queues:
            queue.leaving = queue.used

    def close(self, timeout: float | None = None) -> None:
        """Ends open episodes as truncated, and waits until all steps are shipped. `timeout`: that
        of the writer by default; TimeoutError if the wait takes longer."""
        self._end()
        if not self._membership.closed:
            queues = self._recorder.queues
            done = lambda: all(queue.closed and not queue.shipped for queue in queues)
            self._wait("close", self._timeout if timeout is None else timeout, done)
