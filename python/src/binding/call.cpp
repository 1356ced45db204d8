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
  required_mask_ |= default_text.empty() ? 1U << at : 0U;
  none_mask_ |= accepts_none ? 1U << at : 0U;
  parameters_.push_back(
      {name, hint + (accepts_none ? " | None" : ""), default_text, interned_name});
  positional_ += by_keyword ? 0U : 1U;
}

void Signature::add_fields(const char* name) {
  fields_ = name;
  if (parameters_.size() > Fields::kMaxParameters) {
    throw std::logic_error(call_ + " has too many parameters beside its fields");
  }
}

template <class Text>
std::string Signature::list(const char* first, const Text& text) const {
  std::string all = first;
  const auto add = [&](const std::string& part) { all += (all.empty() ? "" : ", ") + part; };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (i == positional_) {
      add("*");
    }
    add(text(parameters_[i]));
  }
  return all;
}

std::string Signature::with_types(const char* first, const std::string& result) const {
  const std::string all = list(first, [](const Parameter& parameter) {
    const auto& [name, hint, default_text, interned_name] = parameter;
    return name + ": " + hint + (default_text.empty() ? "" : " = " + default_text);
  });
  const char* const comma = all.empty() || fields_.empty() ? "" : ", ";
  return name_ + "(" + all + comma + (fields_.empty() ? "" : "**" + fields_ + ": ArrayLike") +
         ") -> " + result;
}

std::string Signature::without_types(const char* first) const {
  const std::string all = list(first, [](const Parameter& parameter) {
    return parameter.name + (parameter.default_text.empty() ? "" : "=" + parameter.default_text);
  });
  const char* const comma = all.empty() || fields_.empty() ? "" : ", ";
  const std::string& called = name_ == "__init__" ? call_ : name_;
  return called + "(" + all + comma + (fields_.empty() ? "" : "**" + fields_) + ")\n--\n\n";
}

/// The index of the parameter with this name, or kMaxParameters. Names written in a call are
/// interned, so their addresses are compared first.
std::size_t Signature::find(PyObject* name) const noexcept {
  auto match = std::ranges::find(parameters_, name, &Parameter::interned_name);
  if (match == parameters_.end()) {
    match = std::ranges::find_if(parameters_, [name](const Parameter& parameter) {
      return PyUnicode_Compare(parameter.interned_name, name) == 0;
    });
  }
  return match == parameters_.end() ? kMaxParameters
                                    : static_cast<std::size_t>(match - parameters_.begin());
}

/// Sets `last_names_` and `parameter_indices_`. TypeError for a keyword that names no parameter in
/// a call without fields.
void Signature::map_keywords(PyObject* names, bool accepts_fields) {
  std::vector<std::uint16_t> indices;
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); ++i) {
    PyObject* const name = PyTuple_GetItem(names, i);
    const std::size_t at = find(name);
    if (at == kMaxParameters && !accepts_fields) {
      std::string allowed;
      for (const Parameter& parameter : parameters_) {
        allowed += (allowed.empty() ? "" : ", ") + parameter.name;
      }
      refuse(": unexpected keyword " + repr_of(name) +
             "; allowed: " + (allowed.empty() ? "none" : allowed));
    }
    indices.push_back(static_cast<std::uint16_t>(at));
  }
  parameter_indices_ = std::move(indices);
  Py_XDECREF(std::exchange(last_names_, nb::borrow(names).release().ptr()));
}

void Signature::read(void* slots, PyObject* const* values, Py_ssize_t positional, PyObject* names,
                     Fields* fields) {
  const auto by_position = static_cast<std::size_t>(positional);
  if (by_position > positional_) {
    refuse(" takes " + std::to_string(positional_) + " positional arguments; given " +
           std::to_string(by_position) +
           (parameters_.size() > positional_ || fields != nullptr ? ": name the others" : ""));
  }
  std::array<PyObject*, kMaxParameters> given;  // Uninitialised where `given_mask` has no bit.
  std::copy_n(values, by_position, given.begin());
  std::uint32_t given_mask = (1U << by_position) - 1U;
  if (fields != nullptr) {
    fields->call_ = call();
  }
  if (names != nullptr) {
    values += positional;  // The values of the keywords.
    if (names != last_names_) {
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
      if ((given_mask >> at & 1U) != 0) {
        refuse(": " + parameters_[at].name + " is given twice");
      }
      given_mask |= 1U << at;
      given[at] = values[i];
      if (fields != nullptr) {
        fields->not_fields_[fields->count_++] = static_cast<std::uint16_t>(i);
      }
    }
  }
  const std::uint32_t missing_mask = required_mask_ & ~given_mask;
  if (missing_mask != 0 && fields == nullptr) {
    refuse(": " + parameters_[static_cast<std::size_t>(std::countr_zero(missing_mask))].name +
           " is missing");
  }
  for (; given_mask != 0; given_mask &= given_mask - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(given_mask));
    if (given[at] != Py_None || (none_mask_ >> at & 1U) == 0) {
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
