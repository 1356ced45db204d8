#include <reprise/schema.hpp>

#include <algorithm>
#include <stdexcept>

namespace reprise {
namespace {

constexpr std::size_t kMaxFields = 64;  // Writers keep one bit per field.
constexpr std::size_t kMaxBytes = std::size_t{1} << 48U;

}  // namespace

Reward Schema::reward(std::string_view name) {
  return Reward(add(name, Role::Reward, DType::F32, sizeof(float), {}));
}

Discount Schema::discount(std::string_view name) {
  return Discount(add(name, Role::Discount, DType::F32, sizeof(float), {}));
}

AnyField Schema::declare(std::string_view name, Role role, DType dtype,
                         std::span<const std::size_t> shape) {
  if (static_cast<std::size_t>(role) >= roles().size()) {
    throw std::invalid_argument("Schema: the role of field '" + std::string(name) + "' is " +
                                std::to_string(static_cast<unsigned>(role)) +
                                "; allowed: an enumerator of Role");
  }
  if (traits(role).is_scalar && (dtype != DType::F32 || !shape.empty())) {
    throw std::invalid_argument("Schema: field '" + std::string(name) + "' is a " +
                                traits(role).name +
                                " that is no scalar float; allowed: F32 without a shape");
  }
  const std::size_t index = add(name, role, dtype, element_bytes(dtype), shape);
  return {index, detail::signature(dtype, role, !shape.empty())};
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
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument("Schema: field '" + std::string(name) + "' " + what);
  };
  if (name.empty()) {
    refuse("has an empty name; allowed: at least one character");
  }
  for (const FieldSpec& field : fields_) {
    if (field.name == name) {
      refuse("is there already; allowed: each name once");
    }
    if (traits(role).discounts && field.traits().discounts) {
      refuse("would be a second discount besides '" + field.name + "'; allowed: one");
    }
  }
  if (fields_.size() == kMaxFields) {
    refuse("would be field number 65; allowed: 64 fields");
  }
  FieldSpec spec{std::string(name), role, dtype, {shape.begin(), shape.end()}, 1, 0};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) {
      refuse("has dimension " + std::to_string(i) + " of 0; allowed: at least 1");
    }
    if (shape[i] > kMaxBytes / (spec.elements * element_bytes)) {
      refuse("has a shape of more than 2^48 bytes; allowed: at most that");
    }
    spec.elements *= shape[i];
  }
  spec.bytes = spec.elements * element_bytes;
  fields_.push_back(std::move(spec));
  return fields_.size() - 1;
}

}  // namespace reprise
