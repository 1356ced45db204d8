"""Steps of TensorDicts as reprise's writers take them, for reprise.torchrl."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase

import reprise

from ._memory import bfloat16_of

# Entries that are no fields of reprise: they become the `end` of a step.
_ENDS = ("done", "terminated", "truncated")
# A field with the role of a reward, 1 where a step ends its episode as truncated. Its return over n
# steps tells whether the last of them did, which no other number of a batch tells.
TRUNCATED = "next/truncated"


def key_of(name: str) -> Any:
    """The nested TensorDict key for a field's name."""
    return tuple(name.split("/")) if "/" in name else name


def name_of(key: Any) -> str:
    """The field's name for a TensorDict key."""
    return key if isinstance(key, str) else "/".join(key)


def _leaf(name: str) -> str:
    """The last part of a field's name."""
    return name.split("/")[-1]


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    on_host = tensor.detach().cpu()
    bfloat16_array = bfloat16_of(on_host)
    array: NDArray[Any] = on_host.numpy() if bfloat16_array is None else bfloat16_array
    return array


def _row_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)


def priorities_of(given: Any, count: int, subject: str) -> NDArray[np.float32]:
    """The priorities of `count` transitions, float32 [count]: for each transition the mean of its
    absolute values. ValueError, with `subject` as the name of the values, if they do not divide
    into `count` equal parts."""
    values: NDArray[np.float32] = torch.as_tensor(given).detach().float().cpu().abs().numpy()
    if (values.size == 0) != (count == 0) or values.size % max(count, 1):
        raise ValueError(
            f"{subject} has shape {values.shape}; allowed: a number, or one for each of {count} "
            "transitions"
        )
    means: NDArray[np.float32] = values.reshape(count, values.size // max(count, 1)).mean(axis=1)
    return means


class Steps(NamedTuple):
    """Steps [T] of one environment as a writer takes them."""

    arrays: dict[str, NDArray[Any]]  # By the names of fields.
    ends: NDArray[np.uint8]
    rewards: set[str]  # The names of the fields that are rewards.
    priorities: NDArray[np.float32] | None

    def _continues(self) -> NDArray[np.bool_]:
        """For each step but the first, whether its observations are the next observations of the
        step before, [T - 1]."""
        continues = np.ones(len(self.ends) - 1, np.bool_)
        for name, after in self.arrays.items() if len(continues) else ():
            if name.startswith("next_"):
                now = self.arrays[name.removeprefix("next_")]
                continues &= (_row_bytes(now[1:]) == _row_bytes(after[:-1])).all(axis=1)
        return continues

    def breaks(self) -> int:
        """How many steps do not continue the step before, although that one ends no episode."""
        return int((~self._continues() & (self.ends[:-1] == reprise.End.CONTINUE)).sum())

    def pieces(self) -> list[slice]:
        """The steps of each episode, which follow each other."""
        goes_on = self._continues() & (self.ends[:-1] == reprise.End.CONTINUE)
        bounds = [0, *(np.flatnonzero(~goes_on) + 1).tolist(), len(self.ends)]
        return [slice(first, end) for first, end in zip(bounds, bounds[1:])]


def steps_of(data: TensorDictBase, priority_key: Any) -> Steps:
    """Converts steps [T] of one environment. priority_key: the entry of priorities, or None."""
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
        of_all_agents = [after[name]] if name in after else []
        flags = of_all_agents or [value for key, value in after.items() if _leaf(key) == name]
        # With several agents, an episode has ended once it has ended for all of them.
        rows = [value.detach().cpu().numpy().reshape(len(data), -1).all(axis=1) for value in flags]
        return np.logical_and.reduce(rows) if rows else None

    absent = np.zeros(len(data), bool)
    done, truncated, terminated = flag("done"), flag("truncated"), flag("terminated")
    done, truncated = absent if done is None else done, absent if truncated is None else truncated
    # Without the other two entries, "done" means that the episode terminated.
    terminated = done & ~truncated if terminated is None else terminated
    truncated = (done | truncated) & ~terminated
    arrays[TRUNCATED] = truncated.astype(np.float32)
    entry = None if priority_key is None else data.get(priority_key, None)
    priorities = None
    if entry is not None:
        priorities = priorities_of(entry, len(data), f"extend: {priority_key!r}")
        if not np.isfinite(priorities).all():
            raise ValueError(f"extend: {priority_key!r} is not finite; allowed: finite priorities")
    return Steps(arrays, reprise.ends(terminated, truncated), rewards | {TRUNCATED}, priorities)


class _StepPriorities(NamedTuple):
    """The priorities of consecutive steps of an episode, from a position on."""

    episode: int
    position: int
    priorities: NDArray[np.float32]


class StepsWriter:
    """A writer of one environment's steps and of their priorities."""

    # The number of the trajectory that it writes; None if that has no number, or has ended.
    trajectory: int | None = None

    def __init__(self, replay: reprise.ReplayBuffer) -> None:
        options = replay.options
        window = options["window"]
        self._writer = replay.writer()
        # A checkpoint that was saved by reprise 0.2 has no such field.
        self._has_truncated = any(field.name == TRUNCATED for field in replay.schema.fields)
        self._episodes, self._max_open_steps = None, 0
        if options["episode_index"] and isinstance(window, reprise.Transitions):
            self._episodes = replay.episodes()
            # The windows of this many last steps of an episode under way are not complete yet.
            self._max_open_steps = window.n_step - 1
        # The priorities of these steps, which can be set only once they are items.
        self._open: _StepPriorities | None = None

    def append(self, steps: Steps) -> None:
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
        """Sets the priorities of the steps appended last, which are of one episode, and of the open
        steps before them."""
        writer, open_before = self._writer, self._open
        position = writer.episode_steps - len(priorities)
        new = _StepPriorities(writer.episode_id, position, priorities)
        if open_before is not None and open_before.episode == new.episode:
            joined = np.concatenate([open_before.priorities, priorities])
            new = _StepPriorities(open_before.episode, open_before.position, joined)
        elif open_before is not None:  # Their episode has ended, which completed their windows.
            episodes.update_priorities(*open_before)
        episodes.update_priorities(*new)
        count = min(self._max_open_steps, len(new.priorities)) if writer.in_episode else 0
        first = len(new.priorities) - count
        self._open = _StepPriorities(new.episode, new.position + first, new.priorities[first:])

    def close(self) -> None:
        """Ends the episode as truncated."""
        self._writer.close()
