#include "storage/row_layout.hpp"

#include "base/cache_line.hpp"

#include <span>

namespace reprise::storage {
namespace {

/// A row of at least this many bytes takes whole cache lines, so that wide copies start aligned.
constexpr std::size_t kLargeRow = 1024;

std::size_t align_up(std::size_t bytes, std::size_t alignment) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Size of a row or recurrent state, rounded up so that the next one is aligned.
std::size_t stride_of(std::size_t bytes) noexcept {
  return align_up(bytes, bytes >= kLargeRow ? base::kCacheLine : alignof(ItemHeader));
}

}  // namespace

RowLayout::RowLayout(const Schema& schema) {
  const std::span<const FieldSpec> specs = schema.fields();
  fields_.resize(specs.size());
  const auto place = [&](std::size_t i, std::size_t offset) {
    const FieldSpec& spec = specs[i];
    offset = align_up(offset, spec.bytes / spec.elements);
    fields_[i] = {offset, spec.elements,
                  detail::signature(spec.dtype, spec.role, !spec.shape.empty())};
    field_mask_ |= std::uint64_t{1} << i;
    return offset + spec.bytes;
  };
  std::size_t state = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].traits().per_item) {
      state = place(i, state);
      state_mask_ |= std::uint64_t{1} << i;
    }
  }
  state_stride_ = stride_of(state);
  std::size_t row = headers_end();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].traits().has_next) {
      row = place(i, row);
      observation_mask_ |= std::uint64_t{1} << i;
    }
  }
  observations_end_ = row;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (((observation_mask_ | state_mask_) >> i & 1U) != 0) {
      continue;
    }
    row = place(i, row);
    if (specs[i].traits().discounts) {
      discount_field_ = i;
    }
  }
  stride_ = stride_of(row);
}

}  // namespace reprise::storage
