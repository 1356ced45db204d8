#pragma once

#include <reprise/options.hpp>

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

/// The buffer's options between C++ and the classes of its strategies.
namespace reprise::python {

namespace py = pybind11;

/// Makes a class of each strategy of the library, in reprise._options.
void define_strategies();

[[nodiscard]] Window window_from(py::handle window);
/// One selector or a sequence of them.
[[nodiscard]] std::vector<Selector> selectors_from(py::handle selectors);
[[nodiscard]] Remover remover_from(py::handle remover);
[[nodiscard]] RateLimiter rate_limiter_from(py::handle limiter);

/// None: memory. A path: a mapped file.
[[nodiscard]] Storage storage_from(py::handle storage);

/// Options by the names of ReplayBuffer's keywords.
[[nodiscard]] py::dict options_dict(const Options& options);

/// Place of a word among those that are allowed; ValueError naming the option and what is allowed.
/// With `or_number` the words are those beside a number, which stands for the word "constant".
[[nodiscard]] std::size_t place_of(py::handle given, std::string_view option,
                                   std::span<const std::string_view> words, bool or_number = false);

/// An enumerator by its name, in the order of their numbers.
template <class Enum>
[[nodiscard]] Enum enum_from(py::handle given, std::string_view option,
                             std::span<const std::string_view> words) {
  return static_cast<Enum>(place_of(given, option, words));
}

}  // namespace reprise::python
