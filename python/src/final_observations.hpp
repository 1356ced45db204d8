#pragma once

#include <reprise/writer.hpp>

#include "values.hpp"

#include <span>

/// `final` of a vector writer's append: a mapping of observations to [E, ...] arrays.
namespace reprise::python {

/// TypeError for what is no mapping, ValueError for a name in it that is no observation.
void check_final(PyObject* given, const FieldTable& table, const char* call);

/// Takes every observation of it as a next one, and keeps its arrays alive; of one that is given
/// row by row, those of environments that end. ValueError for one that is missing, else as
/// `Value::take`; what the mapping's own code raises passes.
void take_final(PyObject* given, const FieldTable& table, const char* call,
                std::span<const End> ends, StepValues& final);

}  // namespace reprise::python
