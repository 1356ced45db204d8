"""Batches as pytrees of JAX: importing this module registers them.

    import reprise.jax

    @jax.jit
    def loss(parameters, batch): ...     # batch["obs"], batch.weights, batch.returns["reward"]

    loss(parameters, sampler.sample(256))

In a transformed function, and after jax.tree.map, a batch is a reprise.Tensors: the arrays by the
names of the batch, and its `returns`, `discounts`, `weights` and `lengths`. Keys, episode ids,
positions and probabilities have 64 bits, of which JAX keeps 32 unless told otherwise: they are not
part of the tree; read them from the batch itself. Batches of reprise.ray are registered too.
"""

from __future__ import annotations

import sys
from typing import Any

import jax

from ._memory import Tensors, is_refilled
from ._reprise import Batch

__all__: list[str] = []

_COLUMNS = ("discounts", "weights", "lengths")
_Names = tuple[tuple[str, ...], tuple[str, ...]]


def _flatten(batch: Any) -> tuple[list[Any], _Names]:
    fields, returns = dict(batch), dict(batch.returns)
    columns = [getattr(batch, name) for name in _COLUMNS]
    arrays = [*fields.values(), *returns.values(), *columns]
    if is_refilled(batch):
        arrays = [array.copy() for array in arrays]
    return arrays, (tuple(fields), tuple(returns))


def _unflatten(names: _Names, arrays: Any) -> Tensors:
    fields, returns = names
    remaining = iter(arrays)
    tensors = Tensors((name, next(remaining)) for name in fields)
    tensors.returns = {name: next(remaining) for name in returns}
    for name in _COLUMNS:
        setattr(tensors, name, next(remaining))
    return tensors


def register(kind: Any) -> None:
    """Registers a class of batches as pytrees."""
    jax.tree_util.register_pytree_node(kind, _flatten, _unflatten)


for _kind in (Batch, Tensors):
    register(_kind)
if "reprise.ray" in sys.modules:  # If reprise.ray is imported later, it calls `register` itself.
    register(sys.modules["reprise.ray"].Batch)
