"""Windows, selectors, removers and rate limiters: a class for each that the library has, as its C++
part tells. They are values: what they say is checked by the ReplayBuffer that is made of them, with
a ValueError naming the option and what is allowed."""

from dataclasses import make_dataclass

from . import _reprise

# By name; the C++ part reads it.
classes: dict[str, type] = _reprise._classes
# By the option of ReplayBuffer that takes them; Fifo is in two lists.
families: dict[str, list[type]] = {}

for _option, _name, _about, _usual in _reprise._strategies:
    if _name not in classes:
        _fields = [(name, type(value), value) for name, value in _usual.items()]
        classes[_name] = make_dataclass(_name, _fields, frozen=True, namespace={"__doc__": _about})
    families.setdefault(_option, []).append(classes[_name])
