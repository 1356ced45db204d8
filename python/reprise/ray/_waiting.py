"""Waits that end at a timeout, by Ctrl-C, or when the buffer is closed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

SLICE_SECONDS = 0.05  # Python runs signal handlers between two slices of a wait.
WARN_AFTER_SECONDS = 5.0


def is_number(given: Any) -> bool:
    """Whether a value is a number of Python or numpy, and not a bool."""
    return isinstance(given, Real) and not isinstance(given, bool)


class Wait:
    """The wait of one call: how long it may last, and the reason that its messages give."""

    def __init__(self, call: str, timeout: float | None, missing: Callable[[], str]) -> None:
        if timeout is not None and not (is_number(timeout) and timeout >= 0):
            raise ValueError(f"{call}: timeout is {timeout!r}; allowed: None, at least 0 seconds")
        self._call, self._wait_reason = call, missing
        self._began = time.monotonic()
        self._end = None if timeout is None else self._began + timeout
        self._warned = timeout is not None

    def left(self, max_seconds: float = SLICE_SECONDS) -> float:
        """Seconds until the wait has to end, at most `max_seconds`."""
        if self._end is None:
            return max_seconds
        return max(0.0, min(max_seconds, self._end - time.monotonic()))

    def check(self) -> None:
        """Raises TimeoutError when the time is over; without a timeout warns once after a while.
        Both give the reason."""
        now = time.monotonic()
        if self._end is not None and now >= self._end:
            raise TimeoutError(f"{self._call}: timed out: {self._wait_reason()}")
        if not self._warned and now - self._began > WARN_AFTER_SECONDS:
            self._warned = True
            warnings.warn(
                f"{self._call} has waited for {WARN_AFTER_SECONDS:g} seconds: {self._wait_reason()}",
                RuntimeWarning,
                stacklevel=4,  # About where the user's code made the call.
            )

    def pause(self, seconds: float) -> None:
        self.check()
        time.sleep(self.left(seconds))
