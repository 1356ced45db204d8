#include "api/checkpoint_options.hpp"
#include "base/text.hpp"

#include <array>
#include <limits>
#include <optional>
#include <stdexcept>

namespace reprise::api {
namespace {

constexpr std::size_t kMostFields = 64;
constexpr std::size_t kLongestName = 65536;
constexpr std::array kRoles = {"observation", "column", "reward", "discount", "recurrent state"};
constexpr std::array kTypes = {"uint8",  "int8",  "uint16", "int16", "uint32", "int32",
                               "uint64", "int64", "bool",   "float", "double"};

/// Adds a field of a dtype that is known only now.
void add(Schema& schema, Role role, DType dtype, std::string_view name,
         std::span<const std::size_t> shape) {
  const auto typed = [&](auto example) {
    using T = decltype(example);
    if (role == Role::Observation) {
      shape.empty() ? void(schema.observation<T>(name)) : void(schema.observation<T>(name, shape));
    } else if (role == Role::RecurrentState) {
      schema.recurrent_state<T>(name, shape);
    } else {
      shape.empty() ? void(schema.column<T>(name)) : void(schema.column<T>(name, shape));
    }
  };
  switch (dtype) {
    case DType::U8:
      return typed(std::uint8_t{});
    case DType::I8:
      return typed(std::int8_t{});
    case DType::U16:
      return typed(std::uint16_t{});
    case DType::I16:
      return typed(std::int16_t{});
    case DType::U32:
      return typed(std::uint32_t{});
    case DType::I32:
      return typed(std::int32_t{});
    case DType::U64:
      return typed(std::uint64_t{});
    case DType::I64:
      return typed(std::int64_t{});
    case DType::Bool:
      return typed(bool{});
    case DType::F32:
      return typed(float{});
    case DType::F64:
      return typed(double{});
  }
}

std::string in_words(const FieldSpec& field) {
  std::string shape;
  for (const std::size_t dimension : field.shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(dimension);
  }
  return base::text(kRoles.at(static_cast<std::size_t>(field.role)), " '", field.name, "' of ",
                    kTypes.at(static_cast<std::size_t>(field.dtype)), " [", shape, "]");
}

}  // namespace

void encode(checkpoint::Encoder& to, const Schema& schema) {
  to.u32(static_cast<std::uint32_t>(schema.fields().size()));
  for (const FieldSpec& field : schema.fields()) {
    to.string(field.name);
    to.u8(static_cast<std::uint8_t>(field.role));
    to.u8(static_cast<std::uint8_t>(field.dtype));
    to.u32(static_cast<std::uint32_t>(field.shape.size()));
    for (const std::size_t dimension : field.shape) {
      to.u64(dimension);
    }
  }
}

Schema decode_schema(checkpoint::Decoder& from) {
  Schema schema;
  const std::uint32_t fields = from.count(10);
  if (fields == 0 || fields > kMostFields) {
    from.refuse("a schema of ", fields, " fields; allowed: 1 to ", kMostFields);
  }
  for (std::uint32_t i = 0; i < fields; ++i) {
    const std::string name(from.string(kLongestName));
    const std::uint8_t role = from.u8();
    if (role >= kRoles.size()) {
      from.refuse("field '", name, "' has role ", unsigned{role});
    }
    const std::uint8_t dtype = from.u8();
    if (dtype >= kTypes.size()) {
      from.refuse("field '", name, "' has dtype ", unsigned{dtype});
    }
    std::vector<std::size_t> shape(from.count(8));
    for (std::size_t& dimension : shape) {
      dimension = from.u64();
    }
    const auto is_float = static_cast<DType>(dtype) == DType::F32 && shape.empty();
    try {
      if (static_cast<Role>(role) == Role::Reward && is_float) {
        schema.reward(name);
      } else if (static_cast<Role>(role) == Role::Discount && is_float) {
        schema.discount(name);
      } else if (static_cast<Role>(role) != Role::Reward &&
                 static_cast<Role>(role) != Role::Discount) {
        add(schema, static_cast<Role>(role), static_cast<DType>(dtype), name, shape);
      } else {
        from.refuse("field '", name, "' is no scalar of float");
      }
    } catch (const std::invalid_argument& error) {
      from.refuse(error.what());
    }
  }
  return schema;
}

std::string difference(const Schema& stored, const Schema& here) {
  for (std::size_t i = 0; i < std::max(stored.fields().size(), here.fields().size()); ++i) {
    if (i >= stored.fields().size()) {
      return "this buffer has " + in_words(here.fields()[i]) + ", the checkpoint has not";
    }
    if (i >= here.fields().size()) {
      return "the checkpoint has " + in_words(stored.fields()[i]) + ", this buffer has not";
    }
    if (stored.fields()[i] != here.fields()[i]) {
      return "the checkpoint has " + in_words(stored.fields()[i]) + " where this buffer has " +
             in_words(here.fields()[i]);
    }
  }
  return {};
}

}  // namespace reprise::api
