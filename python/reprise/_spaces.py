"""Schemas and names from spaces of Gymnasium, and modes of its vector environments. Gymnasium is
not imported: spaces are recognised by the names of their classes, so those of gym work too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._extend import method
from ._reprise import Guest, ReplayBuffer, Schema, StepPacker, VectorWriter

_ARRAYS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")


def _leaves(name: str, space: Any) -> Iterator[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Yields name, dtype and shape of each array in a value of the space."""
    kinds = {base.__name__ for base in type(space).__mro__}
    if "Dict" in kinds or "Tuple" in kinds:
        inside = space.spaces
        for key, part in inside.items() if "Dict" in kinds else enumerate(inside):
            yield from _leaves(f"{name}/{key}" if name else str(key), part)
    elif kinds & set(_ARRAYS):
        yield name, np.dtype(space.dtype), tuple(space.shape)
    else:
        raise TypeError(
            f"Schema.from_spaces: {name or 'observation_space'} is {space!r}; allowed: a Dict or "
            f"Tuple of spaces, {', '.join(_ARRAYS)}"
        )


@method(
    Schema,
    "@staticmethod from_spaces(observation_space: Any, action_space: Any, *, "
    "observation: str = 'obs', action: str = 'action', reward: str = 'reward') -> Schema",
)
def _from_spaces(
    observation_space: Any,
    action_space: Any,
    *,
    observation: str = "obs",
    action: str = "action",
    reward: str = "reward",
) -> Schema:
    """A schema for the spaces of one environment of Gymnasium; for vector environments these are
    `envs.single_observation_space` and `envs.single_action_space`.

    Box, Discrete, MultiDiscrete and MultiBinary are one field each of the space's dtype and shape.
    A Dict or Tuple has a field for each part, named by the part's key or number, behind the name of
    the Dict or Tuple: "action/left". Of an observation space that is a Dict the fields have the
    keys alone as names, "camera/left" for a Dict in the Dict; any other observation space is named
    by `observation`, "obs" by default, and the action space by `action`. A scalar reward, a field
    of float32 named by `reward`, is added behind them.
    `reprise.named` gives such names to values. TypeError for other spaces, such as Text and Graph,
    and for dtypes that Schema does not take; ValueError for two fields of one name.
    """
    is_dict = "Dict" in {base.__name__ for base in type(observation_space).__mro__}
    schema = Schema()
    for name, dtype, shape in _leaves("" if is_dict else observation, observation_space):
        schema.observation(name, dtype, shape)
    for name, dtype, shape in _leaves(action, action_space):
        schema.column(name, dtype, shape)
    return schema.reward(reward)


def named(name: str, value: Any, *, prefix: str = "") -> dict[str, Any]:
    """The arrays in a value of a space by the names that Schema.from_spaces gives their fields.

    name: of the field; "" for an observation that is a dict. value: an array, or arrays in dicts
    and tuples, as environments give them, also with a first dimension of environments. prefix: put
    before each name: "next_" for next observations.

    >>> reprise.named("", {"camera": {"left": 1, "right": 2}}, prefix="next_")
    {'next_camera/left': 1, 'next_camera/right': 2}
    """
    if not isinstance(value, (Mapping, tuple)):
        return {prefix + name: value}
    arrays: dict[str, Any] = {}
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
        arrays |= named(f"{name}/{key}" if name else str(key), part, prefix=prefix)
    return arrays


def final_observations(name: str, infos: Any) -> dict[str, Any] | None:
    """The argument `final` of VectorWriter.append, from the infos of a step of vector environments
    that reset themselves in the same step. None if no episode ended.

    name: as in `named`. infos: the dict of Gymnasium ("final_obs"; "final_observation" before 1.0),
    or the list of dicts of Stable-Baselines3's VecEnv ("terminal_observation").
    """
    if isinstance(infos, Mapping):
        finals = infos.get("final_obs", infos.get("final_observation"))
    else:
        finals = [info.get("terminal_observation") for info in infos]
    if finals is None:
        return None
    if isinstance(finals, (Mapping, tuple)):
        return named(name, finals)
    # A list with an observation for each environment, None where no episode ended.
    ended = [final for final in finals if final is not None]
    if not ended:
        return None
    if not isinstance(ended[0], (Mapping, tuple)):
        return {name: finals}
    rows = [None if final is None else named(name, final) for final in finals]
    return {
        leaf: [None if row is None else row[leaf] for row in rows] for leaf in named(name, ended[0])
    }


_MODES = {word.replace("_", ""): word for word in ("same_step", "next_step", "disabled")}


def _mode_in_metadata(environments: Any) -> Any:
    """The auto-reset mode in the metadata of environments, or None. The metadata of Gymnasium's base
    class VectorEnv do not count, because all classes without metadata of their own share them."""
    metadata = getattr(environments, "metadata", None)
    base = getattr(sys.modules.get("gymnasium.vector"), "VectorEnv", None)
    if not isinstance(metadata, Mapping) or metadata is getattr(base, "metadata", None):
        return None
    return metadata.get("autoreset_mode")


def _mode_name(mode: Any) -> Any:
    """VectorWriter's word for a mode of Gymnasium, which is given as enum or name; other values
    stay as they are."""
    name = getattr(mode, "name", mode)
    return _MODES.get(name.replace("_", "").lower(), name) if isinstance(name, str) else name


def autoreset_mode(environments: Any, autoreset: Any) -> Any:
    """VectorWriter's word for the mode `autoreset`, or if that is None for the mode that the
    environments declare. ValueError if there is neither, or if the two differ."""
    declared = getattr(getattr(environments, "unwrapped", environments), "autoreset_mode", None)
    if declared is None:
        declared = _mode_in_metadata(environments)
    kind = type(environments).__name__
    if autoreset is None and declared is None:
        raise ValueError(
            f"ReplayBuffer.vector_writer: autoreset is missing, and {kind} has no "
            "autoreset_mode, nor metadata['autoreset_mode'] of its own; allowed: 'same_step', "
            "'next_step', 'disabled' or an AutoresetMode of Gymnasium"
        )
    word = _mode_name(declared if autoreset is None else autoreset)
    theirs = _mode_name(declared)
    words = _MODES.values()
    if word != theirs and word in words and theirs in words:
        raise ValueError(
            f"ReplayBuffer.vector_writer: autoreset is {word!r}, and {kind} declares {theirs!r}; "
            "allowed: that, or nothing; for environments that declare a wrong mode their number in "
            "the place of themselves"
        )
    return word


def _accept_environments(kind: Any) -> None:
    """Makes `vector_writer` of a class take environments and their mode in place of a number."""
    original = kind.vector_writer

    @method(
        kind,
        "vector_writer(self, environments: Any, *, autoreset: _Autoreset | Enum | None = None, "
        "timeout: float | None = None) -> VectorWriter",
    )
    def _vector_writer(
        self: Any,
        environments: Any,
        *,
        autoreset: Any = None,
        timeout: float | None = None,
    ) -> VectorWriter:
        """A VectorWriter, which counts as one writer for each environment.

        environments: their number, 1 to max_writers, or vector environments with `num_envs`.
        autoreset: how they reset themselves: 'same_step', 'next_step' or 'disabled', see
        VectorWriter, or Gymnasium's AutoresetMode. By default it is
        `environments.unwrapped.autoreset_mode`, or else `environments.metadata["autoreset_mode"]`;
        ValueError if there is neither, or if environments declare another mode than the one given.
        timeout: as in `writer`, for a whole append.
        """
        number = getattr(environments, "num_envs", environments)
        mode = autoreset_mode(environments, autoreset)
        writer: VectorWriter = original(self, number, autoreset=mode, timeout=timeout)
        return writer


_accept_environments(ReplayBuffer)
_accept_environments(Guest)
_accept_environments(StepPacker)


def _refuse_host_only(self: Guest, name: str) -> Any:
    """Raises an AttributeError that says why a guest lacks a call that the buffer has."""
    if hasattr(ReplayBuffer, name) and not name.startswith("_"):
        raise AttributeError(
            f"Guest.{name}: a guest appends, draws, and sets priorities; call ReplayBuffer.{name} in "
            "the process that has the buffer"
        )
    raise AttributeError(f"'Guest' object has no attribute {name!r}")


# The stub leaves `__getattr__` out, because type checkers know the names of a guest.
setattr(Guest, "__getattr__", _refuse_host_only)
