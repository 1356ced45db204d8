#include "base/text.hpp"
#include "save/stored_options.hpp"

#include <array>
#include <limits>
#include <optional>
#include <stdexcept>

namespace reprise::save {
namespace {

constexpr std::size_t kMostFields = 64;
/// A bit in the byte of each field's role, set if the schema requires finite values.
constexpr std::uint8_t kFinite = 0x80;
constexpr std::size_t kLongestName = 65536;
constexpr std::array kTypes = {"uint8",  "int8",  "uint16", "int16", "uint32", "int32",
                               "uint64", "int64", "bool",   "float", "double"};

std::string in_words(const FieldSpec& field) {
  std::string shape;
  for (const std::size_t dimension : field.shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(dimension);
  }
  return base::text(field.traits().name, " '", field.name, "' of ",
                    kTypes.at(static_cast<std::size_t>(field.dtype)), " [", shape, "]");
}

}  // namespace

void encode(record::Encoder& to, const Schema& schema) {
  to.u32(static_cast<std::uint32_t>(schema.fields().size()));
  for (const FieldSpec& field : schema.fields()) {
    to.string(field.name);
    const std::uint8_t mark = schema.requires_finite() ? kFinite : std::uint8_t{0};
    to.u8(static_cast<std::uint8_t>(static_cast<std::uint8_t>(field.role) | mark));
    to.u8(static_cast<std::uint8_t>(field.dtype));
    to.u32(static_cast<std::uint32_t>(field.shape.size()));
    for (const std::size_t dimension : field.shape) {
      to.u64(dimension);
    }
  }
}

Schema decode_schema(record::Decoder& from) {
  Schema schema;
  const std::uint32_t fields = from.count(10);
  if (fields == 0 || fields > kMostFields) {
    from.refuse("a schema of ", fields, " fields; allowed: 1 to ", kMostFields);
  }
  for (std::uint32_t i = 0; i < fields; ++i) {
    const std::string name(from.string(kLongestName));
    const std::uint8_t marked = from.u8();
    const auto role = static_cast<std::uint8_t>(marked & ~kFinite);
    schema.require_finite((marked & kFinite) != 0);
    if (role >= roles().size()) {
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
    try {
      schema.declare(name, static_cast<Role>(role), static_cast<DType>(dtype), shape);
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

}  // namespace reprise::save
