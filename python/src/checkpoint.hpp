#pragma once

#include "shared_buffer.hpp"

#include <pybind11/pybind11.h>

#include <memory>

namespace reprise::python {

/// ReplayBuffer's save, load and restore.
void bind_checkpoints(pybind11::class_<SharedBuffer, std::shared_ptr<SharedBuffer>>& type);

}  // namespace reprise::python
