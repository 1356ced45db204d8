"""A memory for the off-policy agents of skrl, with reprise inside.

    from reprise.skrl import ReplayMemory

    agent = SAC(models=models, memory=ReplayMemory(memory_size=100_000, num_envs=8), ...)

What differs from skrl's RandomMemory:

- A tensor with a "next_" tensor beside it, such as "observations", is stored once: a transition
  that begins with the last next observation of its environment takes one row. Rows are in main
  memory, or in a mapped file, not on the device.
- Draws are uniform and independent of each other; their time does not grow with the number of
  transitions.
- The oldest transitions leave in chunks, each of one environment, so that the oldest transitions of
  two environments may differ in age by a chunk.
- Each call of `add_samples` brings a row for each environment; with one environment any number.
- A batch is in the order of memory, which is neither random nor by time. With `mini_batches` each
  part is a draw of its own.
- There is no `replacement`, because draws repeat, and no `export`, `export_format` and
  `export_directory`.
- Single tensors cannot be read or written, draws are of single transitions, and there are no draws by
  places. `save` and `load` write and read checkpoints.

One thread at a time, as the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import torch
from skrl import config
from skrl.memories.torch import Memory
from skrl.utils.spaces.torch import compute_space_size

import reprise

from ._compress import compress_option, compressed

__all__ = ["ReplayMemory"]


class ReplayMemory(Memory):  # type: ignore[misc]  # Untyped to mypy here.
    """The latest `memory_size` transitions of each environment, drawn uniformly.

    memory_size, num_envs, device: as in skrl; batches are brought to the device.
    compress: keeps observations of at least 512 bytes compressed in memory; see
    reprise.Schema.compress. True: all of them; a list: those with these names.
    storage: a directory for a mapped file of the rows; see reprise.ReplayBuffer.
    """

    def __init__(
        self,
        *,
        memory_size: int,
        num_envs: int = 1,
        device: str | torch.device | None = None,
        compress: bool | Sequence[str] = False,
        storage: str | PathLike[str] | None = None,
    ) -> None:
        # The base's own constructor would allocate a number for each transition.
        self.memory_size = memory_size
        self.num_envs = num_envs
        self.device = config.torch.parse_device(device)
        self._compress = compress_option("ReplayMemory", compress)
        self._storage = storage
        self._kinds: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
        self._replay: reprise.ReplayBuffer | None = None

    @property
    def replay(self) -> reprise.ReplayBuffer | None:
        """The buffer inside; None before the first transition."""
        return self._replay

    def __len__(self) -> int:
        return 0 if self._replay is None else len(self._replay)

    def get_tensor_names(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._kinds)

    def create_tensor(
        self, name: str, *, size: Any, dtype: Any = None, keep_dimensions: bool = False
    ) -> bool:
        """Declares a tensor of `add_samples`, as in skrl. Returns whether it is new. ValueError for
        another size or type than declared before, and for a new one once there are transitions."""
        if size is None:
            return False
        shape = tuple(size) if keep_dimensions else (compute_space_size(size, occupied_size=True),)
        kind = (dtype or torch.get_default_dtype(), shape)
        declared = self._kinds.get(name)
        if declared == kind:
            return False
        if declared is not None or self._replay is not None:
            allowed = declared or "tensors that were created before the first transition"
            raise ValueError(f"create_tensor: {name!r} is {kind}; allowed: {allowed}")
        self._kinds[name] = kind
        return True

    def _schema(self) -> reprise.Schema:
        schema, sizes = reprise.Schema(), {}
        stored_once = [n for n, kind in self._kinds.items() if self._kinds.get("next_" + n) == kind]
        for name, (dtype, shape) in self._kinds.items():
            if name in stored_once:
                schema.observation(name, dtype, shape)
                sizes[name] = int(np.prod(shape)) * dtype.itemsize
            elif name.removeprefix("next_") not in stored_once:
                schema.column(name, dtype, shape)
        for name in compressed("ReplayMemory", self._compress, sizes):
            schema.compress(name)
        return schema

    def _create_buffer(self) -> None:
        self._set_buffer(
            reprise.ReplayBuffer(
                self._schema(),
                self.memory_size * self.num_envs,
                window=reprise.Transitions(),
                selectors=reprise.Uniform(),
                max_writers=self.num_envs,
                shards=1,  # Several shards would not evict the oldest transition first.
                storage=self._storage,
            )
        )

    def _set_buffer(self, replay: reprise.ReplayBuffer) -> None:
        self._writers = replay.vector_writer(self.num_envs, autoreset="disabled")
        self._sampler = replay.sampler(seed=int(torch.randint(2**31, ())))
        self._replay = replay

    def add_samples(self, **tensors: Any) -> None:
        """Appends one transition of each environment, or with a single environment any number of
        transitions, oldest first.

        tensors: all that were created, [num_envs, size]; [size] is one row. Others are skipped. Where
        "terminated" is set, the episode ends. ValueError for a missing one, and for other rows.
        """
        rows = {name: tensors.get(name) for name in self._kinds}
        missing = [name for name, tensor in rows.items() if tensor is None]
        if missing or not rows:
            raise ValueError(
                f"add_samples: {missing or 'all'} missing; allowed: all created tensors"
            )
        arrays = {}
        for name, (dtype, shape) in self._kinds.items():
            tensor = torch.as_tensor(rows[name]).detach().to(dtype=dtype, device="cpu")
            arrays[name] = tensor.reshape(-1, *shape).numpy()
        counts = {len(array) for array in arrays.values()}
        if len(counts) != 1 or (self.num_envs > 1 and counts != {self.num_envs}):
            raise ValueError(
                f"add_samples: the tensors have {sorted(counts)} rows; allowed: {self.num_envs}"
            )
        ends = np.zeros(counts.pop(), np.uint8)
        if "terminated" in arrays:
            ends = arrays["terminated"].reshape(-1).astype(np.uint8)  # 1 is End.TERMINATED.
        if self._replay is None:
            self._create_buffer()
        writer: Any = self._writers if self.num_envs > 1 else self._writers[0]
        writer.append_transitions(end=ends, **arrays)

    def sample(
        self,
        names: Sequence[str],
        *,
        batch_size: int,
        mini_batches: int = 1,
        sequence_length: int = 1,
    ) -> list[list[torch.Tensor | None]]:
        """The parts of a batch, each a list with a tensor [n, size] for each name, None for a name
        that was not created. TimeoutError if there is nothing to draw; ValueError for sequences."""
        if sequence_length != 1:
            raise ValueError(f"sample: sequence_length is {sequence_length}; allowed: 1")
        if self._replay is None:
            raise TimeoutError("sample: the memory is empty")
        parts = []
        for places in np.array_split(np.arange(batch_size), mini_batches):
            n = len(places)  # 0 for the last parts if there are more parts than items.
            drawn = self._sampler.sample(max(n, 1), beta=0.0, draws="independent", timeout=0.0)
            tensors = drawn.torch(None if self.device.type == "cpu" else self.device)
            parts.append([tensors[name][:n] if name in self._kinds else None for name in names])
        return parts

    def reset(self) -> None:
        """Removes all transitions."""
        if self._replay is not None:
            self._replay.clear()

    def save(self, directory: str | PathLike[str] = "", **options: Any) -> reprise.SaveResult:
        """Saves a checkpoint as the newest of a directory; earlier ones stay until the new one is
        whole. options: of reprise.ReplayBuffer.save. ValueError while there are no transitions."""
        if self._replay is None or not directory:
            raise ValueError(f"save: {'directory is missing' if self._replay else 'it is empty'}")
        return self._replay.save(directory, **options)

    def load(self, path: str | PathLike[str]) -> None:
        """Replaces the contents by a checkpoint of the same tensors, `memory_size` and `num_envs`;
        ValueError, and no change, if these differ. `compress` is as saved."""
        loaded = reprise.ReplayBuffer.load(path, storage=self._storage).buffer
        writers, steps = loaded.options["max_writers"], loaded.options["capacity_steps"]
        for name, saved, given in (
            ("the set of tensors", _kinds_of(loaded.schema), _kinds_of(self._schema())),
            ("num_envs", writers, self.num_envs),
            ("memory_size", steps // writers, self.memory_size),
        ):
            if saved != given:
                raise ValueError(f"load: {name} is {saved}; allowed: {given}")
        self._set_buffer(loaded)

    def _not_supported(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            "reprise.skrl has no tensors to read, write or share: use `sample`, or `replay`"
        )

    get_tensor_by_name = set_tensor_by_name = share_memory = _not_supported
    sample_by_index = sample_all = get_sampling_indexes = _not_supported


def _kinds_of(schema: reprise.Schema) -> dict[str, tuple[Any, ...]]:
    return {name: (role.name, str(dtype), shape) for name, role, dtype, shape in schema.fields}
