"""The interface of a source of batches, as the stages of a learner use it."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import ArrayLike

from ._vocabulary import Draws, Normalise


class BatchesAhead(Protocol):
    """Batches that a thread draws ahead, as an iterator: a Prefetcher, or one of reprise.ray."""

    def get(self, *, timeout: float | None = None) -> Any:
        """The next batch. StopIteration when the buffer is closed and all drawn batches are handed
        out; TimeoutError if no batch comes within the timeout; Closed after `close`."""

    def close(self) -> None:
        """Ends the thread. Batches that were handed out stay as they are."""


class BatchSource(Protocol):
    """Where batches come from: a Sampler, a Mix, a Sampler of reprise.ray, or a class of your own.
    `prefetch` draws its batches ahead on a thread, and reprise.torch.loader copies them to a device.

    A buffer's own `prefetch` and `loader(replay, n)` make a sampler, which is their source. One
    thread at a time uses a source; meanwhile another one may use the result of `prefetch`.
    """

    def sample(
        self,
        n: int,
        *,
        beta: float = 0.4,
        normalise: Normalise = "by_batch",
        draws: Draws = "stratified",
        timeout: float | None = None,
    ) -> Any:
        """A batch of n items: a reprise.Batch, or a mapping that has all attributes of a
        reprise.Batch, in memory of any kind. ValueError for an n that the source can never give;
        TimeoutError if there are no n items within the timeout; Closed if the source is closed;
        NothingToDraw if every item has weight 0."""

    def prefetch(
        self,
        n: int,
        *,
        beta: float = 0.4,
        normalise: Normalise = "by_batch",
        draws: Draws = "stratified",
        allocator: Any = None,
        timeout: float | None = None,
    ) -> BatchesAhead:
        """Batches like those of `sample`, drawn ahead. allocator: makes their memory, as in
        ReplayBuffer.sampler; None: their memory is of the kind that `sample` uses."""

    def update_priorities(self, keys: Any, priorities: ArrayLike) -> Any:
        """Sets priorities, [n], of items that this source drew, in the selector that it draws by.
        keys: `item_keys` of its batches, or some of them. Returns an UpdateResult; if the update
        goes on in the background, an object whose `wait()` waits until it is made."""
