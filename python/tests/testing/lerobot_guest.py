"""Imports lerobot for tests."""

import importlib
import sys

import pytest


def lerobot_or_skip():
    """Imports what reprise.lerobot needs. Skips the calling test module where a package is
    missing."""
    for name in ("torch", "lerobot"):
        pytest.importorskip(name)
    _torchvision_without_cuda()
    try:
        importlib.import_module("lerobot.rl.buffer")
    except ImportError as error:
        pytest.skip(str(error), allow_module_level=True)


def _torchvision_without_cuda():
    """Makes torchvision importable beside a torch for the CPU. PyPI's build of torchvision needs
    CUDA's libraries for two operators, and fails to import without them. lerobot's buffers use
    neither, so empty operators are defined in their place."""
    from torch import library

    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        for name in ("nms", "qnms"):
            library.define(
                f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou) -> Tensor"
            )
        for name in [one for one in sys.modules if one.split(".")[0] == "torchvision"]:
            del sys.modules[name]
