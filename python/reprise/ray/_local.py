"""The buffer that `run` gives to the user's function, whose writers wait for the rate limiter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import reprise

from ._options import Spec
from ._waiting import Wait

PAUSE_SECONDS = 0.005  # Between two requests for credit.


def _rows(given: Any) -> int:
    """The number of rows of an array or a list; 1 for a value without rows, which the append
    refuses."""
    return len(given) if hasattr(given, "__len__") else 1


class LocalWriter:
    """A writer that takes credit from the rate limiter for each step before it appends the step."""

    def __init__(self, writer: Any, local: Local, timeout: float | None) -> None:
        self._writer, self._local, self._timeout = writer, local, timeout
        vector = isinstance(writer, reprise.VectorWriter)
        self._environments = list(writer) if vector else None
        self._credit = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writer, name)

    def __del__(self) -> None:
        """Gives back the credit of an append that raised, so that other writers can use it."""
        if self.__dict__.get("_credit"):
            self._local.return_credit(self._credit)

    def __enter__(self) -> LocalWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def append(self, **fields: Any) -> None:
        steps = 1
        if self._environments is not None:
            ids = fields.get("env_ids")
            chosen = set(range(len(self._environments)) if ids is None else np.ravel(ids).tolist())
            # A row of an environment without an open episode is a reset, and no step.
            steps = sum(e in chosen and w.in_episode for e, w in enumerate(self._environments))
        self._append("append", steps, fields)

    def append_transition(self, **fields: Any) -> None:
        self._append("append_transition", 1, fields)

    def append_transitions(self, **fields: Any) -> None:
        rows, places_before = _rows(fields.get("end")), self._places()
        self._append("append_transitions", rows, fields)
        if self._environments is not None:
            # A row that is a reset recorded no step: its credit is left for the next append.
            self._credit += rows - sum(a != b for a, b in zip(places_before, self._places()))

    def append_episode(self, **fields: Any) -> None:
        steps = next((_rows(fields[name]) for name in self._local.per_step if name in fields), 1)
        self._append("append_episode", steps, fields)

    def _places(self) -> list[tuple[int, int]]:
        """The episode of each environment and its steps, which change with each step recorded."""
        return [(writer.episode_id, writer.episode_steps) for writer in self._environments or ()]

    def _append(self, call: str, steps: int, fields: dict[str, Any]) -> None:
        """Takes credit for `steps` steps, and appends. If the append fails, the writer keeps the
        credit for the next attempt."""
        wait = Wait(call, self._timeout, lambda: "the rate limiter has no room for more steps")
        while self._credit < steps:
            if self._local.replay.closed:
                raise reprise.Closed(f"{call}: the buffer is closed")
            taken = self._local.take(steps - self._credit)
            self._credit += taken
            if not taken:
                wait.pause(PAUSE_SECONDS)
        getattr(self._writer, call)(**fields)
        self._credit -= steps


class Local:
    """An in-process buffer whose writers wait for the rate limiter over all shards. It passes other
    calls on to the buffer, and refuses those by which writers would bypass the rate limiter."""

    def __init__(
        self,
        replay: reprise.ReplayBuffer,
        take_credit: Callable[[int], bool],
        return_credit: Callable[[int], Any],
        spec: Spec,
    ) -> None:
        self.replay, self.block = replay, spec.shipment_steps
        self.take_credit, self.return_credit = take_credit, return_credit
        self._lock = threading.Lock()  # Guards _credit, and is held while more credit is asked for.
        self._credit = 0  # Credit that no writer has taken yet, at most a block.
        # The fields of which an episode always has one row for each step.
        roles = (reprise.Role.OBSERVATION, reprise.Role.RECURRENT_STATE, reprise.Role.VERSION)
        self.per_step = [field.name for field in spec.schema.fields if field.role not in roles]

    def __getattr__(self, name: str) -> Any:
        if name in ("capsule", "share"):
            raise RuntimeError(
                f"{name}: writers in C++ or in other processes would pass by the rate limiter over "
                "all shards; allowed with MinSize and Unlimited"
            )
        return getattr(self.replay, name)

    def __len__(self) -> int:
        return len(self.replay)

    def take(self, most: int) -> int:
        """Takes credit for up to `most` steps, and returns for how many; 0 if there is none now."""
        with self._lock:
            if not self._credit and self.take_credit(self.block):
                self._credit = self.block
            taken = min(most, self._credit)
            self._credit -= taken
            return taken

    def give_back(self) -> None:
        """Gives back the credit that no writer has taken."""
        with self._lock:
            self._credit, unused = 0, self._credit
        self.return_credit(unused)

    def writer(self, *, timeout: float | None = None) -> LocalWriter:
        return LocalWriter(self.replay.writer(timeout=timeout), self, timeout)

    def vector_writer(
        self, environments: Any, *, timeout: float | None = None, **options: Any
    ) -> LocalWriter:
        writers = self.replay.vector_writer(environments, timeout=timeout, **options)
        return LocalWriter(writers, self, timeout)
