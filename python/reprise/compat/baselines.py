"""The replay buffers and segment trees of OpenAI Baselines (`baselines.deepq.replay_buffer`,
`baselines.common.segment_tree`), with reprise inside.

What differs, and what is not covered:

- The first transition decides element types and shapes: later transitions are converted to them
  where numpy's same_kind casting allows, else refused with TypeError or ValueError.
  Observations and actions are numbers or arrays of numbers, of one shape; dictionaries and text
  are not covered. Rewards that are whole numbers or Python floats are float64.
- `idxes` are keys, an int64 array, not places in a ring. A key whose transition has been
  overwritten is dropped by `update_priorities`; in Baselines the update lands on its successor.
- New transitions get the highest priority that the buffer has seen: of a key that an update repeats
  the last value alone, and none of overwritten transitions. Baselines counts all that were given.
- `done` means terminated: nothing follows. The end of a time limit is `truncated=True` with
  `done=False`, and comes back as not done. `dones` has the element type of the first `done`.
- Where Baselines fails an assertion, here a ValueError says what is allowed; for an index of a tree
  it is an IndexError.
- `weights` are float32. beta is at most 1. Draws by priority are stratified over all transitions.
- Random numbers are the buffer's own; without `seed` the seed comes from `random`, so a call of
  `random.seed` before the buffer is made fixes them. The order within a batch is that of memory.
- Attributes that begin with an underscore, and pickling: not covered. `replay` is the
  `reprise.ReplayBuffer` inside, to save it, for example.

Thread safety: one thread at a time.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import reprise

from ._common import item_keys, raw_priorities, whole_number
from .baselines_trees import MinSegmentTree, SumSegmentTree

__all__ = ["MinSegmentTree", "PrioritizedReplayBuffer", "ReplayBuffer", "SumSegmentTree"]

Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def _first(name: str, value: Any) -> NDArray[Any]:
    """A value of the first transition, which decides element type and shape."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"add: {name} is of dtype {array.dtype}; allowed: numbers of one shape")
    return array


class ReplayBuffer:
    """A ring of the `size` latest transitions, drawn uniformly with replacement."""

    def __init__(self, size: int, *, seed: int | None = None) -> None:
        self._size = whole_number("size", size)
        self._seed = random.getrandbits(63) if seed is None else whole_number("seed", seed, 0)
        self._replay: reprise.ReplayBuffer | None = None
        self._writer: reprise.Writer
        self._sampler: reprise.Sampler
        self._done_dtype: np.dtype[Any] = np.dtype(bool)

    def _selector(self) -> Any:
        return reprise.Uniform()

    @property
    def replay(self) -> reprise.ReplayBuffer | None:
        """The reprise.ReplayBuffer inside; None before the first transition."""
        return self._replay

    def __len__(self) -> int:
        """Transitions stored, at most `size`; all of them can be drawn."""
        return 0 if self._replay is None else len(self._replay)

    def _buffer_for(self, obs_t: Any, action: Any, reward: Any) -> reprise.ReplayBuffer:
        obs, act, rew = _first("obs_t", obs_t), _first("action", action), _first("reward", reward)
        schema = reprise.Schema()
        schema.observation("obs", obs.dtype, obs.shape)
        schema.column("action", act.dtype, act.shape)
        schema.column("reward", rew.dtype if rew.dtype.kind == "f" else np.float64, rew.shape)
        # With one writer and one shard, steps leave exactly in the order in which they came.
        return reprise.ReplayBuffer(
            schema,
            self._size,
            window=reprise.Transitions(n_step=1, discount=1.0),
            selectors=self._selector(),
            max_writers=1,
            shards=1,
        )

    def add(
        self,
        obs_t: ArrayLike,
        action: ArrayLike,
        reward: ArrayLike,
        obs_tp1: ArrayLike,
        done: ArrayLike,
        *,
        truncated: bool = False,
    ) -> None:
        """Stores a transition, in place of the oldest one if the buffer is full.

        An observation that equals the last `obs_tp1` byte for byte is not stored again.
        """
        if np.any(done):
            end = reprise.End.TERMINATED
        else:
            end = reprise.End.TRUNCATED if truncated else reprise.End.CONTINUE
        step: dict[str, Any] = {"obs": obs_t, "action": action, "reward": reward}
        if self._replay is not None:
            self._writer.append_transition(**step, next_obs=obs_tp1, end=end)
            return
        replay = self._buffer_for(obs_t, action, reward)
        done_dtype = _first("done", done).dtype
        writer = replay.writer()
        writer.append_transition(**step, next_obs=obs_tp1, end=end)
        # These are set only now, because a refused transition must not decide types and shapes.
        self._replay, self._writer, self._done_dtype = replay, writer, done_dtype
        self._sampler = replay.sampler(seed=self._seed)

    def _draw(self, batch_size: int, **options: Any) -> reprise.Batch:
        if len(self) == 0:
            raise ValueError("sample: the buffer is empty")
        batch_size = whole_number("batch_size", batch_size)
        return self._sampler.sample(batch_size, timeout=0.0, **options)

    def _columns(self, batch: reprise.Batch) -> Columns:
        dones = (batch.discounts == 0.0).astype(self._done_dtype)
        return batch["obs"], batch["action"], batch["reward"], batch["next_obs"], dones

    def sample(self, batch_size: int) -> tuple[NDArray[Any], ...]:
        """Arrays of observations, actions, rewards, next observations and dones, which the caller
        owns.

        ValueError if the buffer is empty.
        """
        return self._columns(self._draw(batch_size, beta=0.0, draws="independent"))


class PrioritizedReplayBuffer(ReplayBuffer):
    """As ReplayBuffer, but draws in proportion to priority^alpha (Schaul et al., 2016).

    A new transition has the highest priority that any transition had, at least 1.
    """

    def __init__(self, size: int, alpha: float, *, seed: int | None = None) -> None:
        super().__init__(size, seed=seed)
        if not 0.0 <= alpha <= 8.0:
            raise ValueError(f"alpha is {alpha}; allowed: 0 to 8")
        self._alpha = float(alpha)

    def _selector(self) -> Any:
        return reprise.Proportional(alpha=self._alpha, epsilon=0.0, initial="highest_seen")

    def sample(  # type: ignore[override]  # Baselines has beta as an argument without a default.
        self, batch_size: int, beta: float
    ) -> tuple[NDArray[Any], ...]:
        """As `ReplayBuffer.sample`, then importance weights and the keys of the transitions.

        Weights are (N * P(i))^-beta, divided by the largest that the buffer could give.
        """
        batch = self._draw(batch_size, beta=beta, draws="stratified", normalise="by_buffer")
        return *self._columns(batch), batch.weights, batch.item_keys

    def update_priorities(self, idxes: ArrayLike, priorities: ArrayLike) -> None:
        """Sets the priorities, above 0, of transitions that `sample` named. The last of repeated
        keys counts; transitions that have been overwritten are skipped."""
        keys = item_keys("idxes", idxes)
        values = raw_priorities("priorities", priorities, len(keys))
        refused = np.flatnonzero(~(values > 0.0))
        if len(refused) != 0:
            raise ValueError(f"priorities[{refused[0]}] = {values[refused[0]]}; allowed: above 0")
        if self._replay is None:
            if len(keys) == 0:
                return
            raise ValueError("update_priorities: the buffer is empty, so no key is of it")
        self._replay.update_priorities(keys, values)
