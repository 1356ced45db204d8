"""Batches as tensors, on any device."""

import torch

from reprise._memory import COLUMNS


def check_equal(tensors, batch):
    """Checks that the tensors equal those of Batch.torch, bit by bit."""
    expected = batch.torch()

    def check_same(found, wanted, name):
        assert found.dtype == wanted.dtype and torch.equal(found.cpu(), wanted), name

    for found, wanted in ((tensors, expected), (tensors.returns, expected.returns)):
        assert set(found) == set(wanted)
        for name, tensor in wanted.items():
            check_same(found[name], tensor, name)
    for name in COLUMNS:
        check_same(getattr(tensors, name), getattr(expected, name), name)
