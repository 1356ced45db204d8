#pragma once

#include <reprise/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::schema {

/// A field's type and role in words, from its `detail::signature`.
[[nodiscard]] std::string describe(std::uint32_t signature);

/// Throws std::invalid_argument: field `index`, with the signature `wanted`, is not of the schema.
[[noreturn]] void refuse_field(const Schema& schema, std::size_t index, std::uint32_t wanted);

}  // namespace reprise::schema
