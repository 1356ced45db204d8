"""`ReplayBuffer` and `PrioritizedReplayBuffer` of cpprb, with reprise inside.

They take `env_dict` with `shape` and `dtype`, `next_of`, `default_dtype`, `Nstep`, steps added one
at a time or many at once, `priorities` at `add`, and `on_episode_end`. Values are cast to their
dtype as numpy assigns them. Whether `next_of` names it or not, a `next_x` is stored as the x of the
following step, and takes a row of its own only where the two differ; with `Nstep` every value is
stored by itself.

What differs, and what is not covered:

- `indexes` are keys, an int64 array, not places in a ring. A key whose step has been overwritten is
  dropped by `update_priorities`, as if `check_for_update` were always on. What `add` returns, and
  `get_next_index`, are places, for counting alone.
- New steps get the highest priority that the buffer has seen: of a key that an update repeats the
  last value alone, and none of overwritten steps. `get_max_priority` is the highest ever given.
- Element types are those of `reprise.Schema`.
- With `Nstep`, a step whose `done` is not 0 ends its episode, as does `on_episode_end`: windows
  stop there, and `done` is that of the window's last step. In cpprb `done` is 0 for a full window
  that ends with the episode, and windows go on into the next episode unless `on_episode_end` was
  called. Rewards are float32 and of one element. There is no `discounts`.
- Random numbers are the buffer's own; without `seed` the seed comes from `numpy.random`, so a call
  of `numpy.random.seed` before the buffer is made fixes them. The order within a batch is that of
  memory.
- Unknown keywords of the constructors raise TypeError; cpprb ignores them. An `env_dict` without
  names, or of None, is a ValueError; cpprb makes a buffer without names.
- `stack_compress` saves no memory, and stacks need not overlap: `reprise.Transitions(frame_stack=...)`
  stores each frame once.
- `save_transitions` always writes what cpprb writes with `safe=True`, the oldest step first.
  `load_transitions` reads files with and without it, also those of cpprb. As in cpprb priorities
  are not saved.
- `mmap_prefix` raises ValueError: `reprise.ReplayBuffer(storage=...)` keeps steps in a file.
- The other classes (`MPReplayBuffer`, `ReverseReplayBuffer`, HER, LaBER) and the helpers: not
  covered. `replay` is the `reprise.ReplayBuffer` inside, to save it, for example.

Thread safety: one thread at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

import reprise

from ._common import item_keys, raw_priorities, whole_number
from ._cpprb_layout import Layout

__all__ = ["PrioritizedReplayBuffer", "ReplayBuffer"]

EnvDict = Mapping[str, Mapping[str, Any]]

# Indices in the buffer's list of selectors: one draws batches, the other gives all steps in order.
_DRAWS, _IN_ORDER = 0, 1

_FORMAT = 1  # The version number in cpprb's files.
_WITH = {False: "without", True: "with"}


def _complete_columns(
    columns: Mapping[str, NDArray[Any]],
    overrides: Mapping[int, Mapping[str, Any]],
    next_of: Sequence[str] | None,
) -> dict[str, NDArray[Any]]:
    """Completes the columns of a file that cpprb wrote with `safe=False`. The next value of most
    rows is the value of the row after; `overrides` has the next values of the other rows."""
    complete = {name: np.array(values) for name, values in columns.items()}
    for name in next_of or ():
        complete[f"next_{name}"] = np.roll(complete[name], -1, axis=0)
    for row, values in overrides.items():
        for name, value in values.items():
            complete[name][row] = value
    return complete


class ReplayBuffer:
    """A ring of the `size` latest steps, each a value for every name of `env_dict`."""

    _EPISODE_INDEX = False  # Whether the buffer has an episode index.

    def __init__(
        self,
        size: int | float,
        env_dict: EnvDict | None = None,
        *,
        next_of: str | Sequence[str] | None = None,
        stack_compress: str | Sequence[str] | None = None,
        default_dtype: DTypeLike | None = None,
        Nstep: Mapping[str, Any] | None = None,
        mmap_prefix: str | None = None,
        seed: int | None = None,
    ) -> None:
        if mmap_prefix is not None:
            raise ValueError(
                f"mmap_prefix is {mmap_prefix!r}; not covered here: "
                "reprise.ReplayBuffer(storage=...) keeps steps in a mapped file"
            )
        self._size = whole_number("size", size)
        self._layout = Layout(env_dict or {}, next_of, default_dtype, Nstep)
        self._layout.check_names("stack_compress", stack_compress)
        self._seed = int(np.random.randint(0, 2**63 - 1)) if seed is None else seed
        self._begin()

    def _selector(self) -> Any:
        return reprise.Uniform()

    def _begin(self) -> None:
        # With one writer and one shard, steps leave exactly in the order in which they came.
        self._replay = reprise.ReplayBuffer(
            self._layout.schema,
            self._size,
            window=reprise.Transitions(n_step=self._layout.n_step, discount=self._layout.gamma),
            selectors=[self._selector(), reprise.Fifo()],
            episode_index=self._EPISODE_INDEX,
            max_writers=1,
            shards=1,
        )
        self._writer = self._replay.writer()
        self._sampler = self._replay.selector(_DRAWS).sampler(seed=self._seed)
        self._all = self._replay.selector(_IN_ORDER).sampler()
        self._complete = (
            0  # How many steps' windows were complete so far, overwritten ones included.
        )
        self._open = 0  # How many steps of this episode have a window that is not complete yet.
        self._episode_len = 0

    @property
    def replay(self) -> reprise.ReplayBuffer:
        """The reprise.ReplayBuffer inside; `clear` makes another one."""
        return self._replay

    def add(self, **kwargs: ArrayLike) -> int | None:
        """Adds one step, or several if the values have a first dimension of steps.

        Returns the place of the first step that the call stored, or None if it stored none because
        their windows are not complete (`Nstep`). KeyError for a missing name, ValueError for wrong
        shapes; names that are not in `env_dict` are ignored.
        """
        return self._add(kwargs, None)

    def _add(
        self,
        given: Mapping[str, Any],
        priorities: NDArray[np.float32] | None,
        one_step_episodes: bool = False,
    ) -> int | None:
        """Appends steps. `one_step_episodes`: makes an episode of each step, so that each is a
        window by itself."""
        steps, values = self._layout.values(given)
        if priorities is not None and len(priorities) != steps:
            raise ValueError(f"add: {len(priorities)} priorities for {steps} steps")
        complete_before = self._complete
        for i in range(steps):
            newly_complete = self._add_step(values, i, one_step_episodes)
            self._record_priority(None if priorities is None else float(priorities[i]))
            episode, episode_steps = self._writer.episode_id, self._writer.episode_steps
            self._set_first_priorities(newly_complete, episode, episode_steps)
        return complete_before % self._size if self._complete != complete_before else None

    def _add_step(self, values: Mapping[str, NDArray[Any]], i: int, one_step_episodes: bool) -> int:
        """Appends step i. Returns how many windows it completes, those of the oldest open steps."""
        fields = {field: column[i] for field, column in values.items()}
        end = self._layout.end(values, i)
        if one_step_episodes and end == reprise.End.CONTINUE:
            end = reprise.End.TRUNCATED
        if self._layout.windows:
            if not self._writer.in_episode:
                # With `Nstep` no window reads the first observation, so any values will do.
                self._writer.begin_episode(**self._layout.first_observations(fields))
            self._writer.append(end=end, **fields)
        else:
            self._writer.append_transition(end=end, **fields)
        self._episode_len += 1
        self._open += 1
        if end != reprise.End.CONTINUE:
            return self._complete_windows(self._open)
        return self._complete_windows(1 if self._open >= self._layout.n_step else 0)

    def _complete_windows(self, count: int) -> int:
        """Counts the windows of the oldest open steps, `count` of them, as complete."""
        self._open -= count
        self._complete += count
        return count

    def _record_priority(self, priority: float | None) -> None:
        """Keeps the priority of the step that was added last, in a buffer with priorities."""

    def _set_first_priorities(self, count: int, episode: int, episode_steps: int) -> None:
        """Sets the priorities that were kept for the `count` steps whose windows have just become
        complete. The steps still open are the last ones of the `episode_steps` of the episode."""

    def on_episode_end(self) -> None:
        """Ends the episode; with `Nstep` this stores the steps whose windows the end cuts short."""
        if self._writer.in_episode:
            episode, episode_steps = self._writer.episode_id, self._writer.episode_steps
            self._writer.close()  # Closing truncates the episode.
            self._writer = self._replay.writer()
            count = self._complete_windows(self._open)
            self._set_first_priorities(count, episode, episode_steps)
        self._episode_len = 0

    def sample(self, batch_size: int) -> dict[str, NDArray[Any]]:
        """Draws uniformly with replacement, and returns an array [batch_size, *shape] for each
        name, which the caller owns. ValueError if the buffer is empty."""
        return self._layout.encode(self._draw(batch_size, beta=0.0, draws="independent"))

    def _draw(self, batch_size: int, **options: Any) -> reprise.Batch:
        if self.get_stored_size() == 0:
            raise ValueError("sample: the buffer is empty")
        batch_size = whole_number("batch_size", batch_size)
        return self._sampler.sample(batch_size, timeout=0.0, **options)

    def get_all_transitions(self, shuffle: bool = False) -> dict[str, NDArray[Any]]:
        """Returns every step stored, in the order of their places in a ring, or shuffled by
        numpy.random."""
        stored = self.get_stored_size()
        places = np.arange(self._complete - stored, self._complete) % self._size
        order = np.random.permutation(stored) if shuffle else np.argsort(places)
        return {name: values[order] for name, values in self._oldest_first().items()}

    def _oldest_first(self) -> dict[str, NDArray[Any]]:
        stored = self.get_stored_size()
        if stored == 0:
            return self._layout.empty_batch()
        return self._layout.encode(self._all.sample(stored, timeout=0.0))

    def save_transitions(self, file: Any, *, safe: bool = True) -> None:
        """Writes every step stored, without priorities, to a file in numpy's format npz.

        file: a name, or a file that is open for writing. safe: of no effect.
        """
        np.savez_compressed(
            file,
            safe=True,
            version=_FORMAT,
            data=self._oldest_first(),  # type: ignore[arg-type]  # Pickled, as cpprb has it.
            Nstep=self.is_Nstep(),
            cache=None,  # type: ignore[arg-type]
            next_of=None,  # type: ignore[arg-type]
        )

    def load_transitions(self, file: Any) -> None:
        """Adds the steps of a file of `save_transitions`, also of one of cpprb's.

        The file has pickled objects, which can run code of whoever wrote it: load only your own.
        ValueError for another format, and if `Nstep` was given to only one of the two buffers.
        """
        with np.load(file, allow_pickle=True) as saved:
            if saved["version"] != _FORMAT:
                raise ValueError(
                    f"load_transitions: the file has format {saved['version']}; allowed: {_FORMAT}"
                )
            if bool(saved["Nstep"]) != self.is_Nstep():
                raise ValueError(
                    f"load_transitions: the file is of a buffer {_WITH[bool(saved['Nstep'])]} "
                    f"Nstep, this one is {_WITH[self.is_Nstep()]}"
                )
            columns = dict(saved["data"].item())
            if not saved["safe"]:
                columns = _complete_columns(
                    columns, saved["cache"].item() or {}, saved["next_of"].item()
                )
        self.on_episode_end()
        # The rewards in the file are sums over windows already.
        self._add(columns, None, one_step_episodes=self.is_Nstep())

    def clear(self) -> None:
        """Empties the buffer. Earlier keys then raise a ValueError."""
        self._replay.close()
        self._begin()

    def __len__(self) -> int:
        return self.get_stored_size()

    def get_stored_size(self) -> int:
        """How many steps can be drawn: all that are stored; with `Nstep` those whose window is
        complete."""
        return len(self._replay)

    def get_buffer_size(self) -> int:
        """The most steps that the buffer can store: `size`."""
        return self._size

    def get_next_index(self) -> int:
        """The place where a ring would store the next step."""
        return self._complete % self._size

    def get_current_episode_len(self) -> int:
        """Steps added since `on_episode_end`."""
        return self._episode_len

    def is_Nstep(self) -> bool:
        """True if the buffer was made with `Nstep`."""
        return self._layout.windows


class PrioritizedReplayBuffer(ReplayBuffer):
    """As ReplayBuffer, but draws in proportion to (priority + eps)^alpha (Schaul et al., 2016).

    A step that is added without a priority has the highest priority that any step had, at least 1.
    """

    _EPISODE_INDEX = True

    def __init__(
        self,
        size: int | float,
        env_dict: EnvDict | None = None,
        *,
        alpha: float = 0.6,
        eps: float = 1e-4,
        check_for_update: bool = False,
        **kwargs: Any,
    ) -> None:
        self._alpha, self._eps = float(alpha), float(eps)
        self._check_for_update = check_for_update
        super().__init__(size, env_dict, **kwargs)

    def _selector(self) -> Any:
        return reprise.Proportional(alpha=self._alpha, epsilon=self._eps, initial="highest_seen")

    def _begin(self) -> None:
        super()._begin()
        self._max_priority = 1.0
        # Priorities of steps whose window is not complete.
        self._pending_priorities: deque[float | None] = deque()

    def add(self, *, priorities: ArrayLike | None = None, **kwargs: ArrayLike) -> int | None:
        """Adds steps as `ReplayBuffer.add`, with a priority for each or without priorities."""
        if priorities is None:
            return self._add(kwargs, None)
        count = int(np.size(priorities))
        values = raw_priorities("priorities", priorities, count)
        if count != 0:
            self._check(values)
        return self._add(kwargs, values)

    def _check(self, values: NDArray[np.float32]) -> None:
        """Checks priorities before anything is changed."""
        with np.errstate(all="ignore"):
            weights = (values + np.float32(self._eps)) ** np.float32(self._alpha)
        refused = np.flatnonzero(~((values >= 0.0) & np.isfinite(weights)))
        if len(refused) != 0:
            raise ValueError(
                f"priorities[{refused[0]}] = {values[refused[0]]}; allowed: at least 0, with a "
                "finite weight (priority + eps)^alpha"
            )

    def _record_priority(self, priority: float | None) -> None:
        self._pending_priorities.append(priority)
        if priority is not None:
            self._max_priority = max(self._max_priority, priority)

    def _set_first_priorities(self, count: int, episode: int, episode_steps: int) -> None:
        pending = [self._pending_priorities.popleft() for _ in range(count)]
        if all(priority is None for priority in pending):
            return
        first = episode_steps - self._open - count
        values = [self._max_priority if priority is None else priority for priority in pending]
        self._replay.episodes().update_priorities(
            episode, first, np.array(values, np.float32), _DRAWS
        )

    def sample(self, batch_size: int, beta: float = 0.4) -> dict[str, NDArray[Any]]:
        """Draws as `ReplayBuffer.sample`, but by priority, and returns also `weights` and `indexes`.

        Weights are (N * P(i))^-beta, divided by the largest that the buffer could give.
        """
        batch = self._draw(batch_size, beta=beta, draws="stratified", normalise="by_buffer")
        values = self._layout.encode(batch)
        values["weights"] = batch.weights
        values["indexes"] = batch.item_keys
        return values

    def update_priorities(self, indexes: ArrayLike, priorities: ArrayLike) -> None:
        """Sets the priorities of steps that `sample` named. The last of repeated keys counts; steps
        that have been overwritten are skipped."""
        if indexes is None or priorities is None:
            raise TypeError("update_priorities: indexes or priorities are None")
        keys = item_keys("indexes", indexes)
        values = raw_priorities("priorities", priorities, len(keys))
        applied = self._update(keys, values)
        if self._check_for_update and applied < len(values):
            # Keys are updated once more, one by one, because the counts then tell which are stale.
            places = range(len(values))
            applied_each = [self._update(keys[i : i + 1], values[i : i + 1]) for i in places]
            values = values[np.array(applied_each, bool)]
        if len(values) != 0:
            self._max_priority = max(self._max_priority, float(values.max()))

    def _update(self, keys: NDArray[np.int64], values: NDArray[np.float32]) -> int:
        return self._replay.selector(_DRAWS).update(keys, values).applied

    def get_max_priority(self) -> float:
        """The highest priority that was ever given, at least 1. As in cpprb, priorities given to
        overwritten steps count too, unless `check_for_update` is set."""
        return self._max_priority
