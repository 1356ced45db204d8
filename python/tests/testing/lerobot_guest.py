"""Imports lerobot for tests."""

import importlib
import sys

import pytest


def lerobot_or_skip():
    """Imports what reprise.lerobot needs. Skips the module of tests where it is not there."""
    for name in ("torch", "lerobot"):
        pytest.importorskip(name)
    _torchvision_without_cuda()
    try:
        importlib.import_module("lerobot.rl.buffer")
    except ImportError as why:
        pytest.skip(str(why), allow_module_level=True)


def _torchvision_without_cuda():
    """PyPI's build of torchvision needs the libraries of CUDA for its operators. With a torch for
    the CPU its import fails, because two operators are missing, which lerobot's buffers do not
    use."""
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
