#pragma once

#include <reprise/options.hpp>

#include <pybind11/pybind11.h>

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

/// An enumerator by its name in a list of them; ValueError naming the option and what is allowed,
/// with what is allowed `besides`.
template <class Enum, std::size_t N>
[[nodiscard]] Enum enum_from(py::handle given, const char* option, const char* const (&names)[N],
                             const char* besides = "") {
  std::string allowed;
  for (std::size_t i = 0; i < N; ++i) {
    if (PyUnicode_Check(given.ptr()) &&
        PyUnicode_CompareWithASCIIString(given.ptr(), names[i]) == 0) {
      return static_cast<Enum>(i);
    }
    allowed += std::string(i == 0 ? "'" : ", '") + names[i] + "'";
  }
  throw py::value_error(std::string(option) + " is " + py::repr(given).cast<std::string>() +
                        "; allowed: " + allowed + besides);
}

}  // namespace reprise::python
