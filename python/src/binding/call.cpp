#include "type.hpp"

#include <bit>

namespace reprise::python {

Signature::Signature(const char* kind, const char* name)
    : name_(name), call_(name_ == "__init__" ? kind : std::string(kind) + "." + name) {}

void Signature::add(const std::string& name, const std::string& hint,
                    const std::string& default_text, bool by_keyword, Take take) {
  // All parameters after one that is given by keyword are given by keyword too.
  by_keyword = by_keyword || parameters_.size() > positional_;
  PyObject* const word = PyUnicode_InternFromString(name.c_str());
  if (word == nullptr) {
    throw nb::python_error();
  }
  const std::size_t at = parameters_.size();
  if (at == kMost) {
    throw std::logic_error(call_ + " has too many parameters");
  }
  const bool takes_none = default_text == "None";
  takes_[at] = take;
  required_ |= default_text.empty() ? 1U << at : 0U;
  takes_none_ |= takes_none ? 1U << at : 0U;
  parameters_.push_back({name, hint + (takes_none ? " | None" : ""), default_text, word});
  positional_ += by_keyword ? 0U : 1U;
}

void Signature::add_fields(const char* name) {
  fields_ = name;
  if (parameters_.size() > std::tuple_size_v<decltype(Fields::parameters_)>) {
    throw std::logic_error(call_ + " has too many parameters beside its fields");
  }
}

template <class Text>
std::string Signature::list(const char* first, const Text& text) const {
  std::string all = first;
  const auto add = [&](const std::string& one) { all += (all.empty() ? "" : ", ") + one; };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (i == positional_) {
      add("*");
    }
    add(text(parameters_[i]));
  }
  return all;
}

std::string Signature::typed(const char* first, const std::string& result) const {
  const std::string all = list(first, [](const Parameter& one) {
    return one.name + ": " + one.hint + (one.default_text.empty() ? "" : " = " + one.default_text);
  });
  const char* const comma = all.empty() || fields_.empty() ? "" : ", ";
  return name_ + "(" + all + comma + (fields_.empty() ? "" : "**" + fields_ + ": ArrayLike") +
         ") -> " + result;
}

std::string Signature::without_types(const char* first) const {
  const std::string all = list(first, [](const Parameter& one) {
    return one.name + (one.default_text.empty() ? "" : "=" + one.default_text);
  });
  const char* const comma = all.empty() || fields_.empty() ? "" : ", ";
  const std::string& called = name_ == "__init__" ? call_ : name_;
  return called + "(" + all + comma + (fields_.empty() ? "" : "**" + fields_) + ")\n--\n\n";
}

/// The index of the parameter with this name, or kMost. Names written in a call are interned, so
/// their addresses are compared first.
std::size_t Signature::find(PyObject* name) const noexcept {
  auto found = std::ranges::find(parameters_, name, &Parameter::word);
  if (found == parameters_.end()) {
    found = std::ranges::find_if(parameters_, [name](const Parameter& one) {
      return PyUnicode_Compare(one.word, name) == 0;
    });
  }
  return found == parameters_.end() ? kMost : static_cast<std::size_t>(found - parameters_.begin());
}

/// Caches which parameters the keywords name, if all of them are allowed.
void Signature::look_up(PyObject* names, bool takes_fields) {
  std::vector<std::uint16_t> places;
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); ++i) {
    PyObject* const name = PyTuple_GetItem(names, i);
    const std::size_t at = find(name);
    if (at == kMost && !takes_fields) {
      std::string allowed;
      for (const Parameter& one : parameters_) {
        allowed += (allowed.empty() ? "" : ", ") + one.name;
      }
      refuse(": unexpected keyword " + repr_of(name) +
             "; allowed: " + (allowed.empty() ? "none" : allowed));
    }
    places.push_back(static_cast<std::uint16_t>(at));
  }
  places_ = std::move(places);
  Py_XDECREF(std::exchange(names_, nb::borrow(names).release().ptr()));
}

void Signature::read(void* slots, PyObject* const* values, Py_ssize_t positional, PyObject* names,
                     Fields* fields) {
  const auto first = static_cast<std::size_t>(positional);
  if (first > positional_) {
    refuse(" takes " + std::to_string(positional_) + " positional arguments; given " +
           std::to_string(first) +
           (parameters_.size() > positional_ || fields != nullptr ? ": name the others" : ""));
  }
  std::array<PyObject*, kMost> given;  // Pointer i is set only if bit i of `set` is.
  std::copy_n(values, first, given.begin());
  std::uint32_t set = (1U << first) - 1U;
  if (fields != nullptr) {
    fields->call_ = call();
  }
  if (names != nullptr) {
    values += positional;
    if (names != names_) {
      look_up(names, fields != nullptr);
    }
    if (fields != nullptr) {
      fields->names_ = names;
      fields->values_ = values;
      fields->size_ = places_.size();
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::size_t at = places_[i];
      if (at == kMost) {
        continue;
      }
      if ((set >> at & 1U) != 0) {
        refuse(": " + parameters_[at].name + " is given twice");
      }
      set |= 1U << at;
      given[at] = values[i];
      if (fields != nullptr) {
        fields->parameters_[fields->count_++] = static_cast<std::uint16_t>(i);
      }
    }
  }
  if (const std::uint32_t missing = required_ & ~set; missing != 0 && fields == nullptr) {
    refuse(": " + parameters_[static_cast<std::size_t>(std::countr_zero(missing))].name +
           " is missing");
  }
  for (; set != 0; set &= set - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(set));
    if (given[at] != Py_None || (takes_none_ >> at & 1U) == 0) {
      takes_[at](slots, given[at], {call_, parameters_[at].name});
    }
  }
}

detail::Row::Row(PyObject* positional, PyObject* keywords) : count(PyTuple_Size(positional)) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    values.push_back(PyTuple_GetItem(positional, i));
  }
  if (keywords == nullptr) {
    return;
  }
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, &value) != 0;) {
    values.push_back(value);
  }
  names = checked(PySequence_Tuple(keywords));
}

}  // namespace reprise::python
