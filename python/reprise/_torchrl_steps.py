"""Steps of TensorDicts as reprise's writers take them, for reprise.torchrl."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase

import reprise

from ._memory import bfloat16_of

# Entries that reprise stores as a step's end, its discount and its return.
_ENDS = ("done", "terminated", "truncated")
# A reward of 1 where a step ends its episode as truncated: the return of n steps, and no other number
# of a batch, says so of the last one.
TRUNCATED = "next/truncated"


def key_of(name: str) -> Any:
    """The nested TensorDict key for a field's name."""
    return tuple(name.split("/")) if "/" in name else name


def name_of(key: Any) -> str:
    """The field's name for a TensorDict key."""
    return key if isinstance(key, str) else "/".join(key)


def _leaf(name: str) -> str:
    return name.split("/")[-1]


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    here = tensor.detach().cpu()
    made = bfloat16_of(here)
    found: NDArray[Any] = here.numpy() if made is None else made
    return found


def _row_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)


def priorities_of(given: Any, count: int, what: str) -> NDArray[np.float32]:
    """The priorities of `count` transitions, float32 [count]: the mean of the absolute values of
    each. ValueError, naming `what` they are, for a number of values that is no multiple of it."""
    values: NDArray[np.float32] = torch.as_tensor(given).detach().float().cpu().abs().numpy()
    if (values.size == 0) != (count == 0) or values.size % max(count, 1):
        raise ValueError(
            f"{what} has shape {values.shape}; allowed: a number, or one for each of {count} "
            "transitions"
        )
    made: NDArray[np.float32] = values.reshape(count, values.size // max(count, 1)).mean(axis=1)
    return made


class Steps(NamedTuple):
    """Steps [T] of one environment as a writer takes them."""

    arrays: dict[str, NDArray[Any]]  # By the names of fields.
    ends: NDArray[np.uint8]
    rewards: set[str]  # The names of those that are rewards.
    priorities: NDArray[np.float32] | None

    def _continues(self) -> NDArray[np.bool_]:
        """Whether each step but the first begins with what the one before led to, [T - 1]."""
        found = np.ones(len(self.ends) - 1, np.bool_)
        for name, after in self.arrays.items() if len(found) else ():
            if name.startswith("next_"):
                now = self.arrays[name.removeprefix("next_")]
                found &= (_row_bytes(now[1:]) == _row_bytes(after[:-1])).all(axis=1)
        return found

    def breaks(self) -> int:
        """The number of steps that do not continue the step before, although that does not end."""
        return int((~self._continues() & (self.ends[:-1] == reprise.End.CONTINUE)).sum())

    def pieces(self) -> list[slice]:
        """Places of steps that follow each other in one episode."""
        goes_on = self._continues() & (self.ends[:-1] == reprise.End.CONTINUE)
        bounds = [0, *(np.flatnonzero(~goes_on) + 1).tolist(), len(self.ends)]
        return [slice(first, end) for first, end in zip(bounds, bounds[1:])]


def steps_of(data: TensorDictBase, priority_key: Any) -> Steps:
    """Converts steps [T] of one environment. priority_key: None, or the entry of their priorities."""
    if not isinstance(data.get("next", None), TensorDictBase):
        raise ValueError(
            'a TensorDict without "next"; allowed: one that has there the next observations, '
            "rewards, done, terminated and truncated of its steps"
        )
    after = {name_of(key): value for key, value in data["next"].items(True, True)}
    now = {
        name_of(key): value
        for key, value in data.items(True, True)
        if name_of(key).split("/")[0] not in ("next", "collector", "index")
        and _leaf(name_of(key)) not in _ENDS
    }
    rewards = {name for name in after if _leaf(name).startswith("reward")}
    fields = now | {name: after[name] for name in rewards}
    for name, value in after.items():
        if name in rewards:
            if value.numel() != len(data):
                raise ValueError(
                    f'"next" has {name!r} of shape {tuple(value.shape)}; allowed: a reward of '
                    "one element a step"
                )
            fields[name] = value.reshape(len(data))
        elif name in now:
            fields["next_" + name] = value
        elif _leaf(name) not in _ENDS:
            raise ValueError(
                f'"next" has {name!r}, and the root does not; allowed: observations, which are '
                "at the root too, rewards, and done, terminated and truncated: exclude it"
            )
    arrays = {name: _array(tensor) for name, tensor in fields.items()}

    def flag(name: str) -> NDArray[np.bool_] | None:
        found = [after[name]] if name in after else []
        found = found or [value for key, value in after.items() if _leaf(key) == name]
        # With several agents, an episode has ended once it has ended for all of them.
        rows = [one.detach().cpu().numpy().reshape(len(data), -1).all(axis=1) for one in found]
        return np.logical_and.reduce(rows) if rows else None

    none = np.zeros(len(data), bool)
    done, cut, over = flag("done"), flag("truncated"), flag("terminated")
    done, cut = none if done is None else done, none if cut is None else cut
    # Without the other two entries, "done" means that the episode terminated.
    over = done & ~cut if over is None else over
    cut = (done | cut) & ~over
    arrays[TRUNCATED] = cut.astype(np.float32)
    given = None if priority_key is None else data.get(priority_key, None)
    priorities = None
    if given is not None:
        priorities = priorities_of(given, len(data), f"extend: {priority_key!r}")
        if not np.isfinite(priorities).all():
            raise ValueError(f"extend: {priority_key!r} is not finite; allowed: finite priorities")
    return Steps(arrays, reprise.ends(over, cut), rewards | {TRUNCATED}, priorities)


class _Given(NamedTuple):
    """The priorities of consecutive steps of an episode, from a position on."""

    episode: int
    position: int
    priorities: NDArray[np.float32]


class StepsWriter:
    """A writer of one environment's steps and of their priorities."""

    # The number of its trajectory; None if it has no number, or has ended.
    trajectory: int | None = None

    def __init__(self, replay: reprise.ReplayBuffer) -> None:
        options = replay.options
        window = options["window"]
        self._writer = replay.writer()
        # A checkpoint that was saved by reprise 0.2 has no such field.
        self._has_truncated = any(field.name == TRUNCATED for field in replay.schema.fields)
        self._episodes, self._open_steps = None, 0
        if options["episode_index"] and isinstance(window, reprise.Transitions):
            self._episodes = replay.episodes()
            self._open_steps = (
                window.n_step - 1
            )  # Of an episode under way, whose items are not yet.
        self._open: _Given | None = None  # The priorities of open steps.

    def append(self, steps: Steps) -> None:
        """Appends steps."""
        if not self._has_truncated:
            steps.arrays.pop(TRUNCATED)
        if steps.priorities is None or self._episodes is None:
            self._writer.append_transitions(end=steps.ends, **steps.arrays)
            return
        for piece in steps.pieces():
            rows = {name: array[piece] for name, array in steps.arrays.items()}
            self._writer.append_transitions(end=steps.ends[piece], **rows)
            self._prioritize(self._episodes, steps.priorities[piece])

    def _prioritize(self, episodes: reprise.Episodes, priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of the last steps, which are of one episode."""
        writer, before = self._writer, self._open
        new = _Given(writer.episode_id, writer.episode_steps - len(priorities), priorities)
        if before is not None and before.episode == new.episode:
            new = _Given(*before[:2], np.concatenate([before.priorities, priorities]))
        elif before is not None:
            episodes.update_priorities(*before)  # The end of their episode has decided them.
        episodes.update_priorities(*new)
        count = min(self._open_steps, len(new.priorities)) if writer.in_episode else 0
        first = len(new.priorities) - count
        self._open = _Given(new.episode, new.position + first, new.priorities[first:])

    def close(self) -> None:
        """Ends the episode as truncated."""
        self._writer.close()
