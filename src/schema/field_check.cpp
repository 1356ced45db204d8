#include "schema/field_check.hpp"

#include <span>
#include <stdexcept>

namespace reprise::schema {
namespace {

const char* dtype_name(std::uint32_t signature) {
  static constexpr const char* kNames[] = {"u8",  "i8",  "u16",  "i16", "u32", "i32",
                                           "u64", "i64", "bool", "f32", "f64"};
  return kNames[signature & 0xffU];
}

}  // namespace

std::string describe(std::uint32_t signature) {
  return std::string((signature >> 16U) != 0 ? "shaped " : "scalar ") + dtype_name(signature) +
         " " + roles()[(signature >> 8U) & 0xffU].name;
}

void refuse_field(const Schema& schema, std::size_t index, std::uint32_t wanted) {
  const std::span<const FieldSpec> fields = schema.fields();
  if (index >= fields.size()) {
    throw std::invalid_argument("field " + std::to_string(index) + " (" + describe(wanted) +
                                ") is not of this schema, which has " +
                                std::to_string(fields.size()) + " fields");
  }
  const FieldSpec& spec = fields[index];
  throw std::invalid_argument(
      "field '" + spec.name + "' is a " +
      describe(detail::signature(spec.dtype, spec.role, !spec.shape.empty())) +
      "; the handle is of another schema, for a " + describe(wanted));
}

}  // namespace reprise::schema
