"""The option `compress` of buffers for other packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_MIN_BYTES = 512  # Schema.compress refuses smaller observations.


def compress_option(call: str, given: Any) -> bool | list[Any]:
    """Checks the option: True, False or a list of names. TypeError for anything else."""
    if isinstance(given, bool):
        return given
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{call}: compress is {given!r}; allowed: True, False, a list of names")
    return list(given)


def compressed(call: str, option: bool | list[str], sizes: Mapping[str, int]) -> list[str]:
    """The names of the observations to compress: those in `option`, or for True all that are large
    enough. `sizes`: the bytes of each observation. ValueError for a name that is unknown or of a
    small observation, and for True if no observation is large enough."""
    large_enough = [name for name, size in sizes.items() if size >= _MIN_BYTES]
    names = large_enough if option is True else option or []
    refused = [name for name in names if name not in large_enough]
    if refused or (option is True and not large_enough):
        raise ValueError(
            f"{call}: compress is {option}; allowed: observations of at least {_MIN_BYTES} bytes, "
            f"which are: {', '.join(large_enough) or 'none'}"
        )
    return names
