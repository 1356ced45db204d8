"""Compiles torchrl's C++ extension for the installed torch, from the sources in torchrl's wheel."""

import importlib.util
import pathlib
import shutil
import tempfile

import torch  # noqa: F401  The extension needs its libraries.

package = pathlib.Path(importlib.util.find_spec("torchrl").origin).parent
try:
    import torchrl._torchrl  # noqa: F401
except ImportError:
    from torch.utils.cpp_extension import load

    with tempfile.TemporaryDirectory() as folder:
        sources = [str(path) for path in sorted((package / "csrc").glob("*.cpp"))]
        load(
            "_torchrl",
            sources,
            extra_cflags=["-O3"],
            build_directory=folder,
            is_python_module=False,
            is_standalone=False,
        )
        (made,) = pathlib.Path(folder).glob("_torchrl*.so")
        (target,) = package.glob("_torchrl*.so")
        shutil.copy(made, target)
