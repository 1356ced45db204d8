#pragma once

#include <reprise/stats.hpp>

#include <pybind11/pybind11.h>

namespace reprise::python {

/// The statistics by their C++ names; durations in seconds.
[[nodiscard]] pybind11::dict stats_dict(const Stats& stats);

}  // namespace reprise::python
