"""How the values of an `env_dict` are laid out as fields of a schema."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

import reprise

from ._common import whole_number

# Arguments of Writer's calls, whose names fields cannot have.
_RESERVED = frozenset({"self", "end", "final", "priorities", "env_ids"})


@dataclass(frozen=True)
class Value:
    """One name of the `env_dict`."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    field: str  # The keyword in Writer's calls.
    key: str  # The key in a batch, unless the value is a return.
    is_return: bool = False  # Whether it is read from `batch.returns`, under `field`.

    def rows(self, given: Any) -> NDArray[Any]:
        """Converts the values of one or more steps to [steps, *shape]."""
        array = np.asarray(given).astype(self.dtype, copy=False)
        try:
            return array.reshape((-1, *self.shape))
        except ValueError:
            raise ValueError(
                f"add: {self.name!r} has shape {array.shape}; allowed: {self.shape}, or that "
                "behind a first dimension of steps"
            ) from None


def _names(option: str, names: Any) -> tuple[str, ...]:
    if names is None:
        return ()
    if isinstance(names, str):
        return (names,)
    several = tuple(str(name) for name in names)
    if len(set(several)) != len(several):
        raise ValueError(f"{option} is {names!r}; allowed: each name once")
    return several


def _shape(given: Any) -> tuple[int, ...]:
    sizes = [given] if np.ndim(given) == 0 else given
    return tuple(whole_number("shape", size) for size in sizes)


def _field(name: str, names: Container[str]) -> str:
    """A name for the field of a value, not among `names` unless it is `name`, that begins not with
    next_, because that means the next observation of another field."""
    field = name
    if name in _RESERVED or name.startswith("next_"):
        field = f"value_{name}"
        while field in names:
            field = f"value_{field}"
    return field


class Layout:
    """The names, element types and shapes of an `env_dict`, and the field that stores each value.

    Without `Nstep`, x and next_x of one type and shape are an observation, and every other value is
    a column. With `Nstep`, the values that are summed over windows are rewards, and the values that
    a batch takes from the last step of a window, such as `done`, are observations: step t writes
    them as its next observation, and the next observation of a window is that of its last step.
    """

    def __init__(
        self,
        env_dict: Mapping[str, Mapping[str, Any]],
        next_of: str | Sequence[str] | None,
        default_dtype: DTypeLike | None,
        nstep: Mapping[str, Any] | None,
    ) -> None:
        kinds = {
            name: (
                np.dtype(defs.get("dtype", default_dtype or np.single)),
                _shape(defs.get("shape", 1)),
            )
            for name, defs in env_dict.items()
        }
        for name in _names("next_of", next_of):
            if name not in kinds:
                raise ValueError(f"next_of names {name!r}; allowed: {sorted(env_dict)}")
            if f"next_{name}" in env_dict:
                raise ValueError(f"next_of names {name!r}, but env_dict has 'next_{name}' too")
            kinds[f"next_{name}"] = kinds[name]
        if not kinds:
            raise ValueError("env_dict has no names; allowed: at least 1")
        self.windows = bool(nstep)
        self.n_step = 1
        self.gamma = 0.99
        if nstep:
            self._lay_out_windows(kinds, nstep)
        else:
            self._lay_out_steps(kinds)
        self._done = next((value for value in self.layout_values if value.name == "done"), None)

    def _lay_out_steps(self, kinds: Mapping[str, Any]) -> None:
        schema = reprise.Schema()
        keys: dict[str, str] = {}
        # Shorter names first, so that next_next_obs follows next_obs.
        for name in sorted(kinds, key=len):
            following = f"next_{name}"
            if name not in keys and kinds.get(following) == kinds[name]:
                field = _field(name, kinds)
                keys[name], keys[following] = field, f"next_{field}"
                schema.observation(field, *kinds[name])
        for name, kind in kinds.items():
            if name not in keys:
                keys[name] = _field(name, kinds)
                schema.column(keys[name], *kind)
        self.schema = schema
        self.layout_values = [
            Value(name, dtype, shape, keys[name], keys[name])
            for name, (dtype, shape) in kinds.items()
        ]

    def _lay_out_windows(self, kinds: Mapping[str, Any], nstep: Mapping[str, Any]) -> None:
        unknown = set(nstep) - {"size", "gamma", "rew", "next"}
        if unknown or "size" not in nstep:
            raise ValueError(
                f"Nstep has {sorted(nstep)}; allowed: 'size', and 'gamma', 'rew', 'next'"
            )
        self.n_step = whole_number("Nstep['size']", nstep["size"])
        self.gamma = float(nstep.get("gamma", 0.99))
        returns = _names("Nstep['rew']", nstep.get("rew"))
        following = (*_names("Nstep['next']", nstep.get("next")), "done")
        for name in (*returns, *following):
            if name not in kinds:
                raise ValueError(f"Nstep needs {name!r}; env_dict has {sorted(kinds)}")
        schema = reprise.Schema()
        self.layout_values = []
        for name, (dtype, shape) in kinds.items():
            field = _field(name, kinds)
            if name in returns:
                if np.prod(shape, dtype=int) != 1:
                    raise ValueError(f"Nstep['rew'] {name!r} has shape {shape}; allowed: 1 element")
                schema.reward(field)
                value = Value(name, dtype, shape, field, field, is_return=True)
            elif name in following:
                schema.observation(field, dtype, shape)
                value = Value(name, dtype, shape, f"next_{field}", f"next_{field}")
            else:
                schema.column(field, dtype, shape)
                value = Value(name, dtype, shape, field, field)
            self.layout_values.append(value)
        self.schema = schema

    def check_names(self, option: str, names: Any) -> None:
        """ValueError for names that are not in the `env_dict`."""
        allowed = sorted(value.name for value in self.layout_values)
        for name in _names(option, names):
            if name not in allowed:
                raise ValueError(f"{option} names {name!r}; allowed: {allowed}")

    def values(self, given: Mapping[str, Any]) -> tuple[int, dict[str, NDArray[Any]]]:
        """Returns how many steps were given, and their values by Writer's keywords."""
        by_field: dict[str, NDArray[Any]] = {}
        steps: int | None = None
        for value in self.layout_values:
            if value.name not in given:
                raise KeyError(value.name)
            rows = value.rows(given[value.name])
            if steps not in (None, len(rows)):
                raise ValueError(
                    f"add: {value.name!r} has {len(rows)} steps, {self.layout_values[0].name!r} "
                    f"{steps}; allowed: as many of each"
                )
            steps = len(rows)
            by_field[value.field] = rows.reshape(steps) if value.is_return else rows
        return steps or 0, by_field

    def end(self, values: Mapping[str, NDArray[Any]], i: int) -> reprise.End:
        """The end of step i: terminated if its `done` is not 0."""
        ended = self._done is not None and bool(np.any(values[self._done.field][i]))
        return reprise.End.TERMINATED if ended else reprise.End.CONTINUE

    def first_observations(self, fields: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """First observations for an episode with `Nstep`, which no window reads."""
        following = (v.field for v in self.layout_values if v.field.startswith("next_"))
        return {field.removeprefix("next_"): fields[field] for field in following}

    def encode(self, batch: reprise.Batch) -> dict[str, NDArray[Any]]:
        return {value.name: self._column(value, batch) for value in self.layout_values}

    def _column(self, value: Value, batch: reprise.Batch) -> NDArray[Any]:
        if value.is_return:
            summed = batch.returns[value.field]
            return summed.reshape((-1, *value.shape)).astype(value.dtype, copy=False)
        return batch[value.key]

    def empty_batch(self) -> dict[str, NDArray[Any]]:
        return {
            value.name: np.empty((0, *value.shape), value.dtype) for value in self.layout_values
        }
