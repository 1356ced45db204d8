"""Batches drawn from all shards as if they were one buffer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import reprise
from reprise import Batch as LocalBatch
from reprise import Tensors
from reprise._vocabulary import Draws, Normalise

from ._options import check_draws
from ._process import Process, Update
from ._session import KEY, ClientSession
from ._turn import Turn
from ._waiting import Wait

NOTHING = "no item has a priority above 0"
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
        made = self._local.torch(device)
        made.item_keys = self.item_keys
        return made


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
        self._missing = "items"
        self._turn = Turn(membership.coordinator, "sample")

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
        """As Sampler.sample of reprise. `n` draws over all shards by their present totals;
        `weights` and `probabilities` are those over all shards. A shard that is lost meanwhile is
        left out.
        """
        requested = Requested(self, Draw(n, beta, normalise, draws, n_step, discount))
        wait = Wait("Sampler.sample", timeout, lambda: self._missing)
        self._membership.check_open()
        try:
            while True:
                try:
                    if not (requested.tickets or requested.request(1, wait)):
                        wait.pause(POLL_SECONDS)
                    elif (batch := requested.oldest()) is not None:
                        return batch
                    else:
                        self._session.collect(wait)
                except reprise.NothingToDraw:
                    if isinstance(self._membership.spec.rate_limiter, reprise.Unlimited):
                        raise
                    self._missing = NOTHING
                    wait.pause(POLL_SECONDS)
        finally:
            requested.end()

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

    def admitted(self, n: int, batches: int, wait: Wait) -> int:
        """Asks for batches of n items. Returns how many may be drawn now, and counts these."""
        membership, limiter = self._membership, self._membership.spec.rate_limiter
        membership.check_open()
        need = limiter.min_size if self._limited else getattr(limiter, "items", 0)
        have = self._session.items()
        if have < need:
            self._session.sync(wait)
            have = self._session.items()
        if have < need:
            self._missing = f"{have} of the {need} items that sampling needs"
            return 0
        if not self._limited:
            return batches
        done = self._turn.enter([n] * batches, wait)
        self._missing = self._turn.why
        membership.closed = membership.closed or self._turn.closed
        membership.check_open()
        return done

    def give_back(self, items: int) -> None:
        if self._limited and items:
            self._membership.coordinator.undo_samples.remote(items)


class Requested:
    """Batches that a sampler has requested and not taken, the oldest first."""

    def __init__(self, sampler: Sampler, draw: Draw) -> None:
        self.tickets: deque[int] = deque()
        self._sampler, self._session, self._draw = sampler, sampler._session, draw

    def request(self, most: int, wait: Wait) -> int:
        """Requests up to so many batches; returns how many may be drawn now. NothingToDraw."""
        left = admitted = self._sampler.admitted(self._draw.n, most, wait)
        try:
            while left > 0:
                try:
                    self.tickets.append(self._draw.begin(self._session))
                except reprise.NothingToDraw:
                    self._session.sync(wait)  # The totals that are known here may be old.
                    self.tickets.append(self._draw.begin(self._session))
                left -= 1
        finally:
            self._sampler.give_back(self._draw.n * left)
        if admitted:
            self._session.send()
        return admitted

    def oldest(self) -> Batch | None:
        """Takes the oldest batch if all of its draws have arrived. Draws of a lost shard are
        requested from others. NothingToDraw if all of its shards are lost or empty."""
        session, ticket = self._session, self.tickets[0]
        with session.lock:
            try:
                waits = session.client.waits_for(ticket)
            except reprise.NothingToDraw:
                self.tickets.popleft()
                self._sampler.give_back(self._draw.n)
                raise
            if not waits:
                self.tickets.popleft()
                return Batch(*session.client.finish(ticket))
            answered = not session.asked().issuperset(waits)
        if session.changed or answered:
            session.send()
        return None

    def end(self) -> None:
        """Gives up the sampler's turn, and the batches that were not taken."""
        self._sampler._turn.leave()
        self._sampler.give_back(self._draw.n * len(self.tickets))
        with self._session.lock:
            for ticket in self.tickets:
                self._session.client.drop(ticket)


class Prefetcher(Iterator[Batch]):
    """As Prefetcher of reprise: batches drawn ahead by a thread of its own. Several batches are
    under way at once, because each needs a round trip to all shards. Where `sample` would raise
    NothingToDraw, the thread waits."""

    def __init__(self, sampler: Sampler, draw: Draw, depth: int, timeout: float | None) -> None:
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= 64:
            raise ValueError(f"prefetch: depth is {depth!r}; allowed: an integer from 1 to 64")
        self._sampler, self._draw, self._depth, self._timeout = sampler, draw, depth, timeout
        self._ready: deque[Batch] = deque()
        self._news = threading.Condition()  # Guards _ready, _failure and _ended.
        self._failure: BaseException | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="reprise.ray prefetch")
        self._thread.start()

    def _run(self) -> None:
        requested = Requested(self._sampler, self._draw)
        seconds = 4 * self._sampler._membership.spec.answer_timeout
        try:
            while not self._ended:
                try:
                    self._work(requested, Wait("prefetch", seconds, str))
                except reprise.NothingToDraw:
                    self._sampler._missing = NOTHING
                    time.sleep(POLL_SECONDS)
                except TimeoutError:  # The caller's own timeout raises, with this reason.
                    self._sampler._missing = "answers of the shards, or of the coordinator"
        except BaseException as error:
            with self._news:
                self._failure = error
                self._news.notify_all()
        requested.end()

    def _work(self, requested: Requested, wait: Wait) -> None:
        """One round: requests batches, takes the oldest one, or waits."""
        # Two batches need as many calls as one, so half of the places are requested at once.
        together = max(1, self._depth // 2)
        free = self._depth - len(self._ready) - len(requested.tickets)
        if free >= together and not requested.request(together, wait) and not requested.tickets:
            time.sleep(POLL_SECONDS)
        elif not requested.tickets:
            with self._news:
                most = self._depth - together
                self._news.wait_for(lambda: self._ended or len(self._ready) <= most, 0.1)
        elif (batch := requested.oldest()) is not None:
            with self._news:
                self._ready.append(batch)
                self._news.notify_all()
        else:
            self._sampler._session.collect(wait)

    def __iter__(self) -> Prefetcher:
        return self

    def __next__(self) -> Batch:
        return self._take("Prefetcher.__next__", self._timeout)

    def get(self, *, timeout: float | None = None) -> Batch:
        """The next batch, as of the iterator, but with this timeout."""
        return self._take("Prefetcher.get", timeout)

    def _take(self, call: str, timeout: float | None) -> Batch:
        wait = Wait(call, timeout, lambda: self._sampler._missing)
        with self._news:
            if self._ended:
                raise reprise.Closed(f"{call}: the prefetcher is closed")
            while not self._ready:
                if isinstance(self._failure, reprise.Closed):
                    raise StopIteration
                if self._failure is not None:
                    raise self._failure
                self._news.wait(wait.left())
                if not self._ready and self._failure is None:
                    wait.check()
            batch = self._ready.popleft()
            self._news.notify_all()
            return batch

    def close(self) -> None:
        """Ends the thread, and drops batches that were ready."""
        with self._news:
            self._ended = True
            self._ready.clear()
            self._news.notify_all()
        self._thread.join()

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
