"""Windows, selectors, removers and rate limiters: a class for each that the library has, as its C++
part tells. They are values: what they say is checked by the ReplayBuffer that is made of them, with
a ValueError naming the option and what is allowed."""

from dataclasses import make_dataclass
from typing import Any, Dict, List, Tuple

# By the option of ReplayBuffer that takes them; Fifo is in two lists.
families: Dict[str, List[type]] = {}
# By name.
classes: Dict[str, type] = {}


def define(option: str, name: str, about: str, fields: List[Tuple[str, type, Any]]) -> None:
    if name not in classes:
        classes[name] = make_dataclass(name, fields, frozen=True)
        classes[name].__doc__ = about
    families.setdefault(option, []).append(classes[name])
