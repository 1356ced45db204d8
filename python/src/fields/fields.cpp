#include "fields.hpp"

namespace reprise::python {
namespace {

constexpr std::string_view kNext = "next_";
/// Keywords that the append calls use, so no field may have these names.
constexpr std::array<std::string_view, 4> kReserved{"end", "priorities", "final", "env_ids"};

PyObject* interned(const std::string& text) {
  PyObject* const name = PyUnicode_InternFromString(text.c_str());
  if (name == nullptr) {
    throw nb::python_error();
  }
  return name;
}

FieldInfo info_of(const Schema& schema, const FieldSpec& spec) {
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a schema finds its own fields.
  const AnyField field = schema.find(spec.name).value();
  const char kind = kind_of(spec.dtype);
  return {spec,
          field,
          kind,
          interned(spec.name),
          interned(std::string(kNext) + spec.name),
          schema.requires_finite() && spec.traits().checked_finite && kind == 'f'};
}

}  // namespace

std::string field_text(std::string_view call, std::string_view name) {
  return std::string(call) + ": field '" + std::string(name) + "'";
}

void check_name(const char* call, const Schema& schema, std::string_view name, Role role) {
  const auto refuse = [&](const std::string& why) { fail(field_text(call, name), ": ", why); };
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
    refuse("the name is a keyword of the append calls; reserved: end, priorities, final, env_ids");
  }
  if (const auto nul = name.find('\0'); nul != std::string_view::npos) {
    // An exception's text ends at a NUL.
    fail(field_text(call, std::string(name.substr(0, nul)) + "..."),
         ": the name has a NUL; allowed: any other character");
  }
  if (name.starts_with(kNext)) {
    const auto field = schema.find(name.substr(kNext.size()));
    if (field && traits(field->role()).has_next) {
      refuse("the name is that of the next observation of field '" +
             std::string(name.substr(kNext.size())) + "'");
    }
  }
  if (traits(role).has_next && schema.find(std::string(kNext) + std::string(name))) {
    refuse("its next observation would be named as field '" + std::string(kNext) +
           std::string(name) + "' is");
  }
}

FieldTable::FieldTable(const Schema& schema) {
  Schema earlier_fields;
  for (const FieldSpec& spec : schema.fields()) {
    check_name("Schema", earlier_fields, spec.name, spec.role);
    earlier_fields.declare(spec.name, spec.role, spec.dtype, spec.shape);
    fields_.push_back(info_of(schema, spec));
  }
  for (const FieldInfo& info : fields_) {
    entries_.push_back({info.name, {&info, /*next=*/false}});
    copied_bytes_ += info.spec.bytes;
    if (info.traits().has_next) {
      entries_.push_back({info.next_name, {&info, /*next=*/true}});
      copied_bytes_ += info.spec.bytes;
      observation_mask_ |= info.bit();
    } else if (info.traits().per_item) {
      state_mask_ |= info.bit();
    } else if (info.traits().stamped) {
      version_mask_ |= info.bit();
    } else {
      column_mask_ |= info.bit();
    }
  }
}

NamedField FieldTable::find(PyObject* name) const noexcept {
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

}  // namespace reprise::python
