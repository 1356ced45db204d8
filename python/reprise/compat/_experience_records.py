"""The part of `ExperienceReplay` with steps of open episodes, and the buffer that stores them."""

from __future__ import annotations

import itertools
import random
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import DTypeLike, NDArray

import reprise

from ._common import whole_number

if TYPE_CHECKING:
    from reprise import _Selector

Handles = Union[int, None, Sequence[Union[int, None]]]


@dataclass
class Step:
    """The arguments of one record. `final`: the final state, if the step ends the episode."""

    state: NDArray[Any]
    action: NDArray[Any]
    reward: float
    final: NDArray[Any] | None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"state": self.state.shape, "action": self.action.shape}


@dataclass
class StoredEpisode:
    """An episode that may have steps in the buffer."""

    episode: int  # Its id in the buffer.
    steps: int = 0  # How many of its steps were appended.


@dataclass
class Episode:
    """An open episode. Its last step is appended once the next state is known."""

    writer: reprise.Writer | None = None
    action: NDArray[Any] | None = None
    reward: float = 0.0


def _split_by_episode(name: str, value: Any, count: int) -> Sequence[Any]:
    """Splits a list, tuple or array by episode; any other value is for all `count` episodes."""
    if not isinstance(value, (list, tuple)) and np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise ValueError(f"record: {len(value)} of {name} for {count} episodes")
    return value  # type: ignore[no-any-return]


class Records:
    """The part of `ExperienceReplay` that records steps and keeps episodes."""

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
        self._allow_short = bool(allow_short_seq) and allow_short_seq != -1
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
        # Open episodes by handle; the episode whose last record is oldest comes first.
        self._open: OrderedDict[int, Episode] = OrderedDict()
        self._idle: list[reprise.Writer] = []
        self._writers = 0  # How many were made.
        # Episodes by handle; the episode that `_drop_evicted` looked at longest ago comes first.
        self._stored: OrderedDict[int, StoredEpisode] = OrderedDict()
        # Episodes, positions and keys of the last batch of each selector.
        self._drawn: dict[int, tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]] = {}

    def new_episode(self) -> int:
        """Returns the handle of a new episode, without steps."""
        with self._lock:
            handle = self._next_handle
            self._next_handle += 1
            self._open[handle] = Episode()
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

        A handle of None or -1 begins an episode. With `final_state`, of the shape of a state, the
        step is the last one, and what follows has no value. With a list of handles, the other
        arguments are lists or arrays of as many values, or single values for all, and a list of
        handles is returned. RuntimeError for an episode that was ended, to make room for another one,
        before its first step was stored: that happens to all episodes if more than
        `max_open_episodes` take turns. A call that raises ValueError, TypeError or RuntimeError
        records nothing.
        """
        with self._lock:
            if not isinstance(h_epi, (list, tuple)):
                self._check_stored(h_epi)
                return self._record(h_epi, self._step(state, action, reward, final_state))
            count = len(h_epi)
            given = {"state": state, "action": action, "reward": reward, "final_state": final_state}
            values = [_split_by_episode(name, value, count) for name, value in given.items()]
            for handle in h_epi:
                self._check_stored(handle)
            steps = [self._step(*step) for step in zip(*values)]
            for step in steps[1:]:
                self._check(step, steps[0].shapes)
            # Episodes with a writer come first, because a new episode may take one of these writers.
            has_writer = [h in self._open and self._open[h].writer is not None for h in h_epi]
            handles: list[int] = [0] * count
            for i in sorted(range(count), key=lambda i: not has_writer[i]):
                handles[i] = self._record(h_epi[i], steps[i])
            return handles

    def _check_stored(self, handle: Any) -> None:
        stored = None if handle in self._open else self._stored.get(handle)
        if stored is not None and stored.steps == 0:
            raise RuntimeError(
                f"record: episode {handle} was ended before its first step was stored, because more "
                f"than {self._max_open} are open; allowed: max_open_episodes, {self._max_open}"
            )

    def _step(self, state: Any, action: Any, reward: Any, final_state: Any) -> Step:
        """Checks and converts a step before anything is recorded, because a call that fails records
        nothing."""
        own_action = np.array(action, self._action_dtype)  # A copy, kept until the next record.
        step = Step(
            np.asarray(state, self._state_dtype),
            own_action,
            0.0 if reward is None else float(reward),
            None if final_state is None else np.asarray(final_state, self._state_dtype),
        )
        self._check(step, step.shapes if self._replay is None else self._shapes)
        return step

    def _check(self, step: Step, shapes: dict[str, tuple[int, ...]]) -> None:
        for name, shape in step.shapes.items():
            if shape != shapes[name]:
                raise ValueError(f"record: {name} has shape {shape}; allowed: {shapes[name]}")
        if step.final is not None and step.final.shape != shapes["state"]:
            raise ValueError(
                f"record: final_state has shape {step.final.shape}; allowed: {shapes['state']}"
            )

    def _record(self, handle: Any, step: Step) -> int:
        """Appends the step held back and holds this one back, or appends it too if it is final."""
        if self._replay is None:
            self._begin(step.shapes)
        if handle is None or handle not in self._open:
            handle = self.new_episode()
        episode = self._open[handle]
        if episode.writer is None:
            episode.writer = self._take_writer()
            episode.writer.begin_episode(state=step.state)
            self._stored[handle] = StoredEpisode(episode.writer.episode_id)
            self._drop_evicted()
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
        self, handle: int, episode: Episode, next_state: NDArray[Any], end: reprise.End
    ) -> None:
        assert episode.writer is not None and episode.action is not None
        episode.writer.append(
            action=episode.action,
            reward=episode.reward,
            episode=handle,
            next_state=next_state,
            end=end,
        )
        self._stored[handle].steps += 1

    def _drop_evicted(self) -> None:
        """Drops handles of episodes of which the buffer has no step left.

        Each episode in the buffer has at least one step, so if there are more handles than steps,
        some handles are stale. Each new episode adds one handle and looks at two, so there are
        never more than about twice as many handles as steps.
        """
        assert self._replay is not None
        if len(self._stored) <= self._capacity + self._max_open:
            return
        len(self._replay)  # Ingests recorded steps.
        for handle, stored in list(itertools.islice(self._stored.items(), 2)):
            self._stored.move_to_end(handle)
            if handle not in self._open and not any(
                self._replay.episodes().find(stored.episode, position) is not None
                for position in reversed(range(stored.steps))
            ):
                del self._stored[handle]

    def _take_writer(self) -> reprise.Writer:
        """A writer for a new episode, at worst that of the open episode whose record is oldest."""
        assert self._replay is not None
        if self._idle:
            return self._idle.pop()
        if self._writers < self._max_open:
            self._writers += 1
            return self._replay.writer()
        for handle, episode in self._open.items():
            if episode.writer is not None:
                del self._open[handle]
                return episode.writer  # The writer's next episode truncates this one.
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
                length=self._pick_len, period=1, end="overlap" if self._allow_short else "drop"
            ),
            selectors=self._selectors,
            remover=reprise.SecondChance() if self._second_chance else reprise.Fifo(),
            episode_index=True,
            max_writers=self._max_open,
        )
        self._set_buffer(replay)

    def _set_buffer(self, replay: reprise.ReplayBuffer) -> None:
        self._replay = replay
        self._samplers = [
            replay.selector(place).sampler(seed=self._seed + place)
            for place in range(len(self._selectors))
        ]
