"""The rows of a buffer on a device, and batches that are made there: only new rows are sent there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ._memory import Tensors
from ._reprise import Mix, _RowMirror
from ._vocabulary import Draws, Normalise, Role, UpdateResult

# Types that torch does not compute with: the signed type with as many bits, and the mask that makes
# an int64 of its values; -1 if they are int64 already.
UNSIGNED = {"uint16": ("int16", 0xFFFF), "uint32": ("int32", 0xFFFFFFFF), "uint64": ("int64", -1)}
ALIGNED = 64  # Bytes: where arrays of JAX may begin.


def device_of(call: str, given: Any) -> torch.device:
    """The device of this name; ValueError if this machine has no such device."""
    device = torch.device(given)
    count = torch.cuda.device_count()
    if device.type != "cpu" and (device.type != "cuda" or (device.index or 0) >= count):
        allowed = ["'cpu'", *(f"'cuda:{i}'" for i in range(count))]
        raise ValueError(f"{call}: device is {str(given)!r}; allowed here: {', '.join(allowed)}")
    return device


class _Column:
    """One field of all rows, as a view of the copy."""

    def __init__(self, copy: Any, offset: int, field: Any) -> None:
        signed, self._mask = UNSIGNED.get(field.dtype.name, (field.dtype.name, -1))
        typed = copy.view(getattr(torch, signed))
        begin = offset // field.dtype.itemsize
        self._values = typed[:, begin : begin + int(np.prod(field.shape, dtype=np.int64))]
        self._shape = tuple(field.shape)

    def at(self, rows: Any) -> Any:
        """The field's values in these rows; `rows` may have any shape."""
        values = self._values[rows].view(*rows.shape, *self._shape)
        return values if self._mask < 0 else values.to(torch.int64) & self._mask


class Mirror:
    """Batches that a device makes of its own copy of the rows of buffers; made by
    reprise.torch.mirror."""

    def __init__(
        self, source: Any, device: Any, sampler: dict[str, Any], shuffles: bool = False
    ) -> None:
        """shuffles: whether the items of a batch are in random order, not in that of memory."""
        self._device = device_of("mirror", device)
        self._shuffler = torch.Generator(self._device) if shuffles else None
        if self._shuffler is not None:
            self._shuffler.manual_seed(sampler.get("seed", 0))
        if sampler.get("unique_frames"):
            raise ValueError(
                "mirror: unique_frames is True; allowed: False, as the device makes the stacks"
            )
        is_sampler = hasattr(source, "sample")
        if not is_sampler and not hasattr(source, "sampler"):
            raise TypeError(
                f"mirror: source is {source!r}; allowed: a ReplayBuffer, one of its selectors, a "
                "Sampler or a Mix"
            )
        if is_sampler and sampler:
            name, value = next(iter(sampler.items()))
            raise ValueError(f"mirror: {name} is {value!r}; allowed of a buffer alone")
        self._sampler = source if is_sampler else source.sampler(**sampler)
        part_count = len(source.parts) if isinstance(source, Mix) else 1
        self._parts = [_RowMirror(self._sampler, part) for part in range(part_count)]
        first = self._parts[0]  # All parts have equal schemas and windows.
        self._window = first.window
        self._sequences = first.steps > 0
        self._steps = max(first.steps, 1)
        count = sum(part.rows for part in self._parts)
        needed = count * first.row_bytes
        if self._device.type == "cuda":
            free = torch.cuda.mem_get_info(self._device)[0]
            if needed > free:
                raise ValueError(
                    f"mirror: {count} rows of {first.row_bytes} bytes take {needed} "
                    f"bytes; allowed on {self._device}: {free}, what it has free. A smaller "
                    "capacity_steps or max_writers takes less"
                )
        self._rows: list[int] = []  # How many rows each part has.
        self._row_offsets: list[int] = []  # The row of the copy at which each part begins.
        self._copy: Any = None
        # New rows that are not in the copy yet: the part, its rows, and their bytes.
        self._pending_rows: list[tuple[int, Any, Any]] = []
        self._make_room()

    @property
    def nbytes(self) -> int:
        """Bytes of the copy on the device now."""
        return int(self._copy.numel())

    def sample(
        self,
        n: int | None = None,
        *,
        beta: float = 0.4,
        normalise: Normalise = "by_batch",
        draws: Draws = "stratified",
        n_step: int | None = None,
        discount: float | None = None,
        timeout: float | None = None,
    ) -> Tensors:
        """A batch of n items on the device, with the same bits as the batch of a Sampler or Mix with
        the same seed: names, shapes and types are as in Batch.torch. Arguments and errors are those
        of `sample` there; n may be left out for a mix."""
        how: dict[str, Any] = {"beta": beta, "normalise": normalise, "draws": draws}
        how |= {"n_step": n_step, "discount": discount, "timeout": timeout}
        is_mix = isinstance(self._sampler, Mix)
        batch = self._sampler.sample(n, **how, **({} if is_mix else {"views": True}))
        for number, part in enumerate(self._parts):
            # The first call gives the rows of an earlier `sample` that raised before it had them.
            while len((new_rows := part.new_rows())[0]):
                self._pending_rows.append((number, *new_rows))
        self._make_room()
        while self._pending_rows:  # Rows of an earlier call too, if the device had no memory then.
            number, rows, content = self._pending_rows[0]
            self._words.index_copy_(
                0, *self._send(rows + self._row_offsets[number], content.view(np.int64))
            )
            del self._pending_rows[0]
        tensors = Tensors()
        tensors.frames = {}
        changing = [name for name, (_, column) in self._fields.items() if column is None]
        sent = self._send(
            *(batch.item_keys, batch.weights, batch.probabilities, self._first_rows(is_mix)),
            *(batch[name] for name in changing),
        )
        if self._shuffler is not None:
            order = torch.randperm(len(batch), generator=self._shuffler, device=self._device)
            sent = [each[order] for each in sent]
        tensors.item_keys, tensors.weights, tensors.probabilities, self._first, *values = sent
        max_steps = self._window.n_step if n_step is None else n_step
        gamma = float(np.float32(self._window.discount if discount is None else discount))
        self._gather(tensors, dict(zip(changing, values)), max_steps, gamma)
        return tensors

    def _first_rows(self, is_mix: bool) -> Any:
        """The rows of the copy in which the items of the last batch begin."""
        if not is_mix:
            return self._parts[0].first_rows
        counts = [places.stop - places.start for places in self._sampler.parts]
        parts = zip(self._parts, self._row_offsets, counts)
        return np.concatenate([part.first_rows[:count] + begin for part, begin, count in parts])

    def _make_room(self) -> None:
        """Makes the copy larger if a part has more rows than before."""
        rows = [part.rows for part in self._parts]
        if rows == self._rows:
            return
        first = self._parts[0]
        begins = np.cumsum([0, *rows[:-1]]).tolist()
        copy = torch.empty((sum(rows), first.row_bytes), dtype=torch.uint8, device=self._device)
        for old_begin, begin, count in zip(self._row_offsets, begins, self._rows):
            copy[begin : begin + count] = self._copy[old_begin : old_begin + count]
        self._copy, self._rows, self._row_offsets = copy, rows, begins
        self._words = copy.view(torch.int64)
        # The role and column of each field. Fields whose values may change have no column: their
        # offset is beyond the row, and their values come with each batch from the host.
        self._fields: dict[str, tuple[Role, Any]] = {
            field.name: (
                field.role,
                _Column(copy, offset, field) if offset < first.row_bytes else None,
            )
            for field, offset in zip(first.schema.fields, first.offsets)
        }

    def update_priorities(self, keys: Any, priorities: Any) -> UpdateResult:
        """Sets priorities, [n], of items that this mirror drew, in the selector that it draws by;
        waits until the device has computed them. keys: from `item_keys`. Errors are those of
        ReplayBuffer.update_priorities."""
        values = torch.as_tensor(priorities).detach().to(torch.float32).cpu().numpy()
        result: UpdateResult = self._sampler.update_priorities(
            torch.as_tensor(keys).cpu().numpy(), values
        )
        return result

    def _column(self, name: str, ahead: Any) -> Any:
        """The values of a column `ahead` steps after the first step of each item of the last batch,
        [n, *shape]. ahead: [n] integers, within the windows. Not for columns that change."""
        return self._fields[name][1].at(self._first + ahead)

    def _send(self, *arrays: NDArray[Any]) -> list[Any]:
        """Sends the arrays to the device by one copy, in the types of Batch.torch."""
        ends = np.cumsum([-(-array.nbytes // ALIGNED) * ALIGNED for array in arrays]).tolist()
        host_bytes = torch.empty(
            ends[-1], dtype=torch.uint8, pin_memory=self._device.type == "cuda"
        )
        begins = [0, *ends[:-1]]
        for begin, array in zip(begins, arrays):
            host_bytes.numpy()[begin : begin + array.nbytes] = array.reshape(-1).view(np.uint8)
        device_bytes = host_bytes.to(self._device, non_blocking=True)
        sent = []
        for begin, array in zip(begins, arrays):
            signed, mask = UNSIGNED.get(array.dtype.name, (array.dtype.name, -1))
            flat = device_bytes[begin : begin + array.nbytes].view(getattr(torch, signed))
            tensor = flat.view(array.shape)
            sent.append(tensor if mask < 0 else tensor.to(torch.int64) & mask)
        return sent

    def _gather(
        self, tensors: Tensors, changing: dict[str, Any], max_steps: int, gamma: float
    ) -> None:
        """Adds to the tensors what the copy has of the last batch's items, and the `changing`
        fields."""
        first = self._first
        # A row begins with its item's header: the episode's id, and a word of position, length and
        # whether the item's last step terminated.
        header = self._words[first, 1]
        position = header >> 24 & (1 << 40) - 1
        length = header >> 8 & 0xFFFF
        terminated = (header & 0xFF) != 0
        if not self._sequences:
            terminated &= length <= max_steps
            length = length.clamp(max=max_steps)
        steps = torch.arange(self._steps, device=self._device)
        valid = steps < length[:, None]  # [n, T]
        rows = first[:, None] + torch.minimum(steps, length[:, None] - 1)
        for name, (role, column) in self._fields.items():
            if column is None:
                tensors[name] = changing[name]
                continue
            if role != Role.OBSERVATION:
                tensors[name] = self._shaped(column.at(rows), valid)
                continue
            ahead = 1 if self._sequences else length[:, None]
            positions = position[:, None] + (rows - first[:, None])
            tensors[name] = self._stacks(column, rows, positions, valid)
            following = self._stacks(column, rows + ahead, positions + ahead, valid)
            tensors["next_" + name] = following
        tensors.episode_ids = self._words[first, 0]
        tensors.positions, tensors.lengths = position, length.to(torch.int32)
        self._targets(tensors, rows, valid, terminated, max_steps, gamma)

    def _stacks(self, column: _Column, rows: Any, positions: Any, valid: Any) -> Any:
        """The observation of each row, [n, T], or if there are stacks the stack that ends with it.
        positions: those of the rows in their episodes, before which a stack has no frames."""
        stack = self._window.frame_stack
        if stack == 1:
            return self._shaped(column.at(rows), valid)
        lags = torch.arange(stack - 1, -1, -1, device=self._device)
        back = torch.minimum(lags, positions[..., None])
        stacks = column.at(rows[..., None] - back)
        if self._window.stack_start == "zeros":
            stacks = _masked(stacks, lags == back)
        return self._shaped(stacks, valid)

    def _shaped(self, values: Any, valid: Any) -> Any:
        """The values [n, T, ...] as a batch has them: for sequences with zeros beyond an item's
        last step, for transitions without the dimension of steps."""
        return _masked(values, valid) if self._sequences else values[:, 0]

    def _targets(
        self, tensors: Tensors, rows: Any, valid: Any, terminated: Any, max_steps: int, gamma: float
    ) -> None:
        """Adds returns and discounts, [n, T], with the same bits as on the host: in double, one
        step after the other."""
        tensors.returns = {}
        if max_steps == 0:
            tensors.discounts = (~terminated).to(torch.float32)
            return
        left = tensors.lengths[:, None] - (rows - rows[:, :1])  # Steps of the item from a row on.
        count = left.clamp(max=max_steps)
        discounts = [column for role, column in self._fields.values() if role == Role.DISCOUNT]
        rewards = {
            name: column for name, (role, column) in self._fields.items() if role == Role.REWARD
        }
        sums = {name: torch.zeros_like(rows, dtype=torch.float64) for name in rewards}
        product = torch.ones_like(rows, dtype=torch.float64)
        for k in range(min(max_steps, self._steps) if self._sequences else max_steps):
            within = k < count
            row = rows + torch.clamp(count - 1, max=k)
            for name, column in rewards.items():
                term = product * column.at(row).to(torch.float64)
                sums[name] = torch.where(within, sums[name] + term, sums[name])
            factor = gamma * discounts[0].at(row).to(torch.float64) if discounts else gamma
            product = torch.where(within, product * factor, product)
        product = torch.where(terminated[:, None] & (count == left), 0.0, product)
        for name, total in sums.items():
            tensors.returns[name] = self._shaped(total.to(torch.float32), valid)
        tensors.discounts = self._shaped(product.to(torch.float32), valid)


def _masked(values: Any, kept: Any) -> Any:
    """The values with zeros where `kept`, of their first dimensions, is False."""
    kept = kept.view(*kept.shape, *([1] * (values.ndim - kept.ndim)))
    return torch.where(kept, values, torch.zeros((), dtype=values.dtype, device=values.device))


def mirror(source: Any, device: Any = "cuda", **sampler: Any) -> Mirror:
    """Batches that a device makes by itself: a row of the buffer is sent to it once, with the first
    batch that reads the row; each batch sends only keys, weights and probabilities, and the values
    of mutable columns and recurrent states, as they are at the draw.

        rows = reprise.torch.mirror(replay, "cuda")
        batch = rows.sample(32768)
        rows.update_priorities(batch.item_keys, update(batch))

    For simulators that bring far fewer steps than the learner draws. The device has a copy of the
    chunks in use, of `nbytes` bytes: the capacity, and a chunk for each writer. In the copy no
    observation is compressed. ValueError with the number of bytes if the device has less memory
    free. Each episode takes a row more, for its last observation: if episodes are short there are
    more chunks, and the copy grows by an eighth, for which the device needs memory for both copies
    for a moment.

    source: a ReplayBuffer, one of its selectors, a Sampler or a Mix, of this process; TypeError for
    a Guest and for a cluster, whose rows are in memory of other processes. Do not use a Sampler or
    Mix for anything else from then on. sampler: for a buffer, seed and fresh as in
    ReplayBuffer.sampler. One thread at a time uses a mirror; appends, samplers and other mirrors go
    on beside it. The device does its work on the current stream.
    """
    return Mirror(source, device, sampler)


def on_host(tensors: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Copies tensors from a device to arrays by one transfer, for steps of simulators that run on
    the device:

        writers.append(**reprise.torch.on_host({"action": action, "reward": reward,
                                                "next_obs": observation, "end": end}))

    tensors: by names, of any shapes, all on one device. The arrays are read-only. TypeError for a
    value that is no tensor, and for a type that numpy does not have, such as bfloat16 before the
    package ml_dtypes is imported.
    """
    if not tensors:
        return {}
    types = {name: _dtype_of(name, tensor) for name, tensor in tensors.items()}
    flat = [each.detach().contiguous().view(-1).view(torch.uint8) for each in tensors.values()]
    host_bytes = torch.cat(flat).cpu().numpy()
    arrays, begin = {}, 0
    for (name, tensor), part in zip(tensors.items(), flat):
        own_bytes = host_bytes[begin : begin + part.numel()]
        arrays[name] = np.frombuffer(own_bytes.tobytes(), types[name]).reshape(tensor.shape)
        begin += part.numel()
    return arrays


def _dtype_of(name: str, tensor: Any) -> np.dtype[Any]:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"on_host: {name} is of {type(tensor).__name__}; allowed: a tensor")
    try:
        return np.dtype(str(tensor.dtype).removeprefix("torch."))
    except TypeError as error:
        why = f"on_host: {name} has dtype {tensor.dtype}; allowed: types that numpy has"
        raise TypeError(why) from error
