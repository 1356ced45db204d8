#include "fields.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace reprise::python {
namespace {

constexpr std::array<const char*, 11> kNames{"uint8",  "int8",    "uint16", "int16",
                                             "uint32", "int32",   "uint64", "int64",
                                             "bool",   "float32", "float64"};
constexpr std::string_view kNext = "next_";
/// Keywords of the append calls.
constexpr std::array<std::string_view, 3> kReserved{"end", "priorities", "final"};

py::str interned(const std::string& text) {
  PyObject* name = PyUnicode_FromStringAndSize(text.data(), static_cast<py::ssize_t>(text.size()));
  if (name == nullptr) {
    throw py::error_already_set();
  }
  PyUnicode_InternInPlace(&name);
  return py::reinterpret_steal<py::str>(name);
}

FieldInfo info_of(const Schema& schema, const FieldSpec& spec) {
  py::dtype dtype = numpy_dtype(spec.dtype);
  const char kind = dtype.kind();
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a schema finds its own fields.
  const AnyField field = schema.find(spec.name).value();
  return {spec,
          field,
          std::move(dtype),
          kind,
          element_bytes(spec.dtype),
          interned(spec.name),
          interned(std::string(kNext) + spec.name),
          schema.requires_finite() && spec.traits().spreads && kind == 'f'};
}

}  // namespace

py::dtype numpy_dtype(DType dtype) {
  return py::dtype(kNames[static_cast<std::size_t>(dtype)]);
}

DType dtype_from(py::handle dtype, std::string_view field) {
  const auto refuse = [field](const std::string& given) {
    throw py::type_error("field '" + std::string(field) + "': dtype is " + given +
                         "; allowed: bool, int8 to int64, uint8 to uint64, float32, float64");
  };
  std::string name;
  try {
    name = py::module_::import("numpy").attr("dtype")(dtype).attr("name").cast<std::string>();
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError) &&
        !error.matches(PyExc_SyntaxError)) {
      throw;
    }
    refuse(py::repr(dtype).cast<std::string>());
  }
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    refuse(name);
  }
  return static_cast<DType>(found - kNames.begin());
}

void check_name(const Schema& schema, std::string_view name, Role role) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("field '" + std::string(name) + "': " + why);
  };
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
    refuse("the name is a keyword of the append calls; reserved: end, priorities, final");
  }
  if (name.starts_with(kNext)) {
    const auto plain = schema.find(name.substr(kNext.size()));
    if (plain && traits(plain->role()).has_next) {
      refuse("the name is that of the next observation of field '" +
             std::string(name.substr(kNext.size())) + "'");
    }
  }
  if (traits(role).has_next && schema.find(std::string(kNext) + std::string(name))) {
    refuse("its next observation would be named as field '" + std::string(kNext) +
           std::string(name) + "' is");
  }
}

FieldTable::FieldTable(const Schema& schema) : schema_(schema) {
  Schema before;
  fields_.reserve(schema.fields().size());
  for (const FieldSpec& spec : schema_.fields()) {
    check_name(before, spec.name, spec.role);
    before.declare(spec.name, spec.role, spec.dtype, spec.shape);
    fields_.push_back(info_of(schema_, spec));
  }
  for (const FieldInfo& info : fields_) {
    entries_.push_back({info.name.ptr(), {&info, false}});
    copied_bytes_ += info.spec.bytes;
    if (info.traits().has_next) {
      entries_.push_back({info.next_name.ptr(), {&info, true}});
      copied_bytes_ += info.spec.bytes;
      observations_ |= info.bit();
    } else {
      (info.traits().per_item ? recurrent_states_ : columns_) |= info.bit();
    }
  }
}

Named FieldTable::find(PyObject* name) const noexcept {
  for (const Entry& entry : entries_) {
    if (entry.name == name) {
      return entry.named;
    }
  }
  if (PyUnicode_Check(name)) {
    for (const Entry& entry : entries_) {
      if (PyUnicode_Compare(entry.name, name) == 0) {
        return entry.named;
      }
    }
  }
  return {};
}

std::string FieldTable::names(std::uint64_t mask, std::string_view prefix) const {
  std::string text;
  for (const FieldInfo& info : fields_) {
    if ((mask & info.bit()) != 0) {
      text += (text.empty() ? "" : ", ") + std::string(prefix) + info.spec.name;
    }
  }
  return text;
}

std::string describe(py::handle dtype, py::handle shape) {
  const auto name = py::str(dtype).cast<std::string>();
  if (py::len(shape) == 0) {
    return name + " scalar";
  }
  return name + " of shape " + py::str(shape).cast<std::string>();
}

}  // namespace reprise::python
