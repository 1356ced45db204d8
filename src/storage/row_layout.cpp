#include "storage/row_layout.hpp"

#include "base/cache_line.hpp"

#include <span>

namespace reprise::storage {
namespace {

/// From this size on a row takes whole cache lines, so that wide copies start aligned.
constexpr std::size_t kLargeRow = 1024;

std::size_t align_up(std::size_t bytes, std::size_t alignment) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

RowLayout::RowLayout(const Schema& schema) {
  const std::span<const FieldSpec> specs = schema.fields();
  fields_.resize(specs.size());
  std::size_t offset = sizeof(ItemHeader);
  observations_end_ = offset;
  for (const bool observations : {true, false}) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const FieldSpec& spec = specs[i];
      if ((spec.role == Role::Observation) != observations) {
        continue;
      }
      offset = align_up(offset, spec.bytes / spec.elements);
      const bool shaped = !spec.shape.empty();
      fields_[i] = {offset, spec.elements, detail::signature(spec.dtype, spec.role, shaped)};
      offset += spec.bytes;
      field_mask_ |= std::uint64_t{1} << i;
      if (spec.role == Role::Discount) {
        discount_field_ = i;
      }
      if (observations) {
        observation_mask_ |= std::uint64_t{1} << i;
        observations_end_ = offset;
      }
    }
  }
  stride_ = align_up(offset, offset >= kLargeRow ? base::kCacheLine : alignof(ItemHeader));
}

}  // namespace reprise::storage
