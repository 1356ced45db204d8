"""A replay buffer for the trainers and loops of torchrl, with reprise inside.

    from reprise.torchrl import ReplayBuffer

    rb = ReplayBuffer(100_000, batch_size=256, alpha=0.6, n_step=3, discount=0.99)
    for data in collector:
        rb.extend(data)
        batch = rb.sample()
        loss(batch)["loss"].backward()
        rb.update_tensordict_priority(batch)

`tensordict(batch)` makes a TensorDict of any batch of reprise.

What differs from torchrl's TensorDictReplayBuffer:

- Entries both at the root and under "next" are observations, stored once; otherwise "next" may have
  only rewards, whose names begin with "reward", and "done", "terminated" and "truncated", at any
  depth. A sample has the last three only in the "next" at its root; with several agents they are
  true once they are true for all agents.
- A batch is in the order of memory, which is neither random nor by time. Before you cut it into
  parts, shuffle it by `batch[torch.randperm(len(batch))]`.
- "index" holds keys, which never name another transition; `rb[index]` returns their transitions, and
  `add` and `extend` return no index. There are no writers, samplers or storages, and no places of a
  storage, so no `rb[:]`, `set_`, `update_` or `query`.
- With n steps a transition can be drawn once its n steps are appended or its episode has ended.
- A buffer with transitions cannot be pickled: use `dumps` or `state_dict`. `replay.stats()` takes
  the place of `stats`, `replay.prefetch` and `replay.share` those of `prefetch=` and `share`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import NestedKey, TensorDict, TensorDictBase

import reprise

from ._compress import compress_option, compressed
from ._files import from_files, to_files
from ._torchrl_steps import TRUNCATED, Steps, StepsWriter, key_of, name_of, priorities_of, steps_of

__all__ = ["ReplayBuffer", "tensordict"]


def _keys(index: Any) -> NDArray[np.int64]:
    """Converts "index" of a sample, or one number of it, to an array of keys [n]."""
    keys: NDArray[np.int64] = torch.as_tensor(index).cpu().reshape(-1).numpy()
    return keys


def tensordict(batch: reprise.Batch, device: Any = None) -> TensorDict:
    """The TensorDict [B] of a batch of B items.

    Fields are at the root, "a/b" as ("a", "b"). Under "next" are the next observations, the n-step
    return of each reward [B, 1], and of the last step "done", "terminated" and, for a buffer of this
    module, "truncated", bool [B, 1]; without "truncated" "done" equals "terminated". Also at the
    root: "index", the item keys, "priority_weight" and "_weight", importance weights, [B] each, and
    "steps_to_next_obs" [B, 1], the steps of the return, by which torchrl's value estimators discount.
    For sequences rewards are at the root, [B, T], and "done" and so on are those of the last step.
    device: None shares the batch's memory. For a batch of reprise.ray there is no "index", because
    its keys are no numbers: use its `item_keys`.
    ValueError for sequences with n_step, because torchrl's estimators make the returns of steps
    themselves; and for sequences with end='continue', because any of their steps may end an episode.
    """
    tensors = batch.torch(device)
    if tensors.discounts.ndim != 1:
        raise ValueError("tensordict: the batch has returns of steps; allowed: n_step 0")
    if "is_first" in batch.keys() and "is_first" not in batch.now:
        raise ValueError("tensordict: the batch is of streams; allowed: another end")
    made = TensorDict({}, batch_size=[len(batch)], device=device)
    observations = set(batch.next)
    rewards = set(batch.returns) - {TRUNCATED}
    for name in batch.now:
        if name not in rewards and name != TRUNCATED:
            made[key_of(name)] = tensors[name]
    for name in observations:
        made[key_of("next/" + name)] = tensors["next_" + name]
    for name in rewards:
        made[key_of("next/" + name)] = tensors.returns[name].unsqueeze(-1)
    terminated = (tensors.discounts == 0).unsqueeze(-1)
    made["next", "terminated"] = terminated
    made["next", "done"] = terminated.clone()
    if TRUNCATED in batch.now:
        truncated = tensors.returns.get(TRUNCATED)
        if truncated is None:  # A batch of sequences has the flag of each step instead.
            last = (tensors.lengths.long() - 1).clamp(min=0)
            truncated = tensors[TRUNCATED].gather(1, last.unsqueeze(-1)).squeeze(-1)
        made["next", "truncated"] = (truncated > 0).unsqueeze(-1)
        made["next", "done"] |= made["next", "truncated"]
    if isinstance(tensors.item_keys, torch.Tensor):
        made["index"] = tensors.item_keys
    made["priority_weight"] = tensors.weights
    made["_weight"] = tensors.weights
    made["steps_to_next_obs"] = tensors.lengths.unsqueeze(-1)
    return made


def _is_prioritized(selectors: Any) -> bool:
    """Whether the first selector draws by priority."""
    first = selectors[0] if isinstance(selectors, Sequence) else selectors
    return not isinstance(first, (reprise.Uniform, reprise.Fifo, reprise.Lifo))


class ReplayBuffer:
    """The latest `capacity` transitions of TensorDicts, in which an actor's step is at the root and
    what followed the step is under "next".

    capacity: steps. batch_size: for calls of `sample` that give none. alpha: exponent of priorities;
    None draws uniformly. beta: exponent of the importance weights, an attribute that may change.
    eps: added to priorities. priority_key: the entry that `update_tensordict_priority` reads. If the
    first TensorDict has this entry, it also gives new transitions their first priorities, and the
    buffer has an `episode_index`; else new transitions begin with the selector's initial priority.
    n_step, discount: transitions of n steps, whose reward is the n-step return; discount is the gamma
    of the loss.
    environments: how many environments a batch [N] without ids has: the first N / environments
    steps are of the first one, the next steps of the second, and so on.
    compress: keys of observations of at least 512 bytes, such as ["pixels"], which are compressed
    in memory, or True for all of that size; see reprise.Schema.compress. The first TensorDict
    raises a ValueError for other keys, and for True if it has no observation of that size.
    seed: for the draws. options: those of reprise.ReplayBuffer, such as storage.

    The first TensorDict decides the fields; a later one with others is a ValueError. One thread at
    a time.
    """

    def __init__(
        self,
        capacity: int,
        *,
        batch_size: int | None = None,
        alpha: float | None = None,
        beta: float = 0.4,
        eps: float = 1e-8,
        priority_key: str = "td_error",
        n_step: int = 1,
        discount: float = 0.99,
        environments: int | None = None,
        compress: bool | Sequence[NestedKey] = (),
        seed: int = 0,
        **options: Any,
    ) -> None:
        option = compress_option("ReplayBuffer", compress)
        self.batch_size = batch_size
        self.beta = beta
        self.priority_key = priority_key
        self._capacity = capacity
        self._seed = seed
        self._options = {
            "window": reprise.Transitions(n_step=n_step, discount=discount),
            "selectors": (
                reprise.Uniform()
                if alpha is None
                else reprise.Proportional(alpha=alpha, epsilon=eps)
            ),
        } | options
        self._is_prioritized = _is_prioritized(self._options["selectors"])
        self._environments = environments
        self._compress = option if isinstance(option, bool) else [name_of(key) for key in option]
        self._replay: reprise.ReplayBuffer | None = None
        self._sampler: reprise.Sampler
        self._transform: Any = None
        self._count_offset = 0  # How many steps were committed when `write_count` was last 0.

    @property
    def replay(self) -> reprise.ReplayBuffer | None:
        """The buffer inside; None before the first TensorDict. Its field "next/truncated" is 1
        where a step ends its episode as truncated, else 0."""
        return self._replay

    def __len__(self) -> int:
        """Steps that the buffer holds."""
        return 0 if self._replay is None else len(self._replay)

    def _create_buffer(self, steps: Steps) -> None:
        schema = reprise.Schema()
        names = steps.arrays
        observed = {name.removeprefix("next_") for name in names if name.startswith("next_")}
        for name, array in names.items():
            if name in observed:
                schema.observation(name, array.dtype, array.shape[1:])
            elif name in steps.rewards:
                schema.reward(name)
            elif not name.startswith("next_"):
                schema.column(name, array.dtype, array.shape[1:])
        sizes = {name: names[name][:1].nbytes for name in names if name in observed}
        for name in compressed("ReplayBuffer", self._compress, sizes):
            schema.compress(name)
        options: dict[str, Any] = {"episode_index": steps.priorities is not None} | self._options
        replay = reprise.ReplayBuffer(schema, self._capacity, **options)
        self._use(replay, replay.sampler(seed=self._seed))

    def _use(self, replay: reprise.ReplayBuffer, sampler: reprise.Sampler) -> None:
        self._replay, self._sampler = replay, sampler
        self._is_prioritized = _is_prioritized(replay.options["selectors"])
        self._writers: list[StepsWriter] = []
        self._count_offset = 0

    def _steps(self, data: TensorDictBase) -> Steps:
        return steps_of(data, self.priority_key if self._is_prioritized else None)

    def add(self, data: TensorDictBase) -> None:
        """Appends one step, a TensorDict without batch dimensions."""
        self._write("add", data, lambda step: self._extend(step.unsqueeze(0), environments=None))

    def extend(self, data: TensorDictBase) -> None:
        """Appends steps: [T] of one environment, or [E, T] of E environments, in the order of time.

        A dimension named "time" is that of time. In a batch [N] without such a dimension,
        ("collector", "traj_ids") tells trajectories apart. Without such ids the batch is of as many
        environments as the buffer's `environments` says, by default one; ValueError if that number
        does not divide N. A UserWarning says if most steps do not continue the step before,
        although n_step is above 1.

        A step whose observations equal the next ones of the step before continues that step's
        episode; any other step begins a new episode. ValueError and TypeError as in
        Writer.append_transitions; ValueError for entries under "next" that are neither
        observations, rewards nor ends.
        """
        self._write("extend", data, self._extend_rows)

    def _write(self, call: str, data: Any, append: Callable[[Any], None]) -> None:
        """Calls `append` with what the transforms make of the data, unless they return None."""
        if not isinstance(data, TensorDictBase):
            raise TypeError(f"{call}: data is of type {type(data).__name__}; allowed: a TensorDict")
        if (data.ndim == 0) != (call == "add"):
            raise ValueError(
                f"{call}: data has batch_size {list(data.batch_size)}; allowed: "
                "[] of one step with add, and [T] or [E, T] of several with extend"
            )
        if self._transform is not None:
            data = self._transform.inv(data)
        if data is not None:
            append(data)

    def _extend_rows(self, data: TensorDictBase) -> None:
        names = list(data.names) if data.ndim else []
        if "time" in names[:-1]:
            data = data.transpose(names.index("time"), data.ndim - 1)
        if data.ndim > 1:
            for e, steps in enumerate(data.reshape(-1, data.shape[-1]).unbind(0)):
                self._append(e, self._steps(steps), trajectory=None)
        else:
            self._extend(data, self._environments)

    def _extend(self, data: TensorDictBase, environments: int | None) -> None:
        """Appends steps [N] of trajectories with ids, or of this many environments, else of 1."""
        trajectories = data.get(("collector", "traj_ids"), None)
        if trajectories is not None and data.names[0] != "time":
            numbers = trajectories.cpu().numpy().reshape(len(data))
            present = np.unique(numbers).tolist()
            for number in present:
                steps = self._steps(data[torch.from_numpy(np.flatnonzero(numbers == number))])
                self._append(self._writer_of(number, present), steps, number)
            return
        if environments is not None and data.names[0] != "time":
            if len(data) % environments:
                raise ValueError(
                    f"extend: data has {len(data)} steps; allowed: a multiple of environments, "
                    f"{environments}"
                )
            for e, row in enumerate(data.reshape(environments, -1).unbind(0)):
                self._append(e, self._steps(row), trajectory=None)
            return
        steps = self._steps(data)
        is_summed = getattr(self._options["window"], "n_step", 1) > 1
        breaks = steps.breaks() if is_summed and data.names[0] != "time" else 0
        if 2 * breaks > len(data) - 1:
            warnings.warn(
                f"extend: of {len(data)} steps of one environment {breaks} do not continue the "
                "one before, and no n steps are summed across them: give steps [E, T] of E "
                "environments, or environments=E to the buffer",
                stacklevel=3,
            )
        self._append(0, steps, trajectory=None)

    def _writer_of(self, number: int, present: list[int]) -> int:
        """The index of the writer for a trajectory: the trajectory's own one, else one whose own
        trajectory is over or not `present` in the batch, else that of a new writer."""
        if self._replay is None:
            return 0
        trajectories = [writer.trajectory for writer in self._writers]
        if number in trajectories:
            return trajectories.index(number)
        free = [e for e, own in enumerate(trajectories) if own not in present]
        return free[0] if free else len(self._writers)

    def _append(self, e: int, steps: Steps, trajectory: int | None) -> None:
        """Appends steps by writer e, and makes the buffer and the writer if need be."""
        if self._replay is None:
            self._create_buffer(steps)
        assert self._replay is not None
        while len(self._writers) <= e:
            self._writers.append(StepsWriter(self._replay))
        self._writers[e].append(steps)
        is_over = steps.ends[-1] != reprise.End.CONTINUE
        self._writers[e].trajectory = None if is_over else trajectory

    def can_sample(self, batch_size: int | None = None) -> bool:
        """Whether there is a transition to draw; one is enough for any batch, because draws repeat.
        A rate limiter among the options may still make `sample` fail."""
        return self._replay is not None and self._replay.selector().totals()["items"] > 0

    def set_rng(self, generator: torch.Generator) -> None:
        """Seeds the draws from now on by a number of this generator."""
        self._seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        if self._replay is not None:
            self._sampler = self._replay.sampler(seed=self._seed)

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """A TensorDict [batch_size] as `tensordict` makes it; with return_info also a dict of its
        "index" and "priority_weight". TimeoutError if there is nothing to draw."""
        n = self.batch_size if batch_size is None else batch_size
        if n is None:
            raise ValueError("sample: batch_size is missing: give it here or to ReplayBuffer")
        if self._replay is None:
            raise TimeoutError("sample: the buffer is empty")
        made = self._transformed(tensordict(self._sampler.sample(n, beta=self.beta, timeout=0.0)))
        if return_info:
            return made, {"index": made["index"], "priority_weight": made["priority_weight"]}
        return made

    def next(self) -> Any:
        """`sample` with the batch size of the buffer."""
        return self.sample()

    def __iter__(self) -> Iterator[TensorDict]:
        """Yields batches for ever."""
        while True:
            yield self.sample()

    def _transformed(self, data: TensorDict) -> Any:
        return data if self._transform is None else self._transform(data)

    def __getitem__(self, index: int | torch.Tensor | NDArray[np.int64]) -> TensorDict:
        """The transitions for the "index" of a sample, [B], or the transition for a single number
        of it, through the transforms. IndexError for a transition that has left; TypeError for
        anything but numbers, such as `rb[:]` or names, because there are no places."""
        if isinstance(index, bool) or not isinstance(
            index, (int, np.integer, list, torch.Tensor, np.ndarray)
        ):
            raise TypeError(
                f'ReplayBuffer: the index is {index!r}; allowed: "index" of a sample, or a number '
                "of it, as there are no places of a storage"
            )
        try:
            keys = _keys(index)
            batch = None if self._replay is None else self._replay.gather(keys)
        except (ValueError, TypeError):
            raise IndexError(
                f'ReplayBuffer: of the indices {index!r} one is none; allowed: "index" of samples'
            ) from None
        gone = len(keys) if batch is None else int((batch.lengths == 0).sum())
        if batch is None or gone:
            raise IndexError(
                f"ReplayBuffer: {gone} of {len(keys)} transitions are gone; allowed: "
                '"index" of those that are there'
            )
        made = self._transformed(tensordict(batch))
        return made if np.ndim(index) else made[0]

    def update_priority(self, index: Any, priority: Any) -> reprise.UpdateResult:
        """Sets the priorities [B] of transitions by the "index" [B] of a sample; a single number is
        set for all. Overwritten transitions are skipped and counted."""
        if self._replay is None:
            raise ValueError("update_priority: the buffer is empty")
        keys = _keys(index)
        values = torch.as_tensor(priority).detach()
        if values.numel() == 1:
            values = values.reshape(1).expand(len(keys))
        priorities = priorities_of(values, len(keys), "update_priority: priority")
        return self._replay.update_priorities(keys, priorities)

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Sets the priorities of a sample from its entry `priority_key`, [B] or [B, 1]. Ignored by
        a buffer without priorities, and with a UserWarning for a sample without the entry, to which
        torchrl gives the priority of new transitions."""
        if not self._is_prioritized:
            return
        priority = data.get(self.priority_key, None)
        if priority is None:
            warnings.warn(
                f"update_tensordict_priority: the sample has no {self.priority_key!r}, so its "
                "priorities stay as they are; `priority_key` names the entry that the loss writes",
                stacklevel=2,
            )
        else:
            self.update_priority(data["index"], priority)

    def append_transform(self, transform: Any, *, invert: bool = False) -> ReplayBuffer:
        """Appends a transform of torchrl, or a function of a TensorDict, to those of samples; data
        that is written goes through their inverses, from the last to the first. invert: samples go
        through the inverse, and written data through the transform. Returns the buffer."""
        count = 0 if self._transform is None else len(self._transform)
        return self._insert("append_transform", count, transform, invert)

    def insert_transform(self, index: int, transform: Any, *, invert: bool = False) -> ReplayBuffer:
        """`append_transform`, but before the transform with this index. ValueError for an index
        above the number of transforms."""
        return self._insert("insert_transform", index, transform, invert)

    def _insert(self, call: str, index: int, transform: Any, invert: bool) -> ReplayBuffer:
        from torchrl.envs.transforms import Compose

        if not callable(transform):
            raise TypeError(
                f"{call}: transform is {transform!r}; allowed: a transform of torchrl or a function"
            )
        if invert:
            from torchrl.envs.transforms.transforms import _InvertTransform

            transform = _InvertTransform(Compose(transform))
        if self._transform is None:
            self._transform = Compose()
        self._transform.insert(index, transform)
        return self

    @property
    def write_count(self) -> int:
        """Transitions written since the buffer was made, or emptied."""
        written = 0 if self._replay is None else self._replay.stats()["committed_steps"]
        return int(written) - self._count_offset

    def empty(self, empty_write_count: bool = True) -> None:
        """Removes all transitions. empty_write_count: whether `write_count` begins at 0 again."""
        if self._replay is not None:
            for writer in self._writers:
                writer.close()  # Steps whose n-step windows are open would outlive the clear.
            self._writers = []
            self._replay.clear()
            if empty_write_count:
                self._count_offset += self.write_count

    def dumps(self, path: str | PathLike[str]) -> None:
        """Saves a checkpoint of the buffer in a directory. ValueError while it is empty."""
        if self._replay is None:
            raise ValueError("dumps: the buffer is empty")
        self._replay.save(path, samplers=[self._sampler])

    def loads(self, path: str | PathLike[str]) -> None:
        """Replaces contents, fields, selector and window by those of a checkpoint, but not the
        storage. The random numbers of draws go on from where they were at the save."""
        self._resume(reprise.ReplayBuffer.load(path, storage=self._options.get("storage")).buffer)

    save = dump = dumps
    load = loads

    def _resume(self, replay: reprise.ReplayBuffer) -> None:
        try:
            sampler = replay.sampler(resume=0)
        except ValueError:  # A checkpoint of reprise 0.2 has no sampler.
            sampler = replay.sampler(seed=self._seed)
        self._use(replay, sampler)

    def __getstate__(self) -> dict[str, Any]:
        if self._replay is not None:
            raise TypeError(
                "a reprise.torchrl.ReplayBuffer with transitions cannot be pickled or copied; "
                "allowed: `dumps` and `loads` of a directory, or `state_dict` and `load_state_dict`"
            )
        return self.__dict__.copy()

    def state_dict(self) -> dict[str, Any]:
        """A checkpoint as tensors of bytes by the names of its files, for a trainer's state."""
        files = {} if self._replay is None else to_files(self._replay, [self._sampler])
        return {
            name: torch.from_numpy(np.frombuffer(content, np.uint8).copy())
            for name, content in files.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replaces the contents by a checkpoint that `state_dict` returned."""
        if state:
            files = {name: bytes(content.numpy()) for name, content in state.items()}
            self._resume(from_files(files, self._options.get("storage")))
