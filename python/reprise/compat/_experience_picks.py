"""The part of `ExperienceReplay` with selectors, batches of windows and priorities."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import reprise

from ._common import raw_priorities, whole_number
from ._experience_records import Records

if TYPE_CHECKING:
    from reprise import _Selector

# The priority of new windows, which greedy selectors pick first.
_NEW = float(np.finfo(np.float32).max)
_UNIFORM = 0
# Selectors that pick in an order, so each window at most once a batch.
_IN_ORDER = (reprise.MaxHeap, reprise.MinHeap, reprise.Fifo, reprise.Lifo)


class PickSelector(enum.Enum):
    """The selectors of `new_pick_selector`, which pick the windows of highest priority first."""

    greedy_rb_tree = "greedy_rb_tree"
    greedy_bin_heap = "greedy_bin_heap"


class Picks(Records):
    """The part of `ExperienceReplay` that picks windows."""

    def get_pick_policy(self) -> tuple[int, bool]:
        """`pick_len` and `allow_short_seq`."""
        return self._pick_len, self._allow_short

    def set_elimination_policy(self, second_chance_elimination: bool) -> None:
        """Chooses `Fifo`, or `SecondChance`, which spares chunks used since its last look."""
        with self._lock:
            self._check_not_recorded("set_elimination_policy")
            self._second_chance = bool(second_chance_elimination)

    def new_pick_selector(self, pick_selector_class: PickSelector | str | _Selector) -> int:
        """Adds a selector, of the original or of reprise, and returns its handle, from 1 on; 0 is
        the handle of the uniform selector."""
        with self._lock:
            self._check_not_recorded("new_pick_selector")
            if isinstance(pick_selector_class, (PickSelector, str)):
                PickSelector(pick_selector_class)  # Raises ValueError for an unknown name.
                self._selectors.append(reprise.MaxHeap(initial=_NEW))
            elif getattr(pick_selector_class, "initial", None) == "from_caller":
                raise ValueError(
                    f"new_pick_selector: initial of {pick_selector_class} is 'from_caller'; "
                    "allowed: any other, since record brings no priorities"
                )
            else:
                self._selectors.append(pick_selector_class)
            return len(self._selectors) - 1

    def del_pick_selector(self, h_ps: int) -> None:
        """Does nothing, because a selector lives as long as the buffer."""
        self._selector("del_pick_selector", h_ps)

    def _check_not_recorded(self, call: str) -> None:
        if self._replay is not None:
            raise RuntimeError(f"{call}: allowed before the first record alone")

    def _selector(self, call: str, h_ps: int | None) -> int:
        place = _UNIFORM if h_ps is None else int(h_ps)
        if not 0 <= place < len(self._selectors):
            raise ValueError(f"{call}: h_ps is {h_ps}; allowed: 0 to {len(self._selectors) - 1}")
        return place

    def get_random_batch(
        self, batch_size: int, valid_sample_rate: float = 0.0, h_ps: int | None = None
    ) -> list[NDArray[Any]] | None:
        """Windows that a selector picks, as arrays that the caller owns: states [B, T, ...],
        actions [B, T, ...], rewards [B, T], next states [B, T, ...], the numbers of valid states
        and of valid next states [B], the windows' episodes and positions [B].

        The next state of an episode's last step is invalid. Returns None if there is no window, or
        if there are not more windows than `batch_size * valid_sample_rate`. A selector that picks
        in an order (a greedy one, MaxHeap, MinHeap, Fifo or Lifo) and has fewer than `batch_size`
        windows gives all of them again and again.
        """
        with self._lock:
            place = self._selector("get_random_batch", h_ps)
            batch_size = whole_number("batch_size", batch_size)
            picks = self._pick_count()
            if picks == 0 or picks <= batch_size * valid_sample_rate:
                return None
            in_order = isinstance(self._selectors[place], _IN_ORDER)
            batch = self._samplers[place].sample(
                min(batch_size, picks) if in_order else batch_size,
                beta=0.0,
                draws="independent",
                timeout=0.0,
            )
            return self._encode(place, batch, batch_size)

    get_batch = get_random_batch

    def _encode(self, place: int, batch: reprise.Batch, batch_size: int) -> list[NDArray[Any]]:
        """The result of `get_random_batch` for a batch, whose items repeat if they are too few."""
        lengths = batch.lengths.astype(np.int32)
        terminated = (batch.discounts == 0.0).astype(np.int32)
        columns = [batch["state"], batch["action"], batch["reward"], batch["next_state"]]
        beyond = np.arange(self._pick_len) >= lengths[:, np.newaxis]
        if beyond.any():
            for column in columns:
                column[beyond] = 0
        episodes, positions = batch["episode"][:, 0].copy(), batch.positions.astype(np.int32)
        columns += [lengths, lengths - terminated, episodes, positions]
        keys = batch.item_keys
        if len(keys) < batch_size:
            again = np.arange(batch_size) % len(keys)
            columns, keys = [column[again] for column in columns], keys[again]
        *_, episodes, positions = columns
        self._drawn[place] = (episodes.copy(), positions.copy(), keys)
        return columns

    def _pick_count(self) -> int:
        if self._replay is None:
            return 0
        len(self._replay)  # Ingests recorded steps.
        return int(self._replay.stats()["items"])

    def set_priority(
        self, h_ps: int, pick_epi: ArrayLike, pick_pos: ArrayLike, priority: ArrayLike
    ) -> None:
        """Sets the priorities of the windows at these places; skips windows that have left.

        If the places are those of the selector's last batch, all are set at once; else the windows
        are looked up one by one.
        """
        episodes = np.asarray(pick_epi, np.int64).ravel()
        positions = np.asarray(pick_pos, np.int64).ravel()
        values = raw_priorities("priority", priority, len(episodes))
        if len(positions) != len(episodes):
            raise ValueError(
                f"set_priority: {len(positions)} pick_pos for {len(episodes)} pick_epi"
            )
        with self._lock:
            place = self._selector("set_priority", h_ps)
            if place == _UNIFORM or self._replay is None:
                return
            drawn = self._drawn.get(place)
            if drawn and np.array_equal(drawn[0], episodes) and np.array_equal(drawn[1], positions):
                self._replay.selector(place).update(drawn[2], values)
                return
            for handle, position, value in zip(episodes.tolist(), positions.tolist(), values):
                stored = self._stored.get(handle)
                if stored is not None:
                    self._replay.episodes().update_priorities(
                        stored.episode, position, [value], place
                    )

    def reset_priorities(self, h_ps: int) -> None:
        """Sets every window's priority to the selector's `initial`, as if the window were new. The
        `initial` of a greedy selector is the largest float32; a selector of reprise without a
        number as `initial` sets 1. All windows count as picked for `set_elimination_policy`."""
        with self._lock:
            place = self._selector("reset_priorities", h_ps)
            picks = self._pick_count()
            if place == _UNIFORM or self._replay is None or picks == 0:
                return
            all_windows = (
                self._replay.selector(_UNIFORM)
                .sampler()
                .sample(picks, draws="without_replacement", gather=False, timeout=0.0)
            )
            initial = getattr(self._selectors[place], "initial", 1.0)
            priority = 1.0 if isinstance(initial, str) else initial
            priorities = np.full(picks, priority, np.float32)
            self._replay.selector(place).update(all_windows.item_keys, priorities)
