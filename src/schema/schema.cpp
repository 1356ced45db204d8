#include <reprise/schema.hpp>

#include "base/text.hpp"
#include "schema/field_check.hpp"

namespace reprise {
namespace {

constexpr std::size_t kMaxFields = 64;                    // Writers keep one bit per field.
constexpr std::size_t kMaxBytes = std::size_t{1} << 48U;  // Of a field; sums of 64 do not overflow.
/// For smaller fields, the offsets of compressed values take more bytes than compression saves.
constexpr std::size_t kMinCompressedBytes = 512;

}  // namespace

Reward Schema::reward(std::string_view name) {
  return Reward(add(name, Role::Reward, DType::F32, sizeof(float), {}));
}

Discount Schema::discount(std::string_view name) {
  return Discount(add(name, Role::Discount, DType::F32, sizeof(float), {}));
}

PolicyVersion Schema::version(std::string_view name) {
  return PolicyVersion(add(name, Role::Version, DType::I64, sizeof(std::int64_t), {}));
}

AnyField Schema::declare(std::string_view name, Role role, DType dtype,
                         std::span<const std::size_t> shape) {
  base::require(static_cast<std::size_t>(role) < roles().size(), base::Call{"Schema"},
                "the role of field '", name, "' is ", static_cast<unsigned>(role),
                "; allowed: an enumerator of Role");
  base::require(!traits(role).is_scalar || (dtype == DType::F32 && shape.empty()),
                base::Call{"Schema"}, "field '", name, "' is a ", traits(role).name,
                " that is no scalar float; allowed: F32 without a shape");
  base::require(!traits(role).stamped || (dtype == DType::I64 && shape.empty()),
                base::Call{"Schema"}, "field '", name,
                "' is a version that is no scalar int64; allowed: I64 without a shape");
  const std::size_t index = add(name, role, dtype, element_bytes(dtype), shape);
  return {index, detail::signature(dtype, role, !shape.empty())};
}

void Schema::compress(AnyField field) {
  const std::size_t index = field.index();
  if (index >= fields_.size() ||
      detail::signature(fields_[index].dtype, fields_[index].role, !fields_[index].shape.empty()) !=
          field.signature()) {
    schema::refuse_field(*this, index, field.signature());
  }
  const FieldSpec& spec = fields_[index];
  base::require(spec.traits().has_next, base::Call{"Schema::compress"}, "field '", spec.name,
                "' is a ", spec.traits().name, "; allowed: observations");
  base::require(spec.bytes >= kMinCompressedBytes, base::Call{"Schema::compress"}, "field '",
                spec.name, "' has ", spec.bytes, " bytes; allowed: at least ", kMinCompressedBytes);
  compressed_ |= std::uint64_t{1} << index;
}

std::optional<AnyField> Schema::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const FieldSpec& spec = fields_[i];
    if (spec.name == name) {
      return AnyField(i, detail::signature(spec.dtype, spec.role, !spec.shape.empty()));
    }
  }
  return std::nullopt;
}

std::size_t Schema::step_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const FieldSpec& field : fields_) {
    bytes += field.traits().per_item ? 0 : field.bytes;
  }
  return bytes;
}

std::size_t Schema::add(std::string_view name, Role role, DType dtype, std::size_t element_bytes,
                        std::span<const std::size_t> shape) {
  const auto require = [&](bool ok, const auto&... what) {
    base::require(ok, base::Call{"Schema"}, "field '", name, "' ", what...);
  };
  require(!name.empty(), "has an empty name; allowed: at least one character");
  for (const FieldSpec& field : fields_) {
    require(field.name != name, "is there already; allowed: each name once");
    require(!traits(role).discounts || !field.traits().discounts,
            "would be a second discount besides '", field.name, "'; allowed: one");
    require(!traits(role).stamped || !field.traits().stamped, "would be a second version besides '",
            field.name, "'; allowed: one");
  }
  require(fields_.size() < kMaxFields, "would be field number 65; allowed: 64 fields");
  FieldSpec spec{std::string(name), role, dtype, {shape.begin(), shape.end()}, 1, 0};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    require(shape[i] != 0, "has dimension ", i, " of 0; allowed: at least 1");
    require(shape[i] <= kMaxBytes / (spec.elements * element_bytes),
            "has a shape of more than 2^48 bytes; allowed: at most that");
    spec.elements *= shape[i];
  }
  spec.bytes = spec.elements * element_bytes;
  fields_.push_back(std::move(spec));
  return fields_.size() - 1;
}

}  // namespace reprise

namespace reprise::schema {
namespace {

const char* dtype_name(std::uint32_t signature) {
  static constexpr const char* kNames[] = {"u8",  "i8",   "u16", "i16", "u32", "i32", "u64",
                                           "i64", "bool", "f32", "f64", "f16", "bf16"};
  return kNames[signature & 0xffU];
}

}  // namespace

std::string describe(std::uint32_t signature) {
  return std::string((signature >> 16U) != 0 ? "shaped " : "scalar ") + dtype_name(signature) +
         " " + roles()[(signature >> 8U) & 0xffU].name;
}

void refuse_field(const Schema& schema, std::size_t index, std::uint32_t wanted) {
  const std::span<const FieldSpec> fields = schema.fields();
  base::require(index < fields.size(), "field ", index, " (", describe(wanted),
                ") is not of this schema, which has ", fields.size(), " fields");
  const FieldSpec& spec = fields[index];
  base::refuse("field '", spec.name, "' is a ",
               describe(detail::signature(spec.dtype, spec.role, !spec.shape.empty())),
               "; the handle is of another schema, for a ", describe(wanted));
}

}  // namespace reprise::schema
