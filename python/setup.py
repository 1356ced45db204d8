"""Builds the extension module by the CMake files of the tree that this folder is part of."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

TREE = Path(__file__).resolve().parent.parent
OFF = ("TESTS", "STRESS", "BENCH", "EXAMPLES", "MODELS", "FUZZERS")


def version():
    text = (TREE / "CMakeLists.txt").read_text()
    return re.search(r"project\(\s*reprise\s+VERSION ([0-9.]+)", text).group(1)


class CMakeBuild(build_ext):
    """CMAKE_ARGS in the environment adds options, CMAKE_BUILD_PARALLEL_LEVEL says how many jobs."""

    def build_extension(self, ext):
        built = Path(self.build_temp).resolve() / "cmake"
        built.mkdir(parents=True, exist_ok=True)
        to = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        options = [
            "-DCMAKE_BUILD_TYPE=Release",
            "-DREPRISE_BUILD_PYTHON=ON",
            "-DREPRISE_INSTALL=OFF",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DREPRISE_PYTHON_MODULE_DIR={to}",
            *(f"-DREPRISE_BUILD_{part}=OFF" for part in OFF),
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        ]
        subprocess.run(["cmake", "-S", TREE, "-B", built, *options], check=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        subprocess.run(
            ["cmake", "--build", built, "--target", "reprise_python", "--parallel", jobs],
            check=True,
        )


class NoSdist(sdist):
    """An archive of this folder would lack the C++ library, which is built with the package."""

    def run(self):
        raise SystemExit(
            "reprise: no sdist; install from the whole source tree: pip install ./python"
        )


setup(
    version=version(),
    long_description=(TREE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    packages=find_packages(include=["reprise", "reprise.*"]),
    package_data={"reprise": ["py.typed", "*.pyi", "**/*.pyi"]},
    ext_modules=[Extension("reprise._reprise", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "sdist": NoSdist},
    zip_safe=False,
)
