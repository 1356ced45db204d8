"""Windows, selectors, removers and rate limiters: a class for each strategy of the library. They
are values: what they say is checked by the ReplayBuffer that is made of them, with a ValueError
naming the option and what is allowed."""

from dataclasses import field as _field
from dataclasses import make_dataclass as _make_dataclass

from ._reprise import _classes, _strategies

for _name, _about, _usual in _strategies:
    if _name not in _classes:  # Fifo is a selector and a remover.
        _kind = _make_dataclass(
            _name,
            [
                (
                    name,
                    "str | float" if name == "initial" else type(usual).__name__,
                    _field(default=usual),
                )
                for name, usual in _usual.items()
            ],
            frozen=True,
            namespace={"__doc__": _about, "__module__": "reprise"},
        )
        _classes[_name] = globals()[_name] = _kind
