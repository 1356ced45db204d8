#pragma once

#include <pybind11/pybind11.h>

/// reprise.SegmentTree.
namespace reprise::python {

namespace py = pybind11;

void bind_segment_tree(py::module_& module);

}  // namespace reprise::python
