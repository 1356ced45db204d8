#include "window/gather.hpp"

#include "storage/frame_codec.hpp"
#include "window/copy_bytes.hpp"
#include "window/stream.hpp"
#include "window/window_spec.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace reprise::window {
namespace {

/// The least bytes of a frame, and of all frames of a batch, for which frames are written past the
/// caches: no second-level cache would keep such a batch until the learner reads it.
constexpr std::size_t kStreamedFrame = 1024;
constexpr std::size_t kStreamedBatch = std::size_t{4} << 20U;

/// Whether a field of this size per frame and per item is written past the caches.
bool is_streamed(std::size_t frame_bytes, std::size_t item_bytes,
                 const detail::BatchView& batch) noexcept {
  return frame_bytes >= kStreamedFrame && batch.capacity >= kStreamedBatch / item_bytes;
}

}  // namespace

Gather::Gather(const Schema& schema, const storage::RowLayout& layout, const WindowSpec& window,
               storage::ChunkStore& store)
    : packed_(layout.compressed()),
      mutable_(layout.mutable_fields()),
      store_(store),
      states_(store.state(0)),
      state_stride_(layout.state_stride()),
      stride_(layout.stride()),
      ahead_(window.ahead()),
      behind_(window.behind()),
      zeros_before_(window.zeros_before()),
      stream_rows_(layout.stream_rows()) {
  const std::span<const FieldSpec> specs = schema.fields();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Copy copy{i, layout.fields()[i].offset, specs[i].bytes};
    const RoleTraits& role = specs[i].traits();
    if (!schema.compresses(i) && !role.changes) {
      (role.per_item ? recurrent_ : role.has_next ? observations_ : columns_).push_back(copy);
    }
    item_bytes_ += copy.bytes * window.values(role) * (role.has_next ? 2 : 1);
    if (role.has_returns) {
      rewards_.push_back(copy);
      item_bytes_ += window.n_step() == 0 ? 0 : window.target_count() * sizeof(float);
    }
    if (role.discounts) {
      discount_offset_ = copy.offset;
    }
  }
}

/// Copies the frames of all stacks, each frame once: those that the first step's stack reads, then
/// those of the steps up to step `last`. A shorter window repeats its last frame up to there.
/// Zeros follow in the place of further steps.
void Gather::copy_frames(const Copy& copy, const Part& part, std::uint32_t last,
                         const detail::BatchView& batch, std::size_t place) const noexcept {
  const std::size_t bytes = copy.bytes * batch.frames;
  std::byte* to = batch.columns[copy.field].data[detail::BatchView::kFrames] + place * bytes;
  const bool streamed = is_streamed(copy.bytes, bytes, batch);
  const auto put = [&](const std::byte* from) {
    if (streamed) {
      stream_bytes(to, from, copy.bytes);
    } else {
      copy_bytes(to, from, copy.bytes);
    }
    to += copy.bytes;
  };
  const std::byte* const from = part.row + copy.offset;
  const std::uint64_t position = part.position;
  for (std::uint32_t lag = behind_; lag > 0; --lag) {
    if (lag > position && zeros_before_) {
      std::memset(to, 0, copy.bytes);
      to += copy.bytes;
    } else {
      put(from - std::min<std::uint64_t>(lag, position) * stride_);
    }
  }
  for (std::uint32_t k = 0; k <= last; ++k) {
    put(from + std::min(k, part.length) * stride_);
  }
  if (last < ahead_) {
    std::memset(to, 0, (ahead_ - last) * copy.bytes);
  }
  if (streamed) {
    end_stream();
  }
}

void Gather::copy_observation(std::size_t field, const std::byte* row,
                              std::byte* to) const noexcept {
  for (const Copy& copy : observations_) {
    if (copy.field == field) {
      std::memcpy(to, row + copy.offset, copy.bytes);
    }
  }
  for (const storage::CompressedField& packed : packed_) {
    if (packed.field == field) {
      storage::FrameRef ref;
      std::memcpy(&ref, row + packed.offset, sizeof(ref));
      storage::read_frame(store_.frame_room(row), ref, packed.key, {to, packed.bytes});
    }
  }
}

/// Copies the recurrent state of the item's first step.
void Gather::copy_recurrent_state(const std::byte* row, const detail::BatchView& batch,
                                  std::size_t place) const noexcept {
  storage::StateNumber number = 0;
  std::memcpy(&number, row + storage::kStateNumberOffset, sizeof(number));
  const std::byte* const state = states_ + std::size_t{number} * state_stride_;
  for (const Copy& copy : recurrent_) {
    std::memcpy(batch.columns[copy.field].data[detail::BatchView::kNow] + place * copy.bytes,
                state + copy.offset, copy.bytes);
  }
}

void Gather::copy_values_beside_rows(const std::byte* row, const detail::BatchView& batch,
                                     std::size_t place) const noexcept {
  if (!mutable_.empty()) {
    storage::ItemHeader header;
    std::memcpy(&header, row, sizeof(header));
    const std::uint32_t length = std::min(header.length(), batch.steps);
    copy_mutable(row, length, batch.steps - length, batch, place * batch.steps);
  }
  if (!recurrent_.empty()) {
    copy_recurrent_state(row, batch, place);
  }
}

/// Decompresses the frame of each step k in [-behind_, last] into places_of(k). In the place of
/// frames before the episode come zeros or the first frame, and after the window's end its last.
template <class PlacesOf>
void Gather::unpack(const storage::CompressedField& field, const Part& part, std::int64_t last,
                    bool streamed, const PlacesOf& places_of) const noexcept {
  const std::span<const std::byte> room = store_.frame_room(part.row);
  const auto back = static_cast<std::int64_t>(std::min<std::uint64_t>(part.position, behind_));
  storage::FrameDecoder decoder;
  for (std::int64_t k = -std::int64_t{behind_}; k <= last; ++k) {
    const std::int64_t step = std::clamp<std::int64_t>(k, -back, part.length);
    const std::array<Places, 2> to = places_of(k);
    if (to[0].count + to[1].count == 0) {
      continue;
    }
    const auto each_place = [&](const auto& put) {
      for (const Places& places : to) {
        for (std::size_t i = 0; i < places.count; ++i) {
          put(places.first + i * places.apart);
        }
      }
    };
    const auto write = [&](std::size_t at, std::span<const std::byte> piece) {
      each_place([&](std::byte* place) {
        if (streamed) {
          stream_bytes(place + at, piece.data(), piece.size());
        } else {
          std::memcpy(place + at, piece.data(), piece.size());
        }
      });
    };
    storage::FrameRef ref;
    std::memcpy(&ref, part.row + step * static_cast<std::int64_t>(stride_) + field.offset,
                sizeof(ref));
    const bool before_episode = k < step;
    if ((before_episode && zeros_before_) ||
        !decoder.read(room, ref, field.key, field.bytes, write)) {
      each_place([&](std::byte* place) { std::memset(place, 0, field.bytes); });
    }
  }
  if (streamed) {
    end_stream();
  }
}

/// Decompresses a field of a window: the stack of each step, or with unique frames each frame once.
void Gather::unpack_field(const storage::CompressedField& field, const Part& part,
                          const Stacks& stacks, const detail::BatchView& batch,
                          std::size_t place) const noexcept {
  if (batch.unique_frames) {
    unpack_frames(field, part, stacks.last_frame, batch, place);
  } else {
    unpack_stacks(field, part, stacks, batch, place);
  }
}

/// Decompresses the stacks of a window's steps, and writes zeros for the steps that the item lacks.
void Gather::unpack_stacks(const storage::CompressedField& field, const Part& part,
                           const Stacks& stacks, const detail::BatchView& batch,
                           std::size_t place) const noexcept {
  const detail::BatchView::Column& column = batch.columns[field.field];
  const auto behind = static_cast<std::int64_t>(behind_);
  const std::size_t stack = (std::size_t{behind_} + 1) * field.bytes;
  const std::size_t item = batch.steps * stack;
  const std::size_t begin = place * item + part.at * stack;
  // Frame k is the last one in the stack of step k, the last but one in the stack of step k + 1,
  // ...
  const auto places = [&](int which, std::int64_t k) -> Places {
    const std::int64_t first = std::max<std::int64_t>(k, 0);
    const std::int64_t last = std::min(k + behind, stacks.count - 1);
    if (first > last) {
      return {};
    }
    return {column.data[which] + begin + static_cast<std::size_t>(first) * stack +
                static_cast<std::size_t>(k - first + behind) * field.bytes,
            static_cast<std::size_t>(last - first + 1), stack - field.bytes};
  };
  unpack(field, part, part.length, is_streamed(field.bytes, 2 * item, batch),
         [&](std::int64_t k) -> std::array<Places, 2> {
           return {places(detail::BatchView::kNow, k),
                   places(detail::BatchView::kNext, k - stacks.to_next)};
         });
  for (const int which : {detail::BatchView::kNow, detail::BatchView::kNext}) {
    const std::size_t used = static_cast<std::size_t>(stacks.count) * stack;
    std::memset(column.data[which] + begin + used, 0, part.beyond * stack);
  }
}

/// Decompresses each frame of a window once.
void Gather::unpack_frames(const storage::CompressedField& field, const Part& part,
                           std::int64_t last, const detail::BatchView& batch,
                           std::size_t place) const noexcept {
  const std::size_t item = batch.frames * field.bytes;
  std::byte* const to = batch.columns[field.field].data[detail::BatchView::kFrames] + place * item;
  unpack(field, part, last, is_streamed(field.bytes, item, batch),
         [&](std::int64_t k) -> std::array<Places, 2> {
           return {Places{to + static_cast<std::size_t>(k + behind_) * field.bytes, 1}, Places{}};
         });
  const std::size_t used = static_cast<std::size_t>(last + behind_ + 1) * field.bytes;
  std::memset(to + used, 0, item - used);
}

}  // namespace reprise::window
