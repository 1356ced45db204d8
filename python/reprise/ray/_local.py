"""The buffer of a shard as a function of the user sees it, held by the rate limiter over all."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import reprise

from ._options import Spec
from ._waiting import Wait

PAUSE_SECONDS = 0.005  # Between two questions for room.


class LocalWriter:
    """A writer that asks for room before it appends."""

    def __init__(self, writer: Any, local: Local, steps: int, timeout: float | None) -> None:
        self._writer, self._local, self._steps, self._timeout = writer, local, steps, timeout
        self._room = 0
        self._name = uuid.uuid4().hex  # Those who wait for room get it by turns.

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writer, name)

    def __del__(self) -> None:
        """Of a function that raised: others may have its room."""
        if self.__dict__.get("_room"):
            self._local.give(self._room)

    def __enter__(self) -> LocalWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._writer.close()
        self._local.give(self._room)
        self._room = 0

    def append(self, **fields: Any) -> None:
        self._reserve(self._steps)
        self._writer.append(**fields)
        self._room -= self._steps

    def append_transition(self, **fields: Any) -> None:
        self._reserve(1)
        self._writer.append_transition(**fields)
        self._room -= 1

    def append_episode(self, **fields: Any) -> None:
        steps = next((len(fields[name]) for name in self._local.per_step if name in fields), 1)
        self._reserve(steps)
        self._writer.append_episode(**fields)
        self._room -= steps

    def _reserve(self, steps: int) -> None:
        """Room is kept if the append then fails: the same call comes again."""
        wait = Wait("append", self._timeout, lambda: "the rate limiter has no room for more steps")
        while self._room < steps:
            if self._local.replay.closed:
                raise reprise.Closed("append: the buffer is closed")
            if self._local.room(self._name, self._local.block):
                self._room += self._local.block
            else:
                wait.pause(PAUSE_SECONDS)


class Local:
    """An in-process buffer whose writers wait for the rate limiter over the sums of all shards. Its
    other calls are those of the buffer. There is no capsule: C++ would pass by the rate limiter."""

    def __init__(
        self,
        replay: reprise.ReplayBuffer,
        room: Callable[[str, int], bool],
        give: Callable[[int], Any],
        spec: Spec,
    ) -> None:
        self.replay, self.room, self.give, self.block = replay, room, give, spec.run_steps
        roles = (reprise.Role.OBSERVATION, reprise.Role.RECURRENT_STATE)
        self.per_step = [one.name for one in spec.schema.fields if one.role not in roles]

    def __getattr__(self, name: str) -> Any:
        if name == "capsule":
            raise RuntimeError(
                "capsule: writers in C++ would pass by the rate limiter over all shards; allowed "
                "with MinSize and Unlimited"
            )
        return getattr(self.replay, name)

    def __len__(self) -> int:
        return len(self.replay)

    def writer(self, *, timeout: float | None = None) -> LocalWriter:
        return LocalWriter(self.replay.writer(timeout=timeout), self, 1, timeout)

    def vector_writer(
        self, environments: Any, *, timeout: float | None = None, **options: Any
    ) -> Any:
        made = self.replay.vector_writer(environments, timeout=timeout, **options)
        return LocalWriter(made, self, len(made), timeout)
