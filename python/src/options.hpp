#pragma once

#include <reprise/options.hpp>

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

/// Converts the buffer's options between C++ and the Python classes of its strategies.
namespace reprise::python {

namespace py = pybind11;

/// Makes a Python class for each strategy of the library, in reprise._options.
void define_strategies();

[[nodiscard]] Window window_from(py::handle window);
/// One selector or a sequence of them.
[[nodiscard]] std::vector<Selector> selectors_from(py::handle selectors);
[[nodiscard]] Remover remover_from(py::handle remover);
[[nodiscard]] RateLimiter rate_limiter_from(py::handle limiter);

/// None gives memory, a path a mapped file.
[[nodiscard]] Storage storage_from(py::handle storage);

/// The options as a dict, by the names of ReplayBuffer's keywords.
[[nodiscard]] py::dict options_dict(const Options& options);

/// The index of a word among the allowed ones; otherwise ValueError that names the option and what
/// is allowed. `or_number`: a number is allowed too and stands for the word "constant", which is
/// not allowed then.
[[nodiscard]] std::size_t place_of(py::handle given, std::string_view option,
                                   std::span<const std::string_view> words, bool or_number = false);

/// An enumerator by its name. `words`: the names by the numbers of the enumerators.
template <class Enum>
[[nodiscard]] Enum enum_from(py::handle given, std::string_view option,
                             std::span<const std::string_view> words) {
  return static_cast<Enum>(place_of(given, option, words));
}

}  // namespace reprise::python
