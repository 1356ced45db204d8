#include "convert.hpp"

#include "numpy.hpp"

#include <bit>
#include <charconv>
#include <iterator>
#include <system_error>

namespace reprise::python {
namespace {

/// Throws a refusal in place of Python's current error if that is a TypeError. Any other error was
/// raised by the user's code, and is thrown as it is.
[[noreturn]] void refuse_kind(nb::handle given, ArgumentName argument, std::string_view allowed) {
  nb::python_error error;
  if (!error.matches(PyExc_TypeError)) {
    throw std::move(error);
  }
  throw WrongKind(refusal(given, argument, allowed));
}

}  // namespace

nb::object decimal(float value) {
  char text[32];  // The longest float takes 15 characters.
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  double shortest = double{value};
  if (error == std::errc()) {
    std::from_chars(std::begin(text), end, shortest);
  }
  return nb::float_(shortest);
}

std::string in_quotes(std::string_view word) {
  std::string text = "'";
  return text.append(word).append("'");
}

std::chrono::nanoseconds Conversion<std::chrono::nanoseconds>::from(nb::handle given,
                                                                    ArgumentName argument) {
  check_kind(!is_bool(given), given, argument, "None or a number of seconds");
  const double value = PyFloat_AsDouble(given.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw WrongKind(refusal(given, argument, "None or a number of seconds"));
  }
  if (!(value >= 0.0)) {
    fail(argument, " is ", repr_of(given), " s; allowed: None or at least 0");
  }
  // About the largest number of seconds whose nanoseconds fit in 64 bits.
  constexpr double kMaxSeconds = 9.0e9;
  return value >= kMaxSeconds ? kNoTimeout
                              : std::chrono::nanoseconds(static_cast<std::int64_t>(value * 1e9));
}

std::string refusal(nb::handle given, ArgumentName argument, std::string_view allowed) {
  return argument.text() + " is " + repr_of(given) + "; allowed: " + std::string(allowed);
}

void check_kind(bool is_kind, nb::handle given, ArgumentName argument, std::string_view allowed) {
  if (!is_kind) {
    throw WrongKind(refusal(given, argument, allowed));
  }
}

std::uint64_t integer_from(nb::handle given, ArgumentName argument, std::int64_t least,
                           std::uint64_t most) {
  const char* const allowed = least == 0 ? "an integer of at least 0" : "an integer";
  check_kind(!is_bool(given), given, argument, allowed);
  const nb::object index =
      PyLong_CheckExact(given.ptr()) ? nb::borrow(given) : nb::steal(PyNumber_Index(given.ptr()));
  if (!index) {
    refuse_kind(given, argument, allowed);
  }
  int overflow = 0;  // -1 or 1 if the number is below or above those of 64 bits with a sign.
  const std::int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow == 0 && value >= 0 && static_cast<std::uint64_t>(value) <= most) {
    return static_cast<std::uint64_t>(value);
  }
  if (overflow < 0 || (overflow == 0 && value < 0)) {
    if (overflow == 0 && value >= least) {
      return static_cast<std::uint64_t>(value);
    }
    if (least == 0) {
      throw std::invalid_argument(refusal(index, argument, allowed));
    }
  } else {  // The number is above `most`, or takes 64 bits without a sign.
    const std::uint64_t positive = PyLong_AsUnsignedLongLong(index.ptr());
    if (PyErr_Occurred() == nullptr && positive <= most) {
      return positive;
    }
    PyErr_Clear();
  }
  const int bits = static_cast<int>(std::bit_width(most)) + (least == 0 ? 0 : 1);
  throw std::invalid_argument(
      refusal(index, argument, "an integer of " + std::to_string(bits) + " bits"));
}

double real_from(nb::handle given, ArgumentName argument) {
  check_kind(!is_bool(given), given, argument, "a number");
  const double value = PyFloat_AsDouble(given.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) != 0) {
      PyErr_Clear();
      throw std::invalid_argument(refusal(given, argument, "a number in the range of a double"));
    }
    refuse_kind(given, argument, "a number");
  }
  return value;
}

bool Conversion<bool>::from(nb::handle given, ArgumentName argument) {
  if (given.ptr() == Py_True || given.ptr() == Py_False) {
    return given.ptr() == Py_True;
  }
  check_kind(PyType_GetSlot(Py_TYPE(given.ptr()), Py_nb_bool) != nullptr, given, argument,
             "True or False");
  const int truth = PyObject_IsTrue(given.ptr());
  if (truth < 0) {
    throw nb::python_error();
  }
  return truth != 0;
}

std::string Conversion<std::string>::from(nb::handle given, ArgumentName argument) {
  Py_ssize_t size = 0;
  const char* const text =
      PyUnicode_Check(given.ptr()) ? PyUnicode_AsUTF8AndSize(given.ptr(), &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
  }
  check_kind(text != nullptr, given, argument, "a str that UTF-8 can encode");
  return {text, static_cast<std::size_t>(size)};
}

std::filesystem::path Conversion<std::filesystem::path>::from(nb::handle given,
                                                              ArgumentName argument) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(given.ptr(), &bytes) == 0) {
    refuse_kind(given, argument, "a path");
  }
  const nb::object held = nb::steal(bytes);
  return {std::string(PyBytes_AsString(bytes), static_cast<std::size_t>(PyBytes_Size(bytes)))};
}

Allocator Conversion<Allocator>::from(nb::handle given, ArgumentName argument) {
  check_kind(PyCallable_Check(given.ptr()) != 0, given, argument,
             "None or a function of a number of bytes");
  return {{given.ptr()}, argument};
}

std::size_t word_from(nb::handle given, ArgumentName argument, const std::string_view* words,
                      std::size_t count, std::string_view besides) {
  std::string allowed;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string word(words[i]);
    if (word == "constant") {
      continue;  // In Python the number itself stands for this word.
    }
    if (PyUnicode_Check(given.ptr()) &&
        PyUnicode_CompareWithASCIIString(given.ptr(), word.c_str()) == 0) {
      return i;
    }
    allowed += (i == 0 ? "'" : ", '") + word + "'";
  }
  throw std::invalid_argument(refusal(given, argument, allowed + std::string(besides)));
}

}  // namespace reprise::python
