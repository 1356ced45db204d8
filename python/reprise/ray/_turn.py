"""A place among those who wait for the rate limiter."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import ray

from ._coordinator import Entered
from ._waiting import Wait


class Turn:
    """One who waits at a gate of the coordinator, under a name of its own. One thread at a time."""

    def __init__(self, coordinator: Any, gate: str) -> None:
        self._coordinator, self._gate, self._name = coordinator, gate, uuid.uuid4().hex
        self._call: Any = None
        self._sizes: Sequence[int] = ()
        self._waits = False  # Whether the coordinator lets others wait behind it.
        self.closed = False
        self.why = ""  # Nobody was let in.

    @property
    def asked(self) -> bool:
        return self._call is not None

    def ask(self, sizes: Sequence[int]) -> None:
        """Asks for these steps or items. `answer` has to follow."""
        self._sizes = sizes
        self._call = self._coordinator.enter.remote(self._gate, self._name, sizes)

    def answer(self, seconds: float) -> int | None:
        """How many of the sizes were let in; None if that does not come within so many seconds."""
        if not ray.wait([self._call], timeout=seconds)[0]:
            return None
        call, self._call = self._call, None
        try:
            entered: Entered = ray.get(call)
        except ray.exceptions.RayActorError:
            self.why = "the coordinator of the buffer, which is being restarted"
            return 0
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        self.closed, self.why = entered.closed, entered.why
        self._waits = entered.done == 0
        return entered.done

    def enter(self, sizes: Sequence[int], wait: Wait) -> int:
        """Asks, and waits for the answer."""
        self.ask(sizes)
        try:
            while (done := self.answer(wait.left())) is None:
                wait.check()
        except BaseException:
            self.leave()
            raise
        return done

    def leave(self) -> None:
        """Lets others pass, and takes a call back that has no answer yet."""
        if self._call is not None:
            call, self._call = self._call, None
            self._coordinator.undo.remote(call, self._gate, self._name, self._sizes)
        elif self._waits and not self.closed:
            self._coordinator.leave.remote(self._gate, self._name)
        self._waits = False
