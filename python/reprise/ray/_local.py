"""The buffer that `run` gives to the user's function. Its writers wait for the rate limiter."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import reprise

from ._options import Spec
from ._waiting import Wait

PAUSE_SECONDS = 0.005  # Between two requests for credit.


class LocalWriter:
    """A writer that takes credit of the rate limiter before it appends."""

    def __init__(self, writer: Any, local: Local, steps: int, timeout: float | None) -> None:
        self._writer, self._local, self._steps, self._timeout = writer, local, steps, timeout
        self._credit = 0
        self._name = uuid.uuid4().hex  # The coordinator lets writers take turns by this name.

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writer, name)

    def __del__(self) -> None:
        """Gives back the credit of a function that raised, so that other writers can use it."""
        if self.__dict__.get("_credit"):
            self._local.return_credit(self._credit)

    def __enter__(self) -> LocalWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._writer.close()
        self._local.return_credit(self._credit)
        self._credit = 0

    def append(self, **fields: Any) -> None:
        self._append("append", self._steps, fields)

    def append_transition(self, **fields: Any) -> None:
        self._append("append_transition", 1, fields)

    def append_episode(self, **fields: Any) -> None:
        steps = next((len(fields[name]) for name in self._local.per_step if name in fields), 1)
        self._append("append_episode", steps, fields)

    def _append(self, call: str, steps: int, fields: dict[str, Any]) -> None:
        """Takes credit for `steps` steps, and appends. If the append fails, the writer keeps the
        credit for the next attempt."""
        wait = Wait("append", self._timeout, lambda: "the rate limiter has no room for more steps")
        while self._credit < steps:
            if self._local.replay.closed:
                raise reprise.Closed("append: the buffer is closed")
            if self._local.take_credit(self._name, self._local.block):
                self._credit += self._local.block
            else:
                wait.pause(PAUSE_SECONDS)
        getattr(self._writer, call)(**fields)
        self._credit -= steps


class Local:
    """An in-process buffer whose writers wait for the rate limiter over all shards. All other calls
    go to the buffer. It has no capsule, because C++ code would bypass the rate limiter."""

    def __init__(
        self,
        replay: reprise.ReplayBuffer,
        take_credit: Callable[[str, int], bool],
        return_credit: Callable[[int], Any],
        spec: Spec,
    ) -> None:
        self.replay, self.block = replay, spec.run_steps
        self.take_credit, self.return_credit = take_credit, return_credit
        roles = (reprise.Role.OBSERVATION, reprise.Role.RECURRENT_STATE, reprise.Role.VERSION)
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
