"""A replay buffer for the trainers and loops of torchrl, with reprise inside.

    from reprise.torchrl import ReplayBuffer

    rb = ReplayBuffer(100_000, batch_size=256, alpha=0.6, n_step=3, discount=0.99)
    for data in collector:
        rb.extend(data)
        batch = rb.sample()
        loss(batch)["loss"].backward()
        rb.update_tensordict_priority(batch)

`tensordict(batch)` makes a TensorDict of any batch of reprise.

What differs from torchrl's TensorDictReplayBuffer: entries that are both at the root and under
"next" are observations and stored once; "index" holds keys, which name no other transition later;
there are no transforms, writers, storages or places of a storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase

import reprise

from ._files import from_files, to_files

__all__ = ["ReplayBuffer", "tensordict"]

# What reprise says by the end of a step, by its discount and by its return.
_ENDS = ("done", "terminated", "truncated")


def _key(name: str) -> Any:
    """The nested key of a field's name."""
    parts = tuple(name.split("/"))
    return parts if len(parts) > 1 else name


def _next(name: str) -> tuple[str, ...]:
    return ("next", *name.split("/"))


def _name(key: Any) -> str:
    return key if isinstance(key, str) else "/".join(key)


def tensordict(batch: reprise.Batch, device: Any = None) -> TensorDict:
    """The TensorDict [B] of a batch of B items.

    Fields are at the root, "a/b" as ("a", "b"). Under "next" are the next observations, the n-step
    return of each reward [B, 1], and "done" and "terminated", bool [B, 1]. At the root too: "index",
    the item keys, "priority_weight" and "_weight", importance weights, [B] each, and
    "steps_to_next_obs" [B, 1], the steps of the return, by which torchrl's value estimators discount.
    Of sequences rewards are at the root, [B, T], and the others those of the last step.
    device: None shares the batch's memory.
    """
    tensors = batch.torch(device)
    made = TensorDict({}, batch_size=[len(batch)], device=device)
    observations = set(batch.next)
    rewards = set(batch.returns)
    for name in batch.now:
        if name not in rewards:
            made[_key(name)] = tensors[name]
    for name in observations:
        made[_next(name)] = tensors["next_" + name]
    for name in rewards:
        made[_next(name)] = tensors.returns[name].unsqueeze(-1)
    terminated = (tensors.discounts == 0).unsqueeze(-1)
    made["next", "terminated"] = terminated
    made["next", "done"] = terminated.clone()
    made["index"] = tensors.item_keys
    made["priority_weight"] = tensors.weights
    made["_weight"] = tensors.weights
    made["steps_to_next_obs"] = tensors.lengths.unsqueeze(-1)
    return made


class ReplayBuffer:
    """The latest `capacity` transitions of TensorDicts, in which an actor's step is at the root and
    what followed it under "next".

    capacity: steps. batch_size: of `sample` where it is given none. alpha: exponent of priorities;
    None draws uniformly. beta: exponent of the importance weights, an attribute that may change.
    eps: added to priorities. priority_key: the entry that `update_tensordict_priority` reads.
    n_step, discount: transitions of n steps, whose reward is the n-step return; discount is the gamma
    of the loss.
    seed: of the draws. options: of reprise.ReplayBuffer, such as storage.

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
        seed: int = 0,
        **options: Any,
    ) -> None:
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
        self._is_prioritized = alpha is not None
        self._replay: reprise.ReplayBuffer | None = None
        self._writers: list[reprise.Writer] = []
        self._sampler: reprise.Sampler

    @property
    def replay(self) -> reprise.ReplayBuffer | None:
        """The buffer inside; None before the first TensorDict."""
        return self._replay

    def __len__(self) -> int:
        """Steps that the buffer holds."""
        return 0 if self._replay is None else len(self._replay)

    def _make(self, arrays: dict[str, NDArray[Any]]) -> None:
        schema = reprise.Schema()
        observed = {name.removeprefix("next_") for name in arrays if name.startswith("next_")}
        for name, array in arrays.items():
            if name in observed:
                schema.observation(name, array.dtype, array.shape[1:])
            elif name.startswith("reward"):
                schema.reward(name)
            elif not name.startswith("next_"):
                schema.column(name, array.dtype, array.shape[1:])
        self._use(reprise.ReplayBuffer(schema, self._capacity, **self._options))

    def _use(self, replay: reprise.ReplayBuffer) -> None:
        self._replay = replay
        self._writers = []
        self._sampler = replay.sampler(seed=self._seed)

    def _arrays(self, data: TensorDictBase) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint8]]:
        """The fields and ends of steps [T]."""
        after = data["next"]
        observed = set(after.keys(True, True)) & set(data.keys(True, True)) - set(_ENDS)
        fields = {
            _name(key): data[key]
            for key in data.keys(True, True)
            if _name(key).split("/")[0] not in (*_ENDS, "next", "collector", "index")
        }
        fields |= {"next_" + _name(key): after[key] for key in observed}
        fields |= {
            _name(key): after[key].reshape(len(data))
            for key in after.keys(True, True)
            if _name(key).startswith("reward")
        }
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in fields.items()}

        def flag(name: str) -> NDArray[np.bool_]:
            found = after.get(name, None)
            if found is None:
                return np.zeros(len(data), bool)
            given: NDArray[np.bool_] = found.detach().cpu().numpy().reshape(len(data)).astype(bool)
            return given

        done, cut, over = flag("done"), flag("truncated"), flag("terminated")
        # Without the two others "done" is all that there is to say that an episode terminated.
        over |= done & ~cut if after.get("terminated", None) is None else False
        return arrays, reprise.ends(over, (done | cut) & ~over)

    def add(self, data: TensorDictBase) -> None:
        """Appends one step, a TensorDict without batch dimensions."""
        self.extend(data.unsqueeze(0))

    def extend(self, data: TensorDictBase) -> None:
        """Appends steps: [T] of one environment, or [E, T] of E of them, in the order of time.

        A step whose observations equal the next ones of the step before continues its episode,
        another one begins a new one. ValueError and TypeError as of Writer.append_transition.
        """
        rows = data.unsqueeze(0) if data.ndim == 1 else data
        for e, steps in enumerate(rows.unbind(0)):
            arrays, ends = self._arrays(steps)
            if self._replay is None:
                self._make(arrays)
            while len(self._writers) <= e:
                assert self._replay is not None
                self._writers.append(self._replay.writer())
            append = self._writers[e].append_transition
            for t, end in enumerate(ends):
                append(end=end, **{name: array[t] for name, array in arrays.items()})

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """A TensorDict [batch_size] as `tensordict` makes it; with return_info also a dict of its
        "index" and "priority_weight". It raises TimeoutError where there is nothing to draw."""
        n = self.batch_size if batch_size is None else batch_size
        if n is None:
            raise ValueError("sample: batch_size is missing: give it here or to ReplayBuffer")
        if self._replay is None:
            raise TimeoutError("sample: the buffer is empty")
        made = tensordict(self._sampler.sample(n, beta=self.beta, timeout=0.0))
        if return_info:
            return made, {"index": made["index"], "priority_weight": made["priority_weight"]}
        return made

    def __iter__(self) -> Iterator[TensorDict]:
        """Batches without end."""
        while True:
            yield self.sample()

    def update_priority(self, index: torch.Tensor, priority: torch.Tensor) -> reprise.UpdateResult:
        """Sets the priorities [B] of transitions by "index" [B] of a sample. Those that were
        overwritten are skipped and counted."""
        if self._replay is None:
            raise ValueError("update_priority: the buffer is empty")
        values = priority.detach().cpu().numpy().astype(np.float32)
        return self._replay.update_priorities(
            index.cpu().numpy().reshape(-1), np.abs(values).reshape(len(index), -1).mean(axis=1)
        )

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Sets the priorities of a sample from its entry `priority_key`, [B] or [B, 1]; of a buffer
        without priorities, or a sample without the entry, it does nothing."""
        priority = data.get(self.priority_key, None)
        if self._is_prioritized and priority is not None:
            self.update_priority(data["index"], priority)

    def dumps(self, path: str | PathLike[str]) -> None:
        """Saves a checkpoint of the buffer in a directory. ValueError while it is empty."""
        if self._replay is None:
            raise ValueError("dumps: the buffer is empty")
        self._replay.save(path)

    def loads(self, path: str | PathLike[str]) -> None:
        """Takes what a checkpoint holds, in place of its own contents."""
        self._use(reprise.ReplayBuffer.load(path))

    def state_dict(self) -> dict[str, Any]:
        """A checkpoint as tensors of bytes by the names of its files, for a trainer's state."""
        files = {} if self._replay is None else to_files(self._replay)
        return {
            name: torch.from_numpy(np.frombuffer(content, np.uint8).copy())
            for name, content in files.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes a checkpoint that `state_dict` gave, in place of its own contents."""
        if state:
            self._use(from_files({name: bytes(one.numpy()) for name, one in state.items()}))
