"""Chen and Wang's `ExperienceReplay`: windows of `pick_len` consecutive steps, recorded by episode
and picked at random or by one of several greedy selectors, with reprise inside.

What differs, and what is not covered:

- `max_record_num` is at least 1 and has to be given, where the original knows a buffer without
  limit. Single steps leave, not whole episodes.
- Selectors and the elimination policy are set before the first `record`; afterwards they raise
  RuntimeError. `del_pick_selector` frees nothing. Priorities are at least 0.
- With `allow_short_seq`, the one window of an episode shorter than `pick_len` can be picked once
  the episode has ended.
- At most `max_open_episodes` are open at once; one more ends that which was recorded to the longest
  ago, without a final state.
- Steps of an episode that is no longer open, be it that it was eliminated or ended, go to a new
  one, whose handle `record` returns.
- Actions are kept with a type and shape of their own, so that there is nothing to encode: no
  `encoded_actions`. The variants `get_random_batch_lstm` and `_attn`: not covered.
- `set_priority` does not mark the windows that are gone in `pick_epi`; it skips them.
- `serialize` and `unserialize` take the path of a folder, not of a file: a checkpoint of reprise
  (`ReplayBuffer.save`), with the episodes' handles attached. They raise where the original answers
  None. `export_data` and `import_data`, which hold everything in memory: not covered.
- Random numbers are the buffer's own; its seed, where none is given, comes from `random`.

Thread safety: every method from any thread; calls take turns, as in the original.
"""

from __future__ import annotations

import enum
import itertools
import json
import os
import random
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

import reprise

from ._common import raw_priorities, whole_number

if TYPE_CHECKING:
    from reprise import _Selector

__all__ = ["ExperienceReplay", "Experience_Replay", "PickSelector"]

Handles = Union[int, None, Sequence[Union[int, None]]]

_NEW = float(np.finfo(np.float32).max)  # A window that was never given a priority goes first.
_UNIFORM = 0
_EPISODES = "experience_replay.episodes"  # The attachment of a checkpoint with the handles.


class PickSelector(enum.Enum):
    """The selectors of `new_pick_selector`: both pick the windows of highest priority first."""

    greedy_rb_tree = "greedy_rb_tree"
    greedy_bin_heap = "greedy_bin_heap"


@dataclass
class _Step:
    """What one record brings; `final` ends the episode."""

    state: NDArray[Any]
    action: NDArray[Any]
    reward: float
    final: NDArray[Any] | None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"state": self.state.shape, "action": self.action.shape}


@dataclass
class _Known:
    """The buffer's id of an episode of which it may hold steps, and how many it was given."""

    episode: int
    steps: int = 0


@dataclass
class _Episode:
    """One that is open. Its last step is held back until the state after it is known."""

    writer: reprise.Writer | None = None
    action: NDArray[Any] | None = None
    reward: float = 0.0


def _of_each(name: str, value: Any, count: int) -> Sequence[Any]:
    """A list, tuple or array split by episode; a single value is that of all of them."""
    if not isinstance(value, (list, tuple)) and np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise ValueError(f"record: {len(value)} of {name} for {count} episodes")
    return value  # type: ignore[no-any-return]


class ExperienceReplay:
    """Windows over the latest `max_record_num` steps; a step counts once its next state is known.

    `state` is float32 and `action` int64, of the shapes of the first record, unless told otherwise.
    """

    def __init__(
        self,
        max_record_num: int,
        pick_len: int | None = None,
        allow_short_seq: bool | None = None,
        *,
        state_dtype: DTypeLike = np.float32,
        action_dtype: DTypeLike = np.int64,
        max_open_episodes: int = 64,
        seed: int | None = None,
    ) -> None:
        self._capacity = whole_number("max_record_num", max_record_num)
        self._pick_len = (
            1 if pick_len is None or pick_len == -1 else whole_number("pick_len", pick_len)
        )
        self._short = bool(allow_short_seq) and allow_short_seq != -1
        self._state_dtype, self._action_dtype = np.dtype(state_dtype), np.dtype(action_dtype)
        self._max_open = whole_number("max_open_episodes", max_open_episodes)
        self._seed = random.getrandbits(63) if seed is None else seed
        self._second_chance = False
        self._selectors: list[_Selector] = [reprise.Uniform()]
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._replay: reprise.ReplayBuffer | None = None
        self._samplers: list[reprise.Sampler] = []
        self._next_handle = 0
        self._open: OrderedDict[int, _Episode] = OrderedDict()  # Last recorded to last.
        self._idle: list[reprise.Writer] = []
        self._writers = 0
        self._known: OrderedDict[int, _Known] = OrderedDict()  # Last looked at to last.
        self._drawn: dict[int, tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]] = {}

    # Options.
    def get_pick_policy(self) -> tuple[int, bool]:
        """`pick_len` and `allow_short_seq`."""
        return self._pick_len, self._short

    def set_elimination_policy(self, second_chance_elimination: bool) -> None:
        """First in, first out, or: what was picked since it was last looked at stays."""
        with self._lock:
            self._before_first("set_elimination_policy")
            self._second_chance = bool(second_chance_elimination)

    def new_pick_selector(self, pick_selector_class: PickSelector | str | _Selector) -> int:
        """Its handle, from 1; 0 is the uniform one. Also takes a selector of reprise."""
        with self._lock:
            self._before_first("new_pick_selector")
            if isinstance(pick_selector_class, (PickSelector, str)):
                PickSelector(pick_selector_class)  # ValueError for another name.
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
        """Nothing: a selector lives as long as the buffer."""
        self._selector("del_pick_selector", h_ps)

    def _before_first(self, call: str) -> None:
        if self._replay is not None:
            raise RuntimeError(f"{call}: allowed before the first record alone")

    def _selector(self, call: str, h_ps: int | None) -> int:
        place = _UNIFORM if h_ps is None else int(h_ps)
        if not 0 <= place < len(self._selectors):
            raise ValueError(f"{call}: h_ps is {h_ps}; allowed: 0 to {len(self._selectors) - 1}")
        return place

    # Recording.
    def new_episode(self) -> int:
        """The handle of a new episode, without steps."""
        with self._lock:
            handle = self._next_handle
            self._next_handle += 1
            self._open[handle] = _Episode()
            return handle

    def record(
        self,
        h_epi: Handles,
        state: Any,
        action: Any,
        reward: Any = None,
        final_state: Any = None,
    ) -> Any:
        """Records a step of an episode and returns the episode's handle.

        None or -1 begins an episode. With `final_state`, of the shape of a state, the step is the
        last one, and what follows has no value. With a list of handles the others are lists, or
        arrays with a first dimension, of as many, single values being those of all; then a list of
        handles is returned. Of a call that raises ValueError or TypeError nothing is recorded.
        """
        with self._lock:
            if not isinstance(h_epi, (list, tuple)):
                return self._record(h_epi, self._step(state, action, reward, final_state))
            count = len(h_epi)
            given = {"state": state, "action": action, "reward": reward, "final_state": final_state}
            values = [_of_each(name, value, count) for name, value in given.items()]
            steps = [self._step(*step) for step in zip(*values)]
            for step in steps[1:]:
                self._check(step, steps[0].shapes)
            return [self._record(handle, step) for handle, step in zip(h_epi, steps)]

    def _step(self, state: Any, action: Any, reward: Any, final_state: Any) -> _Step:
        """Checked, as nothing may be recorded of a call that fails."""
        step = _Step(
            np.asarray(state, self._state_dtype),
            np.asarray(action, self._action_dtype),
            0.0 if reward is None else float(reward),
            None if final_state is None else np.asarray(final_state, self._state_dtype),
        )
        self._check(step, step.shapes if self._replay is None else self._shapes)
        return step

    def _check(self, step: _Step, shapes: dict[str, tuple[int, ...]]) -> None:
        for name, shape in step.shapes.items():
            if shape != shapes[name]:
                raise ValueError(f"record: {name} has shape {shape}; allowed: {shapes[name]}")
        if step.final is not None and step.final.shape != shapes["state"]:
            raise ValueError(
                f"record: final_state has shape {step.final.shape}; allowed: {shapes['state']}"
            )

    def _record(self, handle: Any, step: _Step) -> int:
        if self._replay is None:
            self._begin(step.shapes)
        if handle is None or handle not in self._open:
            handle = self.new_episode()
        episode = self._open[handle]
        if episode.writer is None:
            episode.writer = self._take_writer()
            episode.writer.begin_episode(state=step.state)
            self._known[handle] = _Known(episode.writer.episode_id)
            self._forget_gone()
        else:
            self._append(handle, episode, step.state, reprise.End.CONTINUE)
        episode.action, episode.reward = step.action, step.reward
        self._open.move_to_end(handle)
        if step.final is not None:
            self._append(handle, episode, step.final, reprise.End.TERMINATED)
            self._idle.append(episode.writer)
            del self._open[handle]
        return int(handle)

    def _append(
        self, handle: int, episode: _Episode, next_state: NDArray[Any], end: reprise.End
    ) -> None:
        assert episode.writer is not None and episode.action is not None
        episode.writer.append(
            action=episode.action,
            reward=episode.reward,
            episode=handle,
            next_state=next_state,
            end=end,
        )
        self._known[handle].steps += 1

    def _forget_gone(self) -> None:
        """Drops handles of which the buffer has no step left.

        Each episode in the buffer has a step at least, so beyond that many some are gone. With two
        looked at for each new one, there are never more than about twice as many.
        """
        assert self._replay is not None
        if len(self._known) <= self._capacity + self._max_open:
            return
        len(self._replay)  # Takes in what was recorded.
        for handle, known in list(itertools.islice(self._known.items(), 2)):
            self._known.move_to_end(handle)
            if handle not in self._open and not any(
                self._replay.find(known.episode, position) is not None
                for position in reversed(range(known.steps))
            ):
                del self._known[handle]

    def _take_writer(self) -> reprise.Writer:
        assert self._replay is not None
        if self._idle:
            return self._idle.pop()
        if self._writers < self._max_open:
            self._writers += 1
            return self._replay.writer()
        for handle, episode in self._open.items():
            if episode.writer is not None:
                del self._open[handle]
                return episode.writer  # Its next episode ends this one, as truncated.
        raise AssertionError("every writer is idle or an open episode's")

    def _begin(self, shapes: dict[str, tuple[int, ...]]) -> None:
        schema = reprise.Schema()
        schema.observation("state", self._state_dtype, shapes["state"])
        schema.column("action", self._action_dtype, shapes["action"])
        schema.reward("reward")
        schema.column("episode", np.int64)
        self._shapes = shapes
        replay = reprise.ReplayBuffer(
            schema,
            self._capacity,
            window=reprise.Sequences(
                length=self._pick_len, period=1, end="overlap" if self._short else "drop"
            ),
            selectors=self._selectors,
            remover=reprise.SecondChance() if self._second_chance else reprise.Fifo(),
            episode_index=True,
            max_writers=self._max_open,
        )
        self._use(replay)

    def _use(self, replay: reprise.ReplayBuffer) -> None:
        self._replay = replay
        self._samplers = [
            replay.sampler(seed=self._seed + place, selector=place)
            for place in range(len(self._selectors))
        ]

    # Picking.
    def get_random_batch(
        self, batch_size: int, valid_sample_rate: float = 0.0, h_ps: int | None = None
    ) -> list[NDArray[Any]] | None:
        """Windows of a selector, as arrays of the caller's own: states [B, T, ...], actions
        [B, T, ...], rewards [B, T], next states [B, T, ...], how many of the states and of the next
        states count [B], the windows' episodes and positions [B].

        The next state of a last step does not count. None if there are no more windows than
        `batch_size * valid_sample_rate`, or none at all. A greedy selector that has fewer than
        `batch_size` windows gives all of them again and again.
        """
        with self._lock:
            place = self._selector("get_random_batch", h_ps)
            batch_size = whole_number("batch_size", batch_size)
            picks = self._picks()
            if picks == 0 or picks <= batch_size * valid_sample_rate:
                return None
            greedy = isinstance(self._selectors[place], reprise.MaxHeap)
            batch = self._samplers[place].sample(
                min(batch_size, picks) if greedy else batch_size,
                beta=0.0,
                draws="independent",
                timeout=0.0,
                owned=True,
            )
            return self._encode(place, batch, batch_size)

    get_batch = get_random_batch

    def _encode(self, place: int, batch: reprise.Batch, batch_size: int) -> list[NDArray[Any]]:
        lengths = batch.lengths.astype(np.int32)
        terminated = (batch.discounts == 0.0).astype(np.int32)
        columns = [batch["state"], batch["action"], batch["reward"], batch["next_state"]]
        beyond = np.arange(self._pick_len) >= lengths[:, np.newaxis]
        if beyond.any():
            for column in columns:
                column[beyond] = 0
        found = [
            *columns,
            lengths,
            lengths - terminated,
            batch["episode"][:, 0].copy(),
            batch.positions.astype(np.int32),
        ]
        keys = batch.keys
        if len(keys) < batch_size:
            again = np.arange(batch_size) % len(keys)
            found, keys = [column[again] for column in found], keys[again]
        self._drawn[place] = (found[6].copy(), found[7].copy(), keys)
        return found

    def _picks(self) -> int:
        if self._replay is None:
            return 0
        len(self._replay)  # Takes in what was recorded.
        return int(self._replay.stats()["items"])

    def set_priority(
        self, h_ps: int, pick_epi: ArrayLike, pick_pos: ArrayLike, priority: ArrayLike
    ) -> None:
        """Sets the priorities of the windows at these places; those that are gone are skipped.

        Quick for the places of the selector's last batch; others are looked up one by one.
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
                self._replay.update_priorities(drawn[2], values, place)
                return
            for handle, position, value in zip(episodes.tolist(), positions.tolist(), values):
                known = self._known.get(handle)
                if known is not None:
                    self._replay.update_episode_priorities(known.episode, position, [value], place)

    def reset_priorities(self, h_ps: int) -> None:
        """Every window's priority is what the selector's `initial` says, as if it were new: for
        those of `PickSelector` above any that was given, for a selector of reprise that number; 1
        where it is not a number, as the first windows of a buffer have. Looks at all of them, which
        `set_elimination_policy` takes for picking them.
        """
        with self._lock:
            place = self._selector("reset_priorities", h_ps)
            picks = self._picks()
            if place == _UNIFORM or self._replay is None or picks == 0:
                return
            every = self._replay.sampler(selector=_UNIFORM).sample(
                picks, draws="without_replacement", gather=False, timeout=0.0
            )
            initial = getattr(self._selectors[place], "initial", 1.0)
            new = 1.0 if isinstance(initial, str) else initial
            priorities = np.full(picks, new, np.float32)
            self._replay.update_priorities(every.keys, priorities, place)

    # The whole of it.
    def __len__(self) -> int:
        """Steps recorded whose next state is known, less those that were eliminated. Steps that no
        window ends with yet may be in it beyond `max_record_num`."""
        with self._lock:
            if self._replay is None:
                return 0
            len(self._replay)  # Takes in what was recorded.
            stats = self._replay.stats()
            return int(stats["resident_steps"] + stats["pending_steps"])

    def clear(self) -> None:
        """Forgets every episode; selectors stay."""
        with self._lock:
            if self._replay is not None:
                self._replay.close()
            self._forget()

    def serialize(self, path: str | os.PathLike[str]) -> bool:
        """Saves the windows that can be picked, with their priorities, in a folder of that path,
        which is made if need be. Of episodes that are open, the last steps are left out.

        RuntimeError before the first record, `reprise.CheckpointError` or OSError where it fails.
        """
        with self._lock:
            if self._replay is None:
                raise RuntimeError("serialize: nothing was recorded yet")
            folder = Path(path)
            folder.mkdir(parents=True, exist_ok=True)
            known = [[handle, k.episode, k.steps] for handle, k in self._known.items()]
            about = json.dumps({"next_handle": self._next_handle, "episodes": known})
            self._replay.save(folder, keep=1, attachments={_EPISODES: about.encode()})
            return True

    def unserialize(self, path: str | os.PathLike[str]) -> bool:
        """What was saved, in place of everything here, options included. No episode is open.

        OSError or `reprise.CheckpointError` where there is nothing whole, ValueError for a
        checkpoint that `serialize` did not write; this is then as it was.
        """
        with self._lock:
            attachments: dict[str, bytes] = {}
            replay = reprise.ReplayBuffer.load(path, attachments=attachments)
            if _EPISODES not in attachments:
                raise ValueError(f"unserialize: {os.fspath(path)!r} was not written by serialize")
            about = json.loads(attachments[_EPISODES])
            self.clear()
            fields = {field.name: field for field in replay.schema.fields}
            self._state_dtype = fields["state"].dtype
            self._action_dtype = fields["action"].dtype
            self._shapes = {name: tuple(fields[name].shape) for name in ("state", "action")}
            options = replay.options
            self._capacity, self._max_open = options["capacity_steps"], options["max_writers"]
            self._pick_len = options["window"].length
            self._short = options["window"].end == "overlap"
            self._second_chance = isinstance(options["remover"], reprise.SecondChance)
            self._selectors = list(options["selectors"])
            self._next_handle = int(about["next_handle"])
            self._known = OrderedDict(
                (handle, _Known(*known)) for handle, *known in about["episodes"]
            )
            self._use(replay)
            return True

    export_experience_to_file = serialize
    import_experience_from_file = unserialize


Experience_Replay = ExperienceReplay
