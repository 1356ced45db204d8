#pragma once

#include "shared_buffer.hpp"

#include <pybind11/pybind11.h>

#include <memory>

namespace reprise::python {

/// ReplayBuffer's updates of priorities, and its index of episodes.
void bind_updates(pybind11::class_<SharedBuffer, std::shared_ptr<SharedBuffer>>& type);

}  // namespace reprise::python
