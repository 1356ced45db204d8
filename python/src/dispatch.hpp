#pragma once

#include <pybind11/pybind11.h>

namespace reprise::python {

/// Makes the functions that the module's classes bind by `def` and `def_static` raise a short
/// TypeError which says which argument is missing, unknown or given twice; the one of pybind11
/// lists C++ signatures. Call it once everything is bound.
void name_wrong_arguments(const pybind11::module_& module);

}  // namespace reprise::python
