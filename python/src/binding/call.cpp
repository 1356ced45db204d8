#include "type.hpp"

#include <bit>

namespace reprise::python {

Signature::Signature(const char* kind, const char* name)
    : name_(name), call_(name_ == "__init__" ? kind : std::string(kind) + "." + name) {}

void Signature::add(const std::string& name, const std::string& hint,
                    const std::string& default_text, bool by_keyword, Converter converter) {
  // All parameters after one that is given by keyword are given by keyword too.
  by_keyword = by_keyword || parameters_.size() > positional_;
  PyObject* const interned_name = PyUnicode_InternFromString(name.c_str());
  if (interned_name == nullptr) {
    throw nb::python_error();
  }
  const std::size_t at = parameters_.size();
  if (at == kMaxParameters) {
    throw std::logic_error(call_ + " has too many parameters");
  }
  const bool accepts_none = default_text == "None";
  converters_[at] = converter;
  required_ |= default_text.empty() ? 1U << at : 0U;
  accepts_none_ |= accepts_none ? 1U << at : 0U;
  parameters_.push_back(
      {name, hint + (accepts_none ? " | None" : ""), default_text, interned_name});
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

std::string Signature::with_types(const char* first, const std::string& result) const {
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

/// The index of the parameter with this name, or kMaxParameters. Names written in a call are
/// interned, so their addresses are compared first.
std::size_t Signature::find(PyObject* name) const noexcept {
  auto found = std::ranges::find(parameters_, name, &Parameter::interned_name);
  if (found == parameters_.end()) {
    found = std::ranges::find_if(parameters_, [name](const Parameter& one) {
      return PyUnicode_Compare(one.interned_name, name) == 0;
    });
  }
  return found == parameters_.end() ? kMaxParameters
                                    : static_cast<std::size_t>(found - parameters_.begin());
}

/// Caches which parameters the keywords name, if all of them are allowed.
void Signature::map_keywords(PyObject* names, bool accepts_fields) {
  std::vector<std::uint16_t> indices;
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); ++i) {
    PyObject* const name = PyTuple_GetItem(names, i);
    const std::size_t at = find(name);
    if (at == kMaxParameters && !accepts_fields) {
      std::string allowed;
      for (const Parameter& one : parameters_) {
        allowed += (allowed.empty() ? "" : ", ") + one.name;
      }
      refuse(": unexpected keyword " + repr_of(name) +
             "; allowed: " + (allowed.empty() ? "none" : allowed));
    }
    indices.push_back(static_cast<std::uint16_t>(at));
  }
  parameter_indices_ = std::move(indices);
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
  std::array<PyObject*, kMaxParameters> given;  // Pointer i is set only if bit i of `set` is.
  std::copy_n(values, first, given.begin());
  std::uint32_t set = (1U << first) - 1U;
  if (fields != nullptr) {
    fields->call_ = call();
  }
  if (names != nullptr) {
    values += positional;
    if (names != names_) {
      map_keywords(names, fields != nullptr);
    }
    if (fields != nullptr) {
      fields->names_ = names;
      fields->values_ = values;
      fields->size_ = parameter_indices_.size();
    }
    for (std::size_t i = 0; i < parameter_indices_.size(); ++i) {
      const std::size_t at = parameter_indices_[i];
      if (at == kMaxParameters) {
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
    if (given[at] != Py_None || (accepts_none_ >> at & 1U) == 0) {
      converters_[at](slots, given[at], {call_, parameters_[at].name});
    }
  }
}

detail::CallArguments::CallArguments(PyObject* positional, PyObject* keywords)
    : count(PyTuple_Size(positional)) {
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
