#include "storage/row_layout.hpp"

#include "base/sync.hpp"
#include "storage/frame_codec.hpp"
#include "storage/mutable_values.hpp"

#include <span>

namespace reprise::storage {
namespace {

/// A row of at least this size takes whole cache lines, so that wide copies start aligned.
constexpr std::size_t kLargeRow = 1024;

std::size_t align_up(std::size_t bytes, std::size_t alignment) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Size of a row or recurrent state, rounded up so that the next one is aligned.
std::size_t stride_of(std::size_t bytes) noexcept {
  return align_up(bytes, bytes >= kLargeRow ? base::kCacheLine : alignof(ItemHeader));
}

}  // namespace

RowLayout::RowLayout(const Schema& schema, Frames frames, bool streams) {
  const std::span<const FieldSpec> specs = schema.fields();
  fields_.resize(specs.size());
  // Places the fields for which `belongs` is true one after the other from `at` on, and returns
  // their end. Sets their bits in `mask`, but not that of a stamped field, which commits fill in.
  const auto place = [&](std::size_t at, std::uint64_t& mask, const auto& belongs) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const FieldSpec& spec = specs[i];
      if (belongs(spec.traits())) {
        const bool compressed = schema.compresses(i);
        const bool by_ref = compressed && frames == Frames::ByRef;
        const bool changes = spec.traits().changes;
        at = align_up(at, by_ref    ? alignof(FrameRef)
                          : changes ? sizeof(Word)
                                    : spec.bytes / spec.elements);
        fields_[i] = {at, spec.elements,
                      detail::signature(spec.dtype, spec.role, !spec.shape.empty())};
        if (compressed) {
          compressed_.push_back({i, at, spec.bytes, frame_bytes()});
        }
        if (changes) {
          mutable_.push_back({i, at, spec.bytes});
        }
        at += by_ref ? sizeof(FrameRef) : spec.bytes;
        mask |= std::uint64_t{spec.traits().stamped ? 0U : 1U} << i;
        discount_field_ = spec.traits().discounts ? i : discount_field_;
        version_field_ = spec.traits().stamped ? i : version_field_;
      }
    }
    return at;
  };
  const auto is_state = [](const RoleTraits& role) { return role.per_item; };
  const auto is_observation = [](const RoleTraits& role) { return role.has_next; };
  std::uint64_t columns = 0;
  state_stride_ = stride_of(place(0, state_mask_, is_state));
  observations_end_ = place(headers_end(), observation_mask_, is_observation);
  mutable_begin_ = place(observations_end_ + (streams ? sizeof(StreamRow) : 0), columns,
                         [&](const RoleTraits& role) {
                           return !is_state(role) && !is_observation(role) && !role.changes;
                         });
  stride_ = stride_of(
      place(mutable_begin_, columns, [](const RoleTraits& role) { return role.changes; }));
  stream_rows_ = streams ? StreamRows(observations_end_, stride_) : StreamRows();
  field_mask_ = state_mask_ | observation_mask_ | columns;
}

}  // namespace reprise::storage
