"""Batches drawn from all shards as if they were one buffer."""

from __future__ import annotations

import sys
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import ArrayLike

import reprise
from reprise import Batch as LocalBatch
from reprise import Tensors
from reprise._vocabulary import Draws, Normalise

from ._options import check_draws
from ._process import Process, Update
from ._session import KEY, ClientSession
from ._waiting import Wait

NO_PRIORITY = "no item has a priority above 0"
POLL_SECONDS = 0.01  # Between two attempts while items or credit are missing.


class Batch(Mapping[str, Any]):
    """As reprise.Batch, but `item_keys` also names the shard of each item: it is a structured array
    with the fields key, incarnation and shard."""

    def __init__(self, local: LocalBatch, shards: Any, incarnations: Any) -> None:
        self._local = local
        self.item_keys = np.empty(len(local), KEY)
        self.item_keys["key"] = local.item_keys
        self.item_keys["shard"] = shards
        self.item_keys["incarnation"] = incarnations

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._local, name)

    def __getitem__(self, key: str) -> Any:
        return self._local[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._local.keys())

    def __len__(self) -> int:
        return len(self._local)

    def __repr__(self) -> str:
        return f"{self._local!r} of reprise.ray"

    def torch(self, device: Any = None) -> Tensors:
        """As Batch.torch of reprise, but `item_keys` stays the array of this batch."""
        tensors = self._local.torch(device)
        tensors.item_keys = self.item_keys
        return tensors


if "reprise.jax" in sys.modules:  # If it is imported later, it registers this class itself.
    sys.modules["reprise.jax"].register(Batch)


class Draw:
    """The checked arguments of a draw."""

    def __init__(
        self,
        n: int,
        beta: float,
        normalise: Normalise,
        draws: Draws,
        n_step: int | None,
        discount: float | None,
    ) -> None:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"Sampler.sample: n is {n!r}; allowed: an integer of at least 1")
        if normalise == "by_buffer":
            raise ValueError(
                "Sampler.sample: normalise is 'by_buffer', and the least probable item may be in a "
                "shard that has just changed; allowed: 'by_batch', 'not'"
            )
        check_draws(draws)
        self.n = int(n)
        self._how: dict[str, Any] = {"beta": beta, "normalise": normalise, "draws": draws}
        self._how |= {"n_step": n_step, "discount": discount}

    def begin(self, session: ClientSession) -> int:
        """Allots the draws of a batch to the shards; returns its ticket."""
        with session.lock:
            return int(session.client.begin(self.n, **self._how))


class Sampler:
    """Draws batches from all shards; made by `ReplayBuffer.sampler`. One thread at a time. It is a
    reprise.BatchSource."""

    def __init__(self, process: Process, options: dict[str, Any]) -> None:
        membership = process.membership
        self._process, self._membership, self._options = process, membership, options
        self._session = process.session(new=True, **options)
        self._limited = membership.spec.rate_limiter_holds_writers
        self._wait_reason = "items"
        self._name = uuid.uuid4().hex  # The name on the coordinator's list of waiting samplers.
        self._is_listed = False  # Whether this sampler is on that list.

    def sample(
        self,
        n: int,
        *,
        beta: float = 0.4,
        normalise: Normalise = "by_batch",
        draws: Draws = "stratified",
        n_step: int | None = None,
        discount: float | None = None,
        timeout: float | None = None,
    ) -> Batch:
        """As Sampler.sample of reprise. The n items are drawn from all shards in proportion to the
        sums of their weights; `weights` and `probabilities` are those over all shards. A shard that
        is lost meanwhile is left out.
        """
        draw = Draw(n, beta, normalise, draws, n_step, discount)
        wait = Wait("Sampler.sample", timeout, lambda: self._wait_reason)
        self._membership.check_open()
        while True:
            self._admit(draw.n, wait)
            try:
                return self._draw(draw, wait)
            except reprise.NothingToDraw:
                self.undo_admission(draw.n)
                if isinstance(self._membership.spec.rate_limiter, reprise.Unlimited):
                    raise
                self._wait_reason = NO_PRIORITY
                wait.pause(POLL_SECONDS)
            except BaseException:
                self.undo_admission(draw.n)
                raise

    def prefetch(
        self,
        n: int,
        *,
        depth: int = 4,
        beta: float = 0.4,
        normalise: Normalise = "by_batch",
        draws: Draws = "stratified",
        n_step: int | None = None,
        discount: float | None = None,
        allocator: Any = None,
        timeout: float | None = None,
    ) -> Prefetcher:
        """As Sampler.prefetch of reprise: batches drawn ahead by another sampler of the same
        arguments, with `depth` from 1 to 64."""
        options = self._options if allocator is None else {**self._options, "allocator": allocator}
        draw = Draw(n, beta, normalise, draws, n_step, discount)
        return Prefetcher(Sampler(self._process, options), draw, depth, timeout)

    def update_priorities(self, keys: Any, priorities: ArrayLike) -> Update:
        """As ReplayBuffer.update_priorities, for the selector of this sampler."""
        return self._process.update(keys, priorities, self._options["selector"])

    def _draw(self, draw: Draw, wait: Wait) -> Batch:
        ticket = self.begin([draw], wait)[0]
        try:
            while not self.ready(ticket):
                self._session.collect(wait)
            return self.finish(ticket)
        except BaseException:
            self.drop([ticket])
            raise

    def begin(self, wanted: Sequence[Draw], wait: Wait) -> list[int]:
        """Requests batches, and returns a ticket for each."""
        tickets: list[int] = []
        try:
            for draw in wanted:
                try:
                    tickets.append(draw.begin(self._session))
                except reprise.NothingToDraw:
                    self._session.sync(wait)  # This process may know only old totals.
                    tickets.append(draw.begin(self._session))
        except BaseException:
            self.drop(tickets)
            raise
        self._session.send()
        return tickets

    def ready(self, ticket: int) -> bool:
        """Whether all draws of a batch have arrived. Sends requests for draws that no request has
        had, such as those of a lost shard, which are made again elsewhere."""
        with self._session.lock:
            missing = self._session.client.waits_for(ticket)
            lacks_request = not self._session.unanswered_shards().issuperset(missing)
        if not missing:
            return True
        if self._session.changed or lacks_request:
            self._session.send()
        return False

    def finish(self, ticket: int) -> Batch:
        with self._session.lock:
            batch = Batch(*self._session.client.finish(ticket))
        self._membership.count("sampled_batches")  # Shards count only their parts of the batch.
        return batch

    def drop(self, tickets: Sequence[int]) -> None:
        with self._session.lock:
            for ticket in tickets:
                try:
                    self._session.client.drop(ticket)
                except (ValueError, RuntimeError):
                    continue  # NothingToDraw has ended the ticket already.

    # Calls of the rate limiter.

    def _admit(self, n: int, wait: Wait) -> None:
        try:
            while not self.try_admit(n, wait):
                wait.pause(POLL_SECONDS)
        except BaseException:
            self.leave()
            raise

    def try_admit(self, n: int, wait: Wait) -> bool:
        """Asks the rate limiter for a batch of n items. Returns whether it may be drawn now; if so,
        the coordinator has counted it."""
        membership, limiter = self._membership, self._membership.spec.rate_limiter
        membership.check_open()
        needed = limiter.min_size if self._limited else getattr(limiter, "items", 0)
        items = self._session.items()
        if items < needed:
            self._session.sync(wait)
            items = self._session.items()
        if items < needed:
            self._wait_reason = f"{items} of the {needed} items that sampling needs"
            return False
        if not self._limited:
            return True
        answer = membership.coordinator.sample.remote(self._name, n, membership.counts)
        try:
            while not ray.wait([answer], timeout=wait.left())[0]:
                wait.check()
        except BaseException:
            # The coordinator may still work on this call, and count the draw or list the sampler.
            membership.coordinator.undo_admitted.remote(answer, self._name, n)
            raise
        try:
            admitted, closed, self._wait_reason, counts = ray.get(answer)
            membership.counts = max(membership.counts, counts)
        except ray.exceptions.ActorDiedError as error:
            membership.closed = True  # The coordinator ends when the buffer is closed.
            raise reprise.Closed(f"{membership.spec.name} is closed") from error
        except ray.exceptions.RayActorError:
            self._wait_reason = "the coordinator of the buffer, which is being restarted"
            return False
        self._is_listed = not admitted
        membership.closed = membership.closed or closed
        membership.check_open()
        return bool(admitted)

    def leave(self) -> None:
        """Takes the sampler off the coordinator's list of waiting samplers."""
        if self._is_listed and not self._membership.closed:
            self._membership.coordinator.leave.remote(self._name)
        self._is_listed = False

    def undo_admission(self, n: int) -> None:
        """Takes back what `try_admit` counted for a batch that is not drawn."""
        if self._limited:
            self._membership.coordinator.undo_sample.remote(n)


def _prefetch(reference: weakref.ref[Prefetcher], sampler: Sampler, n: int) -> None:
    """The thread of a prefetcher. The thread ends when the prefetcher is closed or was dropped, so
    it holds the prefetcher only during a round."""
    tickets: deque[int] = deque()
    goes_on = True
    while goes_on:
        prefetcher = reference()
        goes_on = prefetcher is not None and prefetcher._round(tickets)
        del prefetcher
    sampler.leave()
    sampler.drop(list(tickets))
    for _ in tickets:
        sampler.undo_admission(n)


class Prefetcher(Iterator[Batch]):
    """As Prefetcher of reprise: batches drawn ahead by a thread of its own. Several batches are
    under way at once, because each needs a round trip to all shards. Where `sample` would raise
    NothingToDraw, the thread waits until an item can be drawn."""

    def __init__(self, sampler: Sampler, draw: Draw, depth: int, timeout: float | None) -> None:
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= 64:
            raise ValueError(f"prefetch: depth is {depth!r}; allowed: an integer from 1 to 64")
        self._sampler, self._draw, self._depth, self._timeout = sampler, draw, depth, timeout
        self._ready: deque[Batch] = deque()
        self._condition = threading.Condition()  # Guards _ready, _failure and _ended.
        self._failure: BaseException | None = None
        self._ended = False
        arguments = weakref.ref(self), sampler, draw.n
        self._thread = threading.Thread(
            target=_prefetch, args=arguments, daemon=True, name="reprise.ray prefetch"
        )
        self._thread.start()

    def _round(self, tickets: deque[int]) -> bool:
        """One round of the thread. Returns False if it was the last."""
        seconds = 4 * self._sampler._membership.spec.answer_timeout
        try:
            self._work(tickets, Wait("prefetch", seconds, str))
        except TimeoutError:  # Only the reason is kept, for the timeout of the caller's own wait.
            self._sampler._wait_reason = "answers of the shards, or of the coordinator"
        except BaseException as error:
            with self._condition:
                self._failure = error
                self._condition.notify_all()
        return not self._ended and self._failure is None

    def _work(self, tickets: deque[int], wait: Wait) -> None:
        """Requests batches, takes the oldest one, or waits."""
        # Two batches need as many calls as one, so half of the places are requested at once.
        batches_at_once = max(1, self._depth // 2)
        free = self._depth - len(self._ready) - len(tickets)
        if free >= batches_at_once:
            has_begun = self._begin(tickets, batches_at_once, wait)
            if not has_begun and not tickets:
                time.sleep(POLL_SECONDS)
                return
        if not tickets:
            with self._condition:
                max_ready = self._depth - batches_at_once
                self._condition.wait_for(lambda: self._ended or len(self._ready) <= max_ready, 0.1)
        elif self._oldest_is_ready(tickets):
            batch = self._sampler.finish(tickets.popleft())
            with self._condition:
                self._ready.append(batch)
                self._condition.notify_all()
        elif tickets:  # `_oldest_is_ready` may have given up the only one.
            self._sampler._session.collect(wait)

    def _oldest_is_ready(self, tickets: deque[int]) -> bool:
        """Whether the oldest batch has arrived. Gives the batch up if all of its shards are lost or
        empty."""
        try:
            return self._sampler.ready(tickets[0])
        except reprise.NothingToDraw:
            tickets.popleft()
            self._sampler.undo_admission(self._draw.n)
            return False

    def _begin(self, tickets: deque[int], max_batches: int, wait: Wait) -> bool:
        """Requests up to `max_batches` batches. Returns False if none may be drawn now."""
        admitted = 0
        try:
            while admitted < max_batches and self._sampler.try_admit(self._draw.n, wait):
                admitted += 1
            if admitted:
                # The sampler asks again only after these batches are taken; until then others shall
                # not wait for it.
                self._sampler.leave()
                tickets.extend(self._sampler.begin([self._draw] * admitted, wait))
            return admitted > 0
        except BaseException as error:
            for _ in range(admitted):
                self._sampler.undo_admission(self._draw.n)
            if not isinstance(error, reprise.NothingToDraw):
                raise
            self._sampler._wait_reason = NO_PRIORITY
            return False

    def __iter__(self) -> Prefetcher:
        return self

    def __next__(self) -> Batch:
        return self._take("Prefetcher.__next__", self._timeout)

    def get(self, *, timeout: float | None = None) -> Batch:
        """The next batch, as from the iterator, but with this timeout."""
        return self._take("Prefetcher.get", timeout)

    def _take(self, call: str, timeout: float | None) -> Batch:
        wait = Wait(call, timeout, lambda: self._sampler._wait_reason)
        with self._condition:
            if self._ended:
                raise reprise.Closed(f"{call}: the prefetcher is closed")
            while not self._ready:
                if isinstance(self._failure, reprise.Closed):
                    raise StopIteration
                if self._failure is not None:
                    raise self._failure
                self._condition.wait(wait.left())
                if not self._ready and self._failure is None:
                    wait.check()
            batch = self._ready.popleft()
            self._condition.notify_all()
            return batch

    def close(self) -> None:
        """Ends the thread, and drops batches that were ready."""
        with self._condition:
            self._ended = True
            self._ready.clear()
            self._condition.notify_all()
        self._thread.join()

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
