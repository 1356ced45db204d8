"""reprise for Conan 2, from the source tree that this file is in:

conan create cmake/packaging/conan --build=missing
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir


class Reprise(ConanFile):
    name = "reprise"
    description = "In-process experience replay buffer for reinforcement learning"
    license = "Apache-2.0"
    topics = ("reinforcement-learning", "replay-buffer", "machine-learning")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False, "boost/*:header_only": True}
    package_type = "library"

    def _source_tree(self):
        return os.path.normpath(os.path.join(self.recipe_folder, "..", "..", ".."))

    def set_version(self):
        text = load(self, os.path.join(self._source_tree(), "CMakeLists.txt"))
        self.version = re.search(r"project\(\s*reprise\s+VERSION ([0-9.]+)", text)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, self._source_tree(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("onetbb/[>=2021.4 <2023]")
        self.requires("highway/[>=1.0 <2]")
        self.requires("lz4/[>=1.9 <2]")
        self.requires("zstd/[>=1.5 <2]")
        # Only headers of it are used, and programs that use reprise do not need them.
        self.requires("boost/[>=1.74 <2]", headers=True, libs=False, visible=False)
        self.requires("xxhash/[>=0.8 <1]", visible=False)

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("BUILD_TESTS", "BUILD_STRESS", "BUILD_BENCH", "BUILD_EXAMPLES", "METRICS"):
            toolchain.variables[f"REPRISE_{part}"] = False
        toolchain.generate()
        dependencies = CMakeDeps(self)
        dependencies.set_property("highway", "cmake_file_name", "hwy")
        dependencies.set_property("highway", "cmake_target_name", "hwy::hwy")
        dependencies.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        core = self.cpp_info.components["reprise"]
        core.libs = ["reprise"]
        core.system_libs = ["pthread"]
        # The libraries that Conan provides, which leaves out those that the system has.
        direct = self.dependencies.direct_host.values()
        core.requires = [f"{one.ref.name}::{one.ref.name}" for one in direct]
        for part in ("device", "process", "remote"):
            component = self.cpp_info.components[part]
            component.libs = [f"reprise_{part}"]
            component.requires = ["reprise"]
            component.system_libs = ["dl"] if part == "device" else []
