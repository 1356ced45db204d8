#pragma once

#include <reprise/writer.hpp>

#include "values.hpp"

#include <span>

/// The argument `final` of a vector writer's append: a mapping from names of observations to [E,
/// ...] arrays.
namespace reprise::python {

/// TypeError unless it is a mapping, ValueError for a name in it that is no observation.
void check_final(PyObject* given, const FieldTable& table, const char* call);

/// Takes every observation of the mapping as a next observation, and keeps its arrays alive. If
/// rows are given one by one, only those of environments that end are read. ValueError for a
/// missing observation; other errors as `Value::take`. Exceptions of the mapping's own code pass
/// through.
void take_final(PyObject* given, const FieldTable& table, const char* call,
                std::span<const End> ends, StepValues& final);

}  // namespace reprise::python
