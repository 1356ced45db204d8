#include "arguments.hpp"

#include <reprise/wait_hook.hpp>

#include "numpy.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace reprise::python {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \n");
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(" \n") + 1 - first);
}

/// The place of a character outside brackets and quotes, from `at` on; npos if there is none.
std::size_t find_outside(std::string_view text, char wanted, std::size_t at) {
  int depth = 0;
  for (char quote = 0; at < text.size(); ++at) {
    const char one = text[at];
    if (quote != 0) {
      quote = one == quote ? '\0' : quote;
    } else if (depth == 0 && one == wanted) {
      return at;
    } else if (one == '\'') {
      quote = one;
    } else {
      depth += one == '(' || one == '[' || one == '{' ? 1 : 0;
      depth -= one == ')' || one == ']' || one == '}' ? 1 : 0;
    }
  }
  return std::string_view::npos;
}

/// Python's current error: a TypeError is said in our words, any other is what the user's code
/// raised.
[[noreturn]] void refuse_kind(nb::handle given, What what, std::string_view allowed) {
  nb::python_error error;
  if (!error.matches(PyExc_TypeError)) {
    throw std::move(error);
  }
  throw WrongKind(refusal(given, what, allowed));
}

}  // namespace

Signature::Signature(std::string_view kind, const char* text) {
  const std::string_view all(text);
  const std::size_t open = all.find('(');
  name = all.substr(0, open);
  call = name == "__init__" ? std::string(kind) : std::string(kind) + "." + name;
  const std::string_view list = all.substr(open + 1, find_outside(all, ')', open + 1) - open - 1);
  bool by_keyword = false;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(find_outside(list, ',', at), list.size());
    const std::string_view one = trimmed(list.substr(at, end - at));
    at = end + 1;
    if (one == "self") {
      takes_self = true;
    } else if (one == "*") {
      by_keyword = true;
    } else if (one.starts_with("**")) {
      fields = trimmed(one.substr(2, one.find(':') - 2));
    } else {
      const std::size_t equals = find_outside(one, '=', 0);
      const std::string_view typed = one.substr(0, equals);
      Parameter made{std::string(trimmed(typed.substr(0, typed.find(':')))),
                     equals == std::string_view::npos
                         ? std::string()
                         : std::string(trimmed(one.substr(equals + 1))),
                     nullptr, by_keyword};
      made.word = PyUnicode_InternFromString(made.name.c_str());
      if (made.word == nullptr) {
        throw nb::python_error();
      }
      positional += by_keyword ? 0 : 1;
      required += made.usual.empty() ? 1U : 0U;
      parameters.push_back(std::move(made));
    }
  }
}

std::string Signature::without_types(bool is_class) const {
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  if (takes_self && !is_class) {
    add("$self");
    add("/");
  }
  bool by_keyword = false;
  for (const Parameter& one : parameters) {
    if (one.by_keyword && !std::exchange(by_keyword, true)) {
      add("*");
    }
    add(one.name + (one.usual.empty() ? "" : "=" + one.usual));
  }
  if (!fields.empty()) {
    add("**" + fields);
  }
  return (is_class ? call : name) + "(" + text + ")\n--\n\n";
}

Arguments::Arguments(const Signature& signature, PyObject* const* values, Py_ssize_t positional,
                     PyObject* names)
    : signature_(signature),
      values_(values + positional),
      names_(names),
      keywords_(names == nullptr ? 0 : PyTuple_Size(names)) {
  const auto given = static_cast<std::size_t>(positional);
  const std::size_t most = signature.positional;
  const auto& parameters = signature.parameters;
  if (given > most) {
    throw WrongKind(
        std::string(call()) + " takes " + std::to_string(most) + " positional arguments; given " +
        std::to_string(given) +
        (parameters.size() > most || !signature.fields.empty() ? ": name the others" : ""));
  }
  std::copy_n(values, given, given_.begin());
  if (!signature.fields.empty()) {
    return;  // `take` is called for those keywords that are no fields.
  }
  for (Py_ssize_t i = 0; i < keywords_; ++i) {
    if (!take(i)) {
      std::string allowed;
      for (const Signature::Parameter& one : parameters) {
        allowed += (allowed.empty() ? "" : ", ") + one.name;
      }
      refuse(": unexpected keyword " + repr_of(keyword(i)) +
             "; allowed: " + (allowed.empty() ? "none" : allowed));
    }
  }
  for (std::size_t at = 0; at < signature.required; ++at) {
    if (given_[at] == nullptr) {
      refuse(": " + parameters[at].name + " is missing");
    }
  }
}

bool Arguments::take(Py_ssize_t i, bool as_text) {
  PyObject* const name = keyword(i);
  const auto& parameters = signature_.parameters;
  const auto same = [name](const Signature::Parameter& one) { return one.word == name; };
  auto found = std::find_if(parameters.begin(), parameters.end(), same);
  if (found == parameters.end() && as_text) {
    found = std::find_if(parameters.begin(), parameters.end(), [name](const auto& one) {
      return PyUnicode_Compare(one.word, name) == 0;
    });
  }
  if (found == parameters.end()) {
    return false;
  }
  PyObject*& given = given_[static_cast<std::size_t>(found - parameters.begin())];
  if (given != nullptr) {
    refuse(": " + found->name + " is given twice");
  }
  given = value(i);
  return true;
}

void Arguments::refuse(const std::string& why) const {
  throw WrongKind(call() + why);
}

std::int64_t Arguments::timeout_ns(std::size_t at) const {
  if (!has(at)) {
    return kNoTimeout.count();
  }
  nb::handle given(given_[at]);
  check_kind(!is_bool(given), given, what(at), "None or a number of seconds");
  const double value = PyFloat_AsDouble(given.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw WrongKind(refusal(given, what(at), "None or a number of seconds"));
  }
  if (!(value >= 0.0)) {
    throw std::invalid_argument(what(at).text() + " is " + repr_of(given) +
                                " s; allowed: None or at least 0");
  }
  // The largest number of seconds whose nanoseconds a 64-bit integer holds, nearly.
  constexpr double kLongest = 9.0e9;
  return value >= kLongest ? kNoTimeout.count() : static_cast<std::int64_t>(value * 1e9);
}

std::string refusal(nb::handle given, What what, std::string_view allowed) {
  return what.text() + " is " + repr_of(given) + "; allowed: " + std::string(allowed);
}

void check_kind(bool is_kind, nb::handle given, What what, std::string_view allowed) {
  if (!is_kind) {
    throw WrongKind(refusal(given, what, allowed));
  }
}

std::uint64_t integer_from(nb::handle given, What what, std::int64_t least, std::uint64_t most) {
  const char* const any = least == 0 ? "an integer of at least 0" : "an integer";
  check_kind(!is_bool(given), given, what, any);
  const nb::object index =
      PyLong_CheckExact(given.ptr()) ? nb::borrow(given) : nb::steal(PyNumber_Index(given.ptr()));
  if (!index) {
    refuse_kind(given, what, any);
  }
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow == 0 && value >= 0 && static_cast<std::uint64_t>(value) <= most) {
    return static_cast<std::uint64_t>(value);
  }
  if (overflow < 0 || (overflow == 0 && value < 0)) {
    if (overflow == 0 && value >= least) {
      return static_cast<std::uint64_t>(value);
    }
    if (least == 0) {
      throw std::invalid_argument(refusal(index, what, any));
    }
  } else {
    const std::uint64_t positive = PyLong_AsUnsignedLongLong(index.ptr());
    if (PyErr_Occurred() == nullptr && positive <= most) {
      return positive;
    }
    PyErr_Clear();
  }
  const int bits = static_cast<int>(std::bit_width(most)) + (least == 0 ? 0 : 1);
  throw std::invalid_argument(
      refusal(index, what, "an integer of " + std::to_string(bits) + " bits"));
}

double real_from(nb::handle given, What what) {
  check_kind(!is_bool(given), given, what, "a number");
  const double value = PyFloat_AsDouble(given.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) != 0) {
      PyErr_Clear();
      throw std::invalid_argument(refusal(given, what, "a number in the range of a double"));
    }
    refuse_kind(given, what, "a number");
  }
  return value;
}

bool flag_from(nb::handle given, What what) {
  if (given.ptr() == Py_True || given.ptr() == Py_False) {
    return given.ptr() == Py_True;
  }
  check_kind(PyType_GetSlot(Py_TYPE(given.ptr()), Py_nb_bool) != nullptr, given, what,
             "True or False");
  const int truth = PyObject_IsTrue(given.ptr());
  if (truth < 0) {
    throw nb::python_error();
  }
  return truth != 0;
}

std::string text_from(nb::handle given, What what) {
  Py_ssize_t size = 0;
  const char* const text =
      PyUnicode_Check(given.ptr()) ? PyUnicode_AsUTF8AndSize(given.ptr(), &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
  }
  check_kind(text != nullptr, given, what, "a str that UTF-8 can encode");
  return {text, static_cast<std::size_t>(size)};
}

std::filesystem::path path_from(nb::handle given, What what) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(given.ptr(), &bytes) == 0) {
    refuse_kind(given, what, "a path");
  }
  const nb::object held = nb::steal(bytes);
  return {std::string(PyBytes_AsString(bytes), static_cast<std::size_t>(PyBytes_Size(bytes)))};
}

std::size_t word_from(nb::handle given, What what, const std::string_view* words, std::size_t count,
                      std::string_view besides) {
  std::string allowed;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string word(words[i]);
    if (word == "constant") {
      continue;  // Given as a number.
    }
    if (PyUnicode_Check(given.ptr()) &&
        PyUnicode_CompareWithASCIIString(given.ptr(), word.c_str()) == 0) {
      return i;
    }
    allowed += (i == 0 ? "'" : ", '") + word + "'";
  }
  throw std::invalid_argument(refusal(given, what, allowed + std::string(besides)));
}

}  // namespace reprise::python
