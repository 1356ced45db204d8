"""Batches drawn from several buffers: in exact parts, or by the common total of their priorities."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from operator import index
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _options
from ._reprise import Batch, Closed, NothingToDraw, ReplayBuffer
from ._vocabulary import UpdateResult

# As of MixedSampler in C++: how often shares are looked up again.
_TRIES = 16
_WEIGHS_APART = tuple(
    _options.classes[name]
    for name in ("RankBased", "Recency", "Mixture", "Fifo", "Lifo", "MinHeap", "MaxHeap")
)


def _part(i: int, given: ReplayBuffer | tuple[ReplayBuffer, int]) -> tuple[ReplayBuffer, int]:
    try:
        replay, n = given
        n = index(n)
        if not isinstance(replay, ReplayBuffer):
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(
            f"mix: parts[{i}] is {given!r}; allowed: a ReplayBuffer and an integer, (replay, n), or "
            "buffers alone and n of the whole batch, mix([replay, other], n)"
        ) from None
    if n < 1:
        raise ValueError(f"mix: parts[{i}] has {n} items; allowed: at least 1")
    return replay, n


def _check_total(i: int, replay: ReplayBuffer, selector: int) -> None:
    """Refuses a buffer whose weights mean nothing beside those of another one."""
    options = replay.options
    selectors = options["selectors"]
    if selector < len(selectors) and isinstance(selectors[selector], _WEIGHS_APART):
        raise ValueError(
            f"mix: parts[{i}] draws by {selectors[selector]}; allowed by the common total: "
            "Uniform, Proportional, LossAdjusted"
        )
    if options["max_times_sampled"]:
        raise ValueError(
            f"mix: parts[{i}] has max_times_sampled {options['max_times_sampled']}; allowed by the "
            "common total: 0"
        )


class Mix:
    """Draws batches from several buffers; made by reprise.mix.

    One thread at a time.
    """

    def __init__(
        self,
        parts: Sequence[tuple[ReplayBuffer, int]] | Sequence[ReplayBuffer],
        n: int | None,
        seed: int,
        selector: int,
        fresh: float,
        unique_frames: bool,
    ) -> None:
        if not isinstance(parts, Iterable):
            raise TypeError(
                f"mix: parts is {parts!r}; allowed: mix([replay, other], n), or with counts "
                "mix([(replay, 4), (other, 4)])"
            )
        self._by_total = n is not None
        if n is not None and index(n) < 1:
            raise ValueError(f"mix: n is {n}; allowed: at least 1")
        given = list(parts)
        pairs = [
            _part(i, (one, n) if n is not None and isinstance(one, ReplayBuffer) else one)
            for i, one in enumerate(given)
        ]
        if not pairs:
            raise ValueError("mix: parts is empty; allowed: at least one (ReplayBuffer, n)")
        counts = [pair[1] for one, pair in zip(given, pairs) if not isinstance(one, ReplayBuffer)]
        if self._by_total and counts:
            raise ValueError(
                f"mix: parts have counts, which add up to {sum(counts)}; leave n, {n}, out"
            )
        if self._by_total and fresh:
            raise ValueError(f"mix: fresh is {fresh}; allowed by the common total: 0")
        self._buffers = [replay for replay, _ in pairs]
        self._counts = [count for _, count in pairs]
        self._tags = [replay.options["key_tag"] for replay in self._buffers]
        self._by_tag = dict(zip(self._tags, self._buffers))
        self._n = sum(self._counts) if n is None else index(n)
        first = self._buffers[0]
        for i, replay in enumerate(self._buffers):
            if replay.schema != first.schema:
                raise ValueError(
                    f"mix: a part has {replay.schema}; allowed: that of the first part, "
                    f"{first.schema}"
                )
            if replay.options["window"] != first.options["window"]:
                raise ValueError(
                    f"mix: a part has {replay.options['window']}; allowed: that of the first part, "
                    f"{first.options['window']}"
                )
            if self._by_total:
                if replay in self._buffers[:i]:
                    raise ValueError(
                        f"mix: parts[{i}] is there twice; allowed by the common total: each once"
                    )
                _check_total(i, replay, selector)
        self._selector = selector
        self._samplers = [
            replay.sampler(
                seed=seed + i, selector=selector, fresh=fresh, unique_frames=unique_frames
            )
            for i, replay in enumerate(self._buffers)
        ]
        self._random = np.random.default_rng([seed, len(self._buffers)])
        # A batch that a call has begun and not finished, and the part that it goes on with.
        self._batch: Batch | None = None
        self._next = 0
        self._items = 0.0  # Of all buffers, and the share of each: by the common total.
        self._shares = np.ones(len(self._buffers))

    def __len__(self) -> int:
        """Items in a batch."""
        return self._n

    @property
    def parts(self) -> list[slice]:
        """The places of each part in a batch, in the order of the parts; by the common total those of
        the last batch."""
        ends = np.cumsum(self._counts).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self._counts)]

    @property
    def passes(self) -> list[int]:
        """Passes that each part has completed with draws='epoch'."""
        return [sampler.passes for sampler in self._samplers]

    @property
    def fresh(self) -> list[int]:
        """Items that each part of the last batch has from the queue of `fresh`: its first ones."""
        return [sampler.fresh for sampler in self._samplers]

    def sample(
        self,
        *given: NoReturn,
        beta: float = 0.4,
        normalise: str = "by_batch",
        draws: str = "stratified",
        timeout: float | None = None,
    ) -> Batch:
        """A batch whose first items are those of the first part, and so on.

        Arguments and errors as of Sampler.sample, `timeout` for all parts together. If a part raises,
        such as TimeoutError, what the parts before it drew is kept: the next call goes on there.

        Exact parts: weights are (N * P(i))^-beta with N and P of the item's own buffer; with
        normalise='by_batch' they are divided by the largest of the whole batch. draws='epoch' makes a
        pass of each part; `passes` counts them.
        By the common total: N and P are of all buffers together; the shares are those of one look at
        the totals per batch. A buffer without weight gives nothing, and nobody waits for it; while
        none has any, the call waits for the first.

        ValueError for 'by_buffer' of several parts, whose weights it would scale apart, and for
        draws other than 'stratified' and 'independent' by the common total.
        """
        if given:
            raise TypeError(
                f"Mix.sample: given {given[0]!r}; allowed: keywords, as reprise.mix was told the "
                f"{len(self)} items of a batch"
            )
        if normalise == "by_buffer" and (self._by_total or len(self._buffers) > 1):
            raise ValueError(
                f"Mix.sample: normalise is 'by_buffer', and there are {len(self._buffers)} buffers; "
                "allowed: 'by_batch', 'not'"
            )
        if self._by_total and draws not in ("stratified", "independent"):
            raise ValueError(
                f"Mix.sample: draws is {draws!r}; allowed by the common total: 'stratified', "
                "'independent'"
            )
        deadline = None if timeout is None else time.monotonic() + timeout
        for tries in range(1, _TRIES + 1):
            try:
                batch = self._draw(beta, normalise, draws, deadline)
                break
            except NothingToDraw:
                if not self._by_total or tries == _TRIES:
                    raise
                self._batch = None  # A part has lost its weight since the look at the totals.
        self._batch = None
        weights = batch.weights
        if self._by_total:
            probabilities = batch.probabilities
            probabilities *= np.repeat(self._shares, self._counts)
            scale = self._items or sum(replay.totals()["items"] for replay in self._buffers)
            if normalise == "by_batch":
                scale = 1.0 / probabilities.min()
            held = np.finfo(np.float32)
            weights[:] = ((scale * probabilities) ** -beta).clip(held.tiny, held.max)
        elif normalise == "by_batch":
            weights /= weights.max()
        return batch

    def _draw(self, beta: float, normalise: str, draws: str, deadline: float | None) -> Batch:
        """Draws the parts that are left."""
        if self._batch is None:
            self._batch = self._samplers[0].empty_batch(len(self))
            self._next = 0
        if self.parts[self._next].start == 0:  # Nothing is drawn.
            self._next = 0
            if self._by_total:
                self._allot(draws == "stratified")
        each = "not" if normalise == "by_batch" else normalise
        for self._next in range(self._next, len(self._samplers)):
            n = self._counts[self._next]
            if not n:
                continue
            try:
                self._samplers[self._next].sample_into(
                    self._batch,
                    self.parts[self._next].start,
                    n,
                    beta=beta,
                    normalise=each,
                    draws=draws,
                    timeout=None if deadline is None else max(deadline - time.monotonic(), 0.0),
                )
            except (TimeoutError, Closed, NothingToDraw) as ended:
                why = str(ended).removeprefix("Sampler.sample_into: ")
                raise type(ended)(f"Mix.sample: parts[{self._next}]: {why}") from None
        return self._batch

    def _allot(self, stratified: bool) -> None:
        """How many items each part gives, by what the totals are now."""
        totals = [replay.totals(self._selector) for replay in self._buffers]
        weights = np.array([one["weight"] for one in totals])
        self._items = sum(one["items"] for one in totals)
        if not weights.sum() > 0:
            weights[0] = 1.0
        self._shares = weights / weights.sum()
        if stratified:  # Its share of n, rounded up or down so that the mean is exact.
            edges = np.ceil(np.cumsum(self._shares) * len(self) - self._random.random())
            edges = edges.clip(0, len(self))
            edges[np.flatnonzero(weights)[-1] :] = len(self)
            self._counts = np.diff(edges, prepend=0).astype(int).tolist()
        else:
            self._counts = self._random.multinomial(len(self), self._shares).tolist()

    def _places_of(
        self, keys: NDArray[np.int64]
    ) -> list[tuple[ReplayBuffer, slice | NDArray[np.intp]]]:
        """Where the keys of each buffer are, by their tags; by place where buffers share a tag."""
        if len(self._by_tag) != len(set(self._buffers)):
            if self._by_total or len(keys) != len(self):
                raise ValueError(
                    f"Mix.update_priorities: the buffers have key_tag {self._tags}; allowed: "
                    "different ones, or the keys of a whole batch of exact parts"
                )
            return list(zip(self._buffers, self.parts))
        given = keys.view(np.uint64) >> np.uint64(52)
        for wrong in np.flatnonzero(~np.isin(given, self._tags))[:1]:
            raise ValueError(
                f"Mix.update_priorities: keys[{wrong}] has tag {given[wrong]}; allowed: those of "
                f"the buffers, {self._tags}"
            )
        return [(replay, np.flatnonzero(given == tag)) for tag, replay in self._by_tag.items()]

    def update_priorities(self, keys: ArrayLike, priorities: ArrayLike) -> UpdateResult:
        """Sets the priorities of a batch of this mix in all of its buffers.

        keys: `item_keys` of batches, int64 [n], any of them in any order, as their tags tell whose they
        are. priorities: as many, as of ReplayBuffer.update_priorities. ValueError for other lengths,
        for values that are negative or not finite, for keys of none of the buffers, and for buffers
        that share a key_tag, before anything is set. What else goes wrong in one part, such as a
        timeout, leaves the parts before it set.
        Where buffers of exact parts share a key_tag, as two loads of one checkpoint do, the keys are
        those of one whole batch in their order.
        """
        values = np.asarray(priorities)
        read = np.asarray(keys)
        # numpy makes float64 of an empty list.
        read = read.astype(np.int64, casting="same_kind" if len(read) else "unsafe", copy=False)
        if len(values) != len(read):
            raise ValueError(
                f"Mix.update_priorities: priorities has {len(values)} elements; allowed: {len(read)}"
            )
        # By each part alone values are checked as well, but after the parts before it.
        if values.dtype.kind in "iuf":
            for wrong in np.flatnonzero(~(np.isfinite(values) & (values >= 0)))[:1]:
                raise ValueError(
                    f"Mix.update_priorities: priorities[{wrong}] is {values.flat[wrong]}; allowed: "
                    "finite, at least 0"
                )
        done = [
            replay.update_priorities(read[place], values[place], self._selector)
            for replay, place in self._places_of(read)
        ]
        return UpdateResult(sum(one.applied for one in done), sum(one.stale for one in done))


def mix(
    parts: Sequence[tuple[ReplayBuffer, int]] | Sequence[ReplayBuffer],
    n: int | None = None,
    *,
    seed: int = 0,
    selector: int = 0,
    fresh: float = 0.0,
    unique_frames: bool = False,
) -> Mix:
    """Draws from several buffers in one batch.

    In exact parts, such as half online and half demonstrations:

        both = reprise.mix([(online, 128), (demonstrations, 128)], seed=1)
        batch = both.sample()                       # 128 of each, with one set of weights
        both.update_priorities(batch.item_keys, np.abs(errors))

    By the common total of their priorities, n items in all: P(i) is the weight of an item over the sum
    of all weights of all buffers.

        both = reprise.mix([online, demonstrations], 256, seed=1)
        batch = both.sample()                       # both.parts says which items are whose

    parts: buffers of reprise, and for exact parts the number of items of each in a batch, at least 1.
    They have equal schemas and windows; a ValueError says what differs. seed: of the samplers; each
    part has its own. selector: its place among the selectors of each buffer; by the common total
    Uniform, Proportional or LossAdjusted, without max_times_sampled. fresh, unique_frames: as of
    ReplayBuffer.sampler; each exact part has its share of items that nobody has drawn before, by the
    common total there are none.
    """
    return Mix(parts, n, seed, selector, fresh, unique_frames)
