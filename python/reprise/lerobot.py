"""Replay buffers for lerobot's learner of robots (HIL-SERL), with reprise inside.

    from lerobot.rl import learner
    from reprise import lerobot

    learner.ReplayBuffer = lerobot.ReplayBuffer

`ReplayBuffer` takes the calls of lerobot's own, and its batches mix by `concatenate_batch_transitions`.

What differs from lerobot's own:

- Images, whose keys begin with "observation.image" as in lerobot, are kept as bytes, in steps of
  1/255, and are float32 from 0 to 1 in batches. Each is stored once; `compress=True` keeps images
  compressed. Rows are in main memory, or with `storage=directory` in a mapped file.
- The next state of a step is always the one that `add` was given, also at a time limit and where a
  transition was left out. A transition whose state equals the last next state continues the episode.
- `add`, `sample` and each iterator may be used by a thread of its own, without a lock.
- `offline` draws the transitions that were marked, such as interventions, from the same store; the
  learner of lerobot fills a second buffer with them.
- `save` writes a checkpoint beside the last one, which stays until the new one is whole; `load`
  loads it. `replay.autosave` saves again and again.
- `states`, `actions` and so on read transitions, the oldest first, and cannot be written to. In
  `complementary_info` keys are strings, and a key that a transition lacks is 0.
- Draws come from generators that are seeded from torch's when the first transition is added. A batch
  is in the order of memory, neither random nor by time: shuffle it before you cut it into parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from enum import Enum
from functools import reduce
from operator import getitem
from os import PathLike
from typing import Any, Literal

import numpy as np
import torch
from lerobot.rl import buffer as theirs
from lerobot.rl.buffer import BatchTransition, concatenate_batch_transitions
from lerobot.utils.constants import ACTION, DONE, OBS_IMAGE, REWARD
from numpy.typing import NDArray

import reprise

from ._compress import compress_option, compressed

__all__ = ["Offline", "ReplayBuffer", "concatenate_batch_transitions"]

_INFO = "complementary_info."
_PIECE = 256  # Transitions read at once: a few thousand with images would fill the memory.
# The attributes by which lerobot reads all transitions, and the part of a batch that each reads.
_ROWS = {"actions": "action", "rewards": "reward", "dones": "done", "truncateds": "truncated"}
_ROWS_BY_KEY = {"states": "state", "next_states": "next_state"} | {_INFO[:-1]: _INFO[:-1]}
# The numbers of steps and of transitions when `_in_order` was called, and its result.
_Read = tuple[tuple[int, int], NDArray[np.int64], NDArray[np.bool_]]


class _ItemView:
    """The calls for all transitions of a buffer, and for the marked ones alone."""

    _selector_index = 0  # The index of the selector that draws these transitions.

    @property
    def _store(self) -> Any:
        return self

    @property
    def size(self) -> int:
        """Transitions that can be drawn."""
        return len(self)

    @property
    def position(self) -> int:
        """The place after the newest transition, as `states[i]` counts places."""
        return self.size % int(self._store.capacity)

    @property
    def has_complementary_info(self) -> bool:
        """Whether transitions have complementary information."""
        return bool(self._store.complementary_info_keys)

    def sample(self, batch_size: int) -> Any:
        """A BatchTransition of `batch_size` transitions, or as many as there are, on the device.

        state, next_state: float32 [B, *shape] by their keys. reward, done, truncated: float32 [B].
        RuntimeError if there is nothing to draw.
        """
        n = min(batch_size, self.size)
        if n == 0:
            raise RuntimeError("Cannot sample from an empty buffer. Add transitions first.")
        sampler = self._store._samplers[self._selector_index]
        drawn = sampler.sample(n, beta=0.0, draws="independent", timeout=0.0)
        return self._store._transitions(drawn, self._store.device, self._store.use_drq)

    def get_iterator(
        self, batch_size: int, async_prefetch: bool = True, queue_size: int = 2
    ) -> Iterator[Any]:
        """Yields batches of `batch_size` for ever, as `sample` does. async_prefetch: whether a thread
        draws `queue_size` of them ahead. After `load` make another iterator."""
        store = self._store
        if self.size == 0:
            raise RuntimeError("Cannot sample from an empty buffer. Add transitions first.")
        how: dict[str, Any] = {"beta": 0.0, "draws": "independent"}
        source = store.replay.selector(self._selector_index).sampler(seed=_seed())
        stage = source.prefetch(batch_size, depth=queue_size, **how) if async_prefetch else None
        while True:
            batch = source.sample(batch_size, **how) if stage is None else next(stage)
            yield store._transitions(batch, store.device, store.use_drq)

    def _in_order(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The keys of the transitions, oldest first, and whether each ends a run of steps."""
        replay, size = self._store.replay, self.size
        counts = int(replay.stats()["committed_steps"]), size
        read: _Read | None = self._store._reads.get(self._selector_index)
        if read is None or read[0] != counts:
            sampler = replay.selector(self._selector_index).sampler()
            rows = np.empty((3, size), np.int64)
            for first in range(0, size, _PIECE):
                piece = rows[:, first : first + _PIECE]
                batch = sampler.sample(piece.shape[1], beta=0.0, draws="epoch", timeout=0.0)
                piece[:] = batch.item_keys, batch.episode_ids, batch.positions
            keys, episodes, positions = rows[:, np.lexsort((rows[2], rows[1]))]
            ends = np.ones(size, np.bool_)
            ends[:-1] = (np.diff(episodes) != 0) | (np.diff(positions) != 1)
            self._store._reads[self._selector_index] = read = counts, keys, ends
        return read[1:]

    def __getattr__(self, name: str) -> Any:
        """Parts of all transitions, the oldest first, as lerobot reads them."""
        if name in _ROWS:
            return _Rows(self, (_ROWS[name],))
        if name in _ROWS_BY_KEY:
            part, store = _ROWS_BY_KEY[name], self._store
            keys = store.complementary_info_keys if part == name else store._states
            return {key: _Rows(self, (part, key)) for key in keys}
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


class ReplayBuffer(_ItemView, theirs.ReplayBuffer):  # type: ignore[misc]  # Untyped to mypy here.
    """A ring of the latest `capacity` transitions, drawn uniformly.

    capacity, device, state_keys, image_augmentation_function, use_drq: as in lerobot.
    storage_device, optimize_memory: accepted without effect.
    images: "uint8" keeps images as bytes, and takes bytes or floats from 0 to 1, with a ValueError
    for other floats; "float32" keeps images as they are.
    compress: keeps states of at least 512 bytes, such as images, compressed in memory; see
    reprise.Schema.compress. True: all of them; a list: those with these keys.
    offline: whether there is a part `offline`. If so, of eight chunks at random the one with the
    smallest share of marked transitions leaves, so a mark among many other transitions may leave.
    storage: a directory for a mapped file of the rows; see reprise.ReplayBuffer.
    """

    def __init__(
        self,
        capacity: int,
        device: str = "cuda:0",
        state_keys: Sequence[str] | None = None,
        image_augmentation_function: Callable[[torch.Tensor], torch.Tensor] | None = None,
        use_drq: bool = True,
        storage_device: str = "cpu",
        optimize_memory: bool = False,
        *,
        images: Literal["uint8", "float32"] = "uint8",
        compress: bool | Sequence[str] = False,
        offline: bool = False,
        storage: str | PathLike[str] | None = None,
    ) -> None:
        if capacity <= 0:
            raise ValueError(
                f"ReplayBuffer: capacity is {capacity}; allowed: 1 and more. "
                "Capacity must be greater than 0."
            )
        if images not in ("uint8", "float32"):
            raise ValueError(f"ReplayBuffer: images is {images!r}; allowed: 'uint8', 'float32'")
        self.capacity = capacity
        self.device = device
        self.storage_device = storage_device
        self.optimize_memory = optimize_memory
        self.state_keys = [] if state_keys is None else state_keys
        self.use_drq = use_drq
        # torch compiles the default at its first call, so never if the caller gave a function.
        self.image_augmentation_function = image_augmentation_function or torch.compile(
            theirs.random_shift
        )
        self._images = images
        self._compress = compress_option("ReplayBuffer", compress)
        self._has_offline = offline
        self._storage = storage
        self._replay: reprise.ReplayBuffer | None = None

    @property
    def replay(self) -> reprise.ReplayBuffer | None:
        """The buffer inside; None before the first transition."""
        return self._replay

    @property
    def offline(self) -> Offline:
        """The transitions that were marked. ValueError unless the buffer has `offline=True`."""
        if not self._has_offline:
            raise ValueError("offline: there is none; allowed: with ReplayBuffer(offline=True)")
        return Offline(self)

    def __len__(self) -> int:
        return 0 if self._replay is None else len(self._replay)

    def _initialize_storage(
        self,
        state: Mapping[str, torch.Tensor],
        action: torch.Tensor,
        complementary_info: Mapping[Any, Any] | None = None,
    ) -> None:
        schema = reprise.Schema()
        sizes = {}
        for key, value in state.items():
            is_bytes = key.startswith(OBS_IMAGE) and self._images == "uint8"
            shape = tuple(value.squeeze(0).shape)
            schema.observation(key, np.uint8 if is_bytes else np.float32, shape)
            sizes[key] = int(np.prod(shape)) * (1 if is_bytes else 4)
        for key in compressed("ReplayBuffer", self._compress, sizes):
            schema.compress(key)
        schema.column("action", np.float32, tuple(action.squeeze(0).shape)).reward("reward")
        schema.column("truncated", np.bool_)
        for name, value in _named(complementary_info).items():
            if not isinstance(value, (torch.Tensor, int, float)):
                raise ValueError(
                    f"add: complementary_info has {name!r} of type {type(value).__name__}; "
                    "allowed: tensors and numbers"
                )
            schema.column(_INFO + name, np.float32, tuple(torch.as_tensor(value).squeeze(0).shape))
        marks = reprise.Proportional(alpha=1.0, epsilon=0.0, initial=0.0)
        replay = reprise.ReplayBuffer(
            schema,
            self.capacity,
            window=reprise.Transitions(discount=1.0),
            selectors=[reprise.Uniform(), marks] if self._has_offline else reprise.Uniform(),
            remover=reprise.LowestPriority(selector=1) if self._has_offline else None,
            episode_index=self._has_offline,
            max_writers=1,
            shards=1,
            storage=self._storage,
        )
        self._set_buffer(replay)

    def _set_buffer(self, replay: reprise.ReplayBuffer) -> None:
        self._replay = replay
        self._writer = replay.writer()
        self._samplers = [
            replay.selector(place).sampler(seed=_seed()) for place in range(1 + self._has_offline)
        ]
        self._fields = {field.name: field for field in replay.schema.fields}
        self._states = [
            name for name, field in self._fields.items() if field.role == reprise.Role.OBSERVATION
        ]
        self.complementary_info_keys = [
            name[len(_INFO) :] for name in self._fields if name.startswith(_INFO)
        ]
        self._newest: Any = None  # The object `state` of the newest transition; None once marked.
        self._reads: dict[int, _Read] = {}  # The last result of `_in_order` for each selector.

    def add(
        self,
        state: Mapping[str, torch.Tensor],
        action: torch.Tensor,
        reward: float,
        next_state: Mapping[str, torch.Tensor] | None,
        done: bool,
        truncated: bool,
        complementary_info: Mapping[Any, Any] | None = None,
    ) -> None:
        """Appends a transition; tensors as in lerobot, [*shape] or [1, *shape], on any device.

        next_state: what was seen after the action, also where the episode ended; may be None if
        `done` is true. ValueError for other shapes, and for images other than bytes or 0 to 1.
        """
        if next_state is None:
            if not done:
                raise ValueError("add: next_state is None; allowed: where `done` is true")
            next_state = state
        if self._replay is None:
            self._initialize_storage(state, action, complementary_info)
        info = _named(complementary_info)
        rows: dict[str, Any] = {key: self._array(key, state[key]) for key in self._states}
        rows |= {"next_" + key: self._array(key, next_state[key]) for key in self._states}
        for key in self.complementary_info_keys:
            absent = torch.zeros(self._fields[_INFO + key].shape)
            rows[_INFO + key] = self._array(_INFO + key, info.get(key, absent))
        if_not_done = reprise.End.TRUNCATED if truncated else reprise.End.CONTINUE
        self._writer.append_transition(
            action=self._array("action", action),
            reward=float(reward),
            truncated=bool(truncated),
            end=reprise.End.TERMINATED if done else if_not_done,
            **rows,
        )
        self._newest = state

    def _array(self, name: str, value: Any) -> NDArray[Any]:
        _, _, dtype, shape = self._fields[name]
        tensor = torch.as_tensor(value).detach()
        extra = tensor.ndim - len(shape)  # Leading dimensions of 1; below 0 those that it lacks.
        if (1,) * -extra + tuple(tensor.shape) != (1,) * extra + shape:
            raise ValueError(
                f"add: {name!r} has shape {tuple(tensor.shape)}; allowed: {shape}, or with a first "
                "dimension of 1"
            )
        if dtype != np.uint8:
            tensor = tensor.to(torch.float32)
        elif tensor.dtype != torch.uint8:
            low, high = (float(bound) for bound in torch.aminmax(tensor))
            if not 0.0 <= low <= high <= 1.0:
                raise ValueError(
                    f"add: {name!r} has values from {low:g} to {high:g}; allowed: bytes, floats "
                    "from 0 to 1, or anything with ReplayBuffer(images='float32')"
                )
            tensor = (tensor * 255.0).round().to(torch.uint8)
        array: NDArray[Any] = tensor.cpu().numpy().reshape(shape)
        return array

    def _transitions(self, batch: reprise.Batch, device: str, use_drq: bool) -> Any:
        tensors = batch.torch(None if device == "cpu" else device)
        parts = [{key: tensors[prefix + key] for key in self._states} for prefix in ("", "next_")]
        for part in parts:
            for key, tensor in part.items():
                if tensor.dtype == torch.uint8:
                    part[key] = tensor.to(torch.float32).div_(255.0)
        keys = [key for key in self._states if key.startswith(OBS_IMAGE)] if use_drq else []
        if keys:
            images = torch.cat([part[key] for key in keys for part in parts])
            shifted = self.image_augmentation_function(images).split(len(batch))
            for i, key in enumerate(keys):
                parts[0][key], parts[1][key] = shifted[2 * i], shifted[2 * i + 1]
        info = {key: tensors[_INFO + key] for key in self.complementary_info_keys}
        return BatchTransition(
            state=parts[0],
            action=tensors["action"],
            reward=tensors["reward"],
            next_state=parts[1],
            done=(tensors.discounts == 0.0).float(),  # 0 only after a termination.
            truncated=tensors["truncated"].float(),
            complementary_info=info or None,
        )

    @classmethod
    def from_lerobot_dataset(
        cls,
        lerobot_dataset: Any,
        device: str = "cuda:0",
        state_keys: Sequence[str] | None = None,
        capacity: int | None = None,
        **options: Any,
    ) -> ReplayBuffer:
        """A buffer with the steps of a dataset. capacity: None, or at least the number of steps.

        Reads the dataset once, a step at a time. The last step of an episode is left out unless it
        is done, because the dataset has no state after it. options: those of ReplayBuffer.
        """
        if state_keys is None:
            raise ValueError("from_lerobot_dataset: state_keys is missing; allowed: keys of states")
        steps = len(lerobot_dataset)
        if capacity is not None and capacity < steps:
            raise ValueError(
                f"from_lerobot_dataset: capacity is {capacity}; allowed: at least {steps}"
            )
        buffer = cls(capacity or steps, device, state_keys, **options)
        for step in _steps_of(lerobot_dataset, state_keys):
            buffer.add(**step)
        return buffer

    def save(self, directory: str | PathLike[str], **options: Any) -> reprise.SaveResult:
        """Saves a checkpoint as the newest of a directory; earlier ones stay until the new one is
        whole. options: of reprise.ReplayBuffer.save. ValueError while the buffer is empty."""
        if self._replay is None:
            raise ValueError("save: the buffer is empty")
        return self._replay.save(directory, **options)

    def load(self, directory: str | PathLike[str]) -> list[reprise.SkippedCheckpoint]:
        """Replaces the contents by the newest checkpoint of a directory that is whole, and returns
        the damaged ones skipped. `compress` is as saved. ValueError, and no change, for another
        capacity, `offline` or `images`, or other states than `state_keys`, if those were given."""
        loaded = reprise.ReplayBuffer.load(directory, storage=self._storage)
        options, fields = loaded.buffer.options, loaded.buffer.schema.fields
        states = {field.name: field for field in fields if field.role == reprise.Role.OBSERVATION}
        images = {str(f.dtype) for name, f in states.items() if name.startswith(OBS_IMAGE)}
        for name, given, saved in (
            ("offline", self._has_offline, len(options["selectors"]) == 2),
            ("capacity", self.capacity, options["capacity_steps"]),
            ("images", self._images, images.pop() if images else self._images),
            ("state_keys", sorted(self.state_keys or states), sorted(states)),
        ):
            if given != saved:
                raise ValueError(f"load: {name} is {given!r}; allowed: {saved!r}, as saved")
        self._set_buffer(loaded.buffer)
        return loaded.skipped


class Offline(_ItemView):
    """The marked transitions of a ReplayBuffer, such as demonstrations and interventions, in place
    of the second buffer of lerobot's learner. Call `add` in the thread that adds to the buffer."""

    _selector_index = 1
    _to_dataset = theirs.ReplayBuffer.to_lerobot_dataset  # theirs.ReplayBuffer may become ours.

    def __init__(self, buffer: ReplayBuffer) -> None:
        self._buffer = buffer
        self.capacity = buffer.capacity

    @property
    def _store(self) -> Any:
        return self._buffer

    @property
    def complementary_info_keys(self) -> list[str]:
        """The buffer's keys of complementary information."""
        return self._buffer.complementary_info_keys

    def __len__(self) -> int:
        replay = self._buffer.replay
        return 0 if replay is None else round(replay.selector(1).totals()["weight"])

    def add(self, state: Mapping[str, torch.Tensor], *rest: Any, **named: Any) -> None:
        """Marks the newest transition if it was added with this very object `state` and has no mark
        yet; else adds a transition, and marks it. The arguments are those of ReplayBuffer.add."""
        store = self._store
        if store.replay is None or state is not store._newest:
            store.add(state, *rest, **named)
        store._newest = None
        episode, position = store._writer.episode_id, store._writer.episode_steps - 1
        store.replay.episodes().update_priorities(episode, position, [1.0], selector=1)

    def to_lerobot_dataset(self, *rest: Any, **named: Any) -> Any:
        """As in lerobot's own buffer, but an episode of the dataset also ends where the next
        transition is not marked."""
        part: Any = copy(self)
        if self.size:
            part.truncateds = torch.from_numpy(part._in_order()[1])
        return part._to_dataset(*rest, **named)

    def add_lerobot_dataset(self, lerobot_dataset: Any) -> None:
        """Adds the steps of a dataset, such as demonstrations, and marks them. A step that no state
        follows is left out, as in ReplayBuffer.from_lerobot_dataset."""
        for step in _steps_of(lerobot_dataset, self._buffer.state_keys):
            self.add(**step)


class _Rows:
    """One field of all transitions of a view, the oldest first: rows[i], rows[:n]. `path` leads to
    the field in a BatchTransition: ("state", "observation.state")."""

    def __init__(self, view: _ItemView, path: tuple[str, ...]) -> None:
        self._view, self._path = view, path

    def __len__(self) -> int:
        return self._view.size

    def __getitem__(self, rows: Any) -> torch.Tensor:
        store, keys = self._view._store, self._view._in_order()[0][rows]
        all_keys, pieces = np.atleast_1d(keys), []
        for first in range(0, max(len(all_keys), 1), _PIECE):
            batch = store.replay.gather(all_keys[first : first + _PIECE])
            transitions = store._transitions(batch, "cpu", use_drq=False)
            pieces.append(reduce(getitem, self._path, transitions))
        values: torch.Tensor = torch.cat(pieces)
        values = values.bool() if self._path[0] in ("done", "truncated") else values
        return values if np.ndim(keys) else values[0]


def _steps_of(dataset: Any, state_keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The arguments of `add` for each transition of a dataset that a state follows, with a first
    dimension of 1 as in lerobot."""
    after: Any = dataset[0] if len(dataset) else None
    for i in range(len(dataset)):  # Reads each frame once.
        frame, after = after, dataset[i + 1] if i + 1 < len(dataset) else None
        goes_on = after is not None and bool(after["episode_index"] == frame["episode_index"])
        done = bool(frame[DONE]) if DONE in frame else not goes_on
        if not done and not goes_on:
            continue
        yield {
            "state": {key: frame[key][None] for key in state_keys},
            "action": frame[ACTION][None],
            "reward": float(frame[REWARD]),
            "next_state": {key: (frame if done else after)[key][None] for key in state_keys},
            "done": done,
            "truncated": False,
            "complementary_info": {
                key[len(_INFO) :]: value[None] if isinstance(value, torch.Tensor) else value
                for key, value in frame.items()
                if key.startswith(_INFO)
            },
        }


def _named(info: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Complementary information with strings as keys, because keys may be TeleopEvents."""
    return {str(key.value if isinstance(key, Enum) else key): v for key, v in (info or {}).items()}


def _seed() -> int:
    return int(torch.randint(2**31, ()))
