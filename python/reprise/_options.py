"""A class for each window, selector, remover and rate limiter that C++ describes. Their objects are
plain values, which ReplayBuffer checks: a ValueError names the option and what is allowed."""

from dataclasses import make_dataclass
from typing import Any, Literal

from . import _reprise

# All classes by name; C++ looks them up here.
classes: dict[str, type] = _reprise._classes
# The classes by the option of ReplayBuffer that takes them; Fifo belongs to two.
families: dict[str, list[type]] = {}


def _type_of(value: Any, words: list[str]) -> Any:
    if not words:
        return type(value)
    literal: Any = Literal[tuple(word for word in words if word != "constant")]
    return literal | float if "constant" in words else literal  # The constant is given itself.


for _option, _name, _about, _values, _words in _reprise._strategies:
    if _name not in classes:
        _fields = [(name, _type_of(value, _words[name]), value) for name, value in _values.items()]
        classes[_name] = make_dataclass(_name, _fields, frozen=True, namespace={"__doc__": _about})
    families.setdefault(_option, []).append(classes[_name])
