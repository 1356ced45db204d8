"""Batches drawn from several buffers in exact parts."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._reprise import Batch, ReplayBuffer
from ._vocabulary import UpdateResult


def _part(i: int, given: tuple[ReplayBuffer, int]) -> tuple[ReplayBuffer, int]:
    try:
        replay, n = given
        n = index(n)
    except (TypeError, ValueError):
        raise TypeError(
            f"mix: parts[{i}] is {given!r}; allowed: a ReplayBuffer and an integer, (replay, n)"
        ) from None
    if n < 1:
        raise ValueError(f"mix: parts[{i}] has {n} items; allowed: at least 1")
    return replay, n


class Mix:
    """Draws batches from several buffers in exact parts; made by reprise.mix.

    One thread at a time.
    """

    def __init__(self, parts: Sequence[tuple[ReplayBuffer, int]], seed: int, selector: int) -> None:
        self._parts = [_part(i, given) for i, given in enumerate(parts)]
        if not self._parts:
            raise ValueError("mix: parts is empty; allowed: at least one (ReplayBuffer, n)")
        first = self._parts[0][0]
        for replay, _ in self._parts[1:]:
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
        self._selector = selector
        self._samplers = [
            replay.sampler(seed=seed + i, selector=selector)
            for i, (replay, _) in enumerate(self._parts)
        ]

    def __len__(self) -> int:
        """Items in a batch."""
        return sum(n for _, n in self._parts)

    @property
    def parts(self) -> list[slice]:
        """The places of each part in a batch, in the order of the parts."""
        ends = np.cumsum([n for _, n in self._parts])
        return [slice(int(end) - n, int(end)) for end, (_, n) in zip(ends, self._parts)]

    def sample(
        self,
        *,
        beta: float = 0.4,
        normalise: str = "by_batch",
        draws: str = "stratified",
        timeout: float | None = None,
    ) -> Batch:
        """A batch whose first items are those of the first part, and so on.

        Arguments and errors as of Sampler.sample, `timeout` for each part. Weights are
        (N * P(i))^-beta with N and P of the item's own buffer; with normalise='by_batch' they are
        divided by the largest of the whole batch. 'by_buffer' is a ValueError for several parts, whose
        weights it would scale apart.
        """
        if normalise == "by_buffer" and len(self._parts) > 1:
            raise ValueError(
                f"Mix.sample: normalise is 'by_buffer', and there are {len(self._parts)} buffers; "
                "allowed: 'by_batch', 'not'"
            )
        batch = self._samplers[0].empty_batch(len(self))
        each = "not" if normalise == "by_batch" else normalise
        for sampler, place in zip(self._samplers, self.parts):
            sampler.sample_into(
                batch,
                place.start,
                place.stop - place.start,
                beta=beta,
                normalise=each,
                draws=draws,
                timeout=timeout,
            )
        if normalise == "by_batch":
            weights = batch.weights
            weights /= weights.max()
        return batch

    def update_priorities(self, keys: NDArray[np.int64], priorities: ArrayLike) -> UpdateResult:
        """Sets the priorities of a batch of this mix in all of its buffers.

        keys: `item_keys` of the batch, int64 [len(mix)], in their order. priorities: [len(mix)], as of
        ReplayBuffer.update_priorities. ValueError for other lengths and for values that are negative
        or not finite, before anything is set. What else goes wrong in one part, such as keys of
        another buffer or a timeout, leaves the parts before it set.
        """
        values = np.asarray(priorities)
        for name, given in (("keys", keys), ("priorities", values)):
            if len(given) != len(self):
                raise ValueError(
                    f"Mix.update_priorities: {name} has {len(given)} elements; allowed: {len(self)}"
                )
        # By each part alone values are checked as well, but after the parts before it.
        if values.dtype.kind in "iuf":
            for wrong in np.flatnonzero(~(np.isfinite(values) & (values >= 0)))[:1]:
                raise ValueError(
                    f"Mix.update_priorities: priorities[{wrong}] is {values.flat[wrong]}; allowed: "
                    "finite, at least 0"
                )
        done = [
            replay.update_priorities(keys[place], values[place], self._selector)
            for (replay, _), place in zip(self._parts, self.parts)
        ]
        return UpdateResult(sum(one.applied for one in done), sum(one.stale for one in done))


def mix(parts: Sequence[tuple[ReplayBuffer, int]], *, seed: int = 0, selector: int = 0) -> Mix:
    """Draws from several buffers in exact parts, such as half online and half demonstrations.

        both = reprise.mix([(online, 128), (demonstrations, 128)], seed=1)
        batch = both.sample()                       # 128 of each, with one set of weights
        both.update_priorities(batch.item_keys, np.abs(errors))

    parts: buffers of reprise and the number of items of each in a batch, at least 1. They have equal
    schemas and windows; a ValueError says what differs. seed: of the samplers; each part has its
    own. selector: its place among the selectors of each buffer.
    """
    return Mix(parts, seed, selector)
