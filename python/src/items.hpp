#pragma once

#include <pybind11/pybind11.h>

#include <utility>
#include <vector>

namespace reprise::python {

/// A copy of the items of a dict, with references, because the code that reads them may change the
/// dict.
[[nodiscard]] inline std::vector<std::pair<pybind11::object, pybind11::object>> items_of(
    const pybind11::dict& dict) {
  std::vector<std::pair<pybind11::object, pybind11::object>> items;
  items.reserve(dict.size());
  for (const auto& [key, value] : dict) {
    items.emplace_back(pybind11::reinterpret_borrow<pybind11::object>(key),
                       pybind11::reinterpret_borrow<pybind11::object>(value));
  }
  return items;
}

}  // namespace reprise::python
