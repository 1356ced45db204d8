#pragma once

#include <pybind11/pybind11.h>

namespace reprise::python {

/// Calls of what the module's classes bind by `def` and `def_static` then say in a short TypeError
/// which argument is missing, unknown or given twice; pybind11's would list signatures of C++. To
/// be called once everything is bound.
void name_wrong_arguments(const pybind11::module_& module);

}  // namespace reprise::python
