"""Adds methods written in Python to classes written in C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._reprise import _signatures


def method(kind: type, signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds a function to a class as a method, in place of a method of that name.
    `signature` is for the stub; for a static method it begins with @staticmethod."""
    text = signature.removeprefix("@staticmethod ")
    name = text.split("(")[0]

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__name__ = name
        function.__qualname__ = f"{kind.__name__}.{name}"
        setattr(kind, name, staticmethod(function) if signature != text else function)
        signatures = _signatures[kind.__name__]
        names = [existing.split("(")[0].split(" ")[-1] for existing in signatures]
        if name in names:
            signatures[names.index(name)] = signature
        else:
            signatures.append(signature)
        return function

    return add
