#include "window/gather.hpp"

#include "storage/frame_codec.hpp"
#include "window/stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace reprise::window {
namespace {

/// Number of items by which rows are prefetched ahead of the one being copied.
constexpr std::size_t kPrefetchDistance = 16;
/// Bytes prefetched ahead per row; the processor's own prefetcher follows longer rows.
constexpr std::size_t kPrefetchBytes = 256;
/// Bytes of sequences prefetched ahead of the one being copied, and the most of one of them.
constexpr std::size_t kSequencesAhead = 8192;
constexpr std::size_t kSequenceBytes = 1024;

void prefetch(const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t offset = 0; offset < bytes; offset += 64) {
    __builtin_prefetch(from + offset);
  }
}

/// Calls body with the size, as a constant if small fields have it: then a memcpy is no call.
template <class Body>
[[gnu::always_inline]] inline void with_size(std::size_t bytes, const Body& body) noexcept {
  switch (bytes) {
    case 1:
      return body(std::integral_constant<std::size_t, 1>());
    case 4:
      return body(std::integral_constant<std::size_t, 4>());
    case 8:
      return body(std::integral_constant<std::size_t, 8>());
    case 16:
      return body(std::integral_constant<std::size_t, 16>());
    case 32:
      return body(std::integral_constant<std::size_t, 32>());
    default:
      return body(bytes);
  }
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  with_size(bytes, [=](auto size) { std::memcpy(to, from, size); });
}

/// Bytes of a frame, and of a batch of them, from which frames go past the caches: no second-level
/// cache would keep such a batch until the learner reads it.
constexpr std::size_t kStreamedFrame = 1024;
constexpr std::size_t kStreamedBatch = std::size_t{4} << 20U;

/// Whether a compressed field with so many bytes per frame and per item goes past the caches.
bool is_streamed(std::size_t frame, std::size_t item, const detail::BatchView& batch) noexcept {
  return frame >= kStreamedFrame && batch.capacity >= kStreamedBatch / item;
}

float load_float(const std::byte* from) noexcept {
  float value = 0.0F;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

Gather::Gather(const Schema& schema, const storage::RowLayout& layout, const WindowSpec& window,
               storage::ChunkStore& store)
    : packed_(layout.compressed()),
      store_(store),
      states_(store.state(0)),
      state_stride_(layout.state_stride()),
      stride_(layout.stride()),
      ahead_(window.ahead()),
      behind_(window.behind()),
      discount_(window.discount()),
      has_steps_(window.has_steps()),
      zeros_before_(window.zeros_before()) {
  const std::span<const FieldSpec> specs = schema.fields();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Copy copy{i, layout.fields()[i].offset, specs[i].bytes};
    const RoleTraits& role = specs[i].traits();
    if (!schema.compresses(i)) {
      (role.per_item ? recurrent_ : role.has_next ? observations_ : columns_).push_back(copy);
    }
    item_bytes_ += copy.bytes * window.values(role) * (role.has_next ? 2 : 1);
    if (role.has_returns) {
      rewards_.push_back(copy);
      item_bytes_ += has_steps_ ? 0 : sizeof(float);
    }
    if (role.discounts) {
      discount_offset_ = copy.offset;
    }
  }
}

void Gather::items(std::span<const std::byte* const> rows, const detail::BatchView& batch,
                   std::size_t offset) const noexcept {
  has_steps_ ? sequences(rows, batch, offset) : transitions(rows, batch, offset);
}

void Gather::transitions(std::span<const std::byte* const> rows, const detail::BatchView& batch,
                         std::size_t offset) const noexcept {
  const std::size_t ahead = ahead_ * stride_;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kPrefetchDistance < rows.size() && ahead + stride_ <= 2 * kPrefetchBytes) {
      // Small rows begin anywhere in a line, so every line of the window is prefetched, its last
      // one included.
      prefetch(rows[i + kPrefetchDistance], ahead + stride_);
      __builtin_prefetch(rows[i + kPrefetchDistance] + ahead + stride_ - 1);
    } else if (i + kPrefetchDistance < rows.size()) {
      // The row n steps ahead lies in the same chunk or, past an episode's end, is not needed;
      // a prefetch of it cannot fault.
      const std::size_t fetched = std::min(stride_, kPrefetchBytes);
      prefetch(rows[i + kPrefetchDistance], fetched);
      prefetch(rows[i + kPrefetchDistance] + ahead, fetched);
    }
    const std::byte* const row = rows[i];
    const std::size_t place = offset + i;
    storage::ItemHeader header;
    std::memcpy(&header, row, sizeof(header));
    const std::uint64_t position = header.position();
    const std::uint32_t length = header.length();
    for (const Copy& copy : observations_) {
      const detail::BatchView::Column& column = batch.columns[copy.field];
      if (batch.unique_frames) {
        frames(copy, row, header, batch, place);
        continue;
      }
      const std::size_t bytes = copy.bytes * (behind_ + 1);
      stack(copy, row, position, column.data[detail::BatchView::kNow] + place * bytes);
      stack(copy, row + length * stride_, position + length,
            column.data[detail::BatchView::kNext] + place * bytes);
    }
    for (const storage::CompressedField& field : packed_) {
      const auto back = static_cast<std::int64_t>(std::min<std::uint64_t>(position, behind_));
      packed_stacks(field, {row, back, length}, batch, place);
    }
    for (const Copy& copy : columns_) {
      copy_bytes(batch.columns[copy.field].data[detail::BatchView::kNow] + place * copy.bytes,
                 row + copy.offset, copy.bytes);
    }
    returns(row, header, batch, place);
    batch.episodes[place] = header.episode;
    batch.positions[place] = position;
    batch.lengths[place] = length;
  }
}

/// The frames up to and including `row`, oldest first. Before the episode's first step there are no
/// frames: the first frame or zeros take their place.
void Gather::stack(const Copy& copy, const std::byte* row, std::uint64_t position,
                   std::byte* to) const noexcept {
  const std::byte* const from = row + copy.offset;
  for (std::uint32_t lag = behind_; lag > 0; --lag) {
    if (lag > position && zeros_before_) {
      std::memset(to, 0, copy.bytes);
    } else {
      copy_bytes(to, from - std::min<std::uint64_t>(lag, position) * stride_, copy.bytes);
    }
    to += copy.bytes;
  }
  copy_bytes(to, from, copy.bytes);
}

/// The frames of both stacks, each once: those up to and including `row`, then those of the steps
/// after it. Beyond a shorter window its last frame is repeated.
void Gather::frames(const Copy& copy, const std::byte* row, const storage::ItemHeader& header,
                    const detail::BatchView& batch, std::size_t place) const noexcept {
  const std::size_t bytes = copy.bytes * batch.frames;
  std::byte* to = batch.columns[copy.field].data[detail::BatchView::kFrames] + place * bytes;
  const bool streamed = copy.bytes >= kStreamedFrame && batch.capacity >= kStreamedBatch / bytes;
  const auto put = [&](const std::byte* from) {
    if (streamed) {
      stream_bytes(to, from, copy.bytes);
    } else {
      copy_bytes(to, from, copy.bytes);
    }
    to += copy.bytes;
  };
  const std::byte* const from = row + copy.offset;
  const std::uint64_t position = header.position();
  for (std::uint32_t lag = behind_; lag > 0; --lag) {
    if (lag > position && zeros_before_) {
      std::memset(to, 0, copy.bytes);
      to += copy.bytes;
    } else {
      put(from - std::min<std::uint64_t>(lag, position) * stride_);
    }
  }
  for (std::uint32_t k = 0; k <= ahead_; ++k) {
    put(from + std::min(k, header.length()) * stride_);
  }
  if (streamed) {
    end_stream();
  }
}

void Gather::observation(std::size_t field, const std::byte* row, std::byte* to) const noexcept {
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

/// Writes the frames of steps [first, last] where `places` says, up to two places for each. Steps
/// that the window lacks have zeros or its first frame before the episode, and its last frame
/// beyond its end.
template <class Places>
void Gather::unpack(const storage::CompressedField& field, const Frames& frames, std::int64_t first,
                    std::int64_t last, bool streamed, const Places& places) const noexcept {
  const std::span<const std::byte> room = store_.frame_room(frames.row);
  storage::FrameDecoder decoder;
  for (std::int64_t k = first; k <= last; ++k) {
    const std::int64_t step = std::clamp(k, -frames.back, frames.length);
    const std::array<std::byte*, 2> to = places(k);
    if (to[0] == nullptr && to[1] == nullptr) {
      continue;
    }
    const auto write = [&](std::size_t at, std::span<const std::byte> piece) {
      for (std::byte* const place : to) {
        if (place != nullptr && streamed) {
          stream_bytes(place + at, piece.data(), piece.size());
        } else if (place != nullptr) {
          std::memcpy(place + at, piece.data(), piece.size());
        }
      }
    };
    storage::FrameRef ref;
    std::memcpy(&ref, frames.row + step * static_cast<std::int64_t>(stride_) + field.offset,
                sizeof(ref));
    const bool is_there = k >= step || !zeros_before_;
    if (!is_there || !decoder.read(room, ref, field.key, field.bytes, write)) {
      for (std::byte* const place : to) {
        if (place != nullptr) {
          std::memset(place, 0, field.bytes);
        }
      }
    }
  }
  if (streamed) {
    end_stream();
  }
}

/// The stacks of a window, or their frames once.
void Gather::packed_stacks(const storage::CompressedField& field, const Frames& frames,
                           const detail::BatchView& batch, std::size_t place) const noexcept {
  const detail::BatchView::Column& column = batch.columns[field.field];
  const auto behind = static_cast<std::int64_t>(behind_);
  const auto at = [&](int which, std::size_t count, std::int64_t frame) {
    return frame < 0 || frame >= static_cast<std::int64_t>(count)
               ? nullptr
               : column.data[which] +
                     (place * count + static_cast<std::size_t>(frame)) * field.bytes;
  };
  const std::size_t count = batch.unique_frames ? batch.frames : behind_ + 1;
  const bool streamed =
      is_streamed(field.bytes, (batch.unique_frames ? count : 2 * count) * field.bytes, batch);
  if (batch.unique_frames) {
    unpack(field, frames, -behind, static_cast<std::int64_t>(ahead_), streamed,
           [&](std::int64_t k) -> std::array<std::byte*, 2> {
             return {at(detail::BatchView::kFrames, count, k + behind), nullptr};
           });
  } else {
    unpack(field, frames, -behind, frames.length, streamed,
           [&](std::int64_t k) -> std::array<std::byte*, 2> {
             return {at(detail::BatchView::kNow, count, k + behind),
                     at(detail::BatchView::kNext, count, k + behind - frames.length)};
           });
  }
}

/// R = sum over k of (product of the discounts of the steps before k) * reward[t + k]; the product
/// over the whole window is the factor of the value of `next`. Accumulated in double.
void Gather::returns(const std::byte* row, const storage::ItemHeader& header,
                     const detail::BatchView& batch, std::size_t place) const noexcept {
  const std::uint32_t length = header.length();
  const auto per_step = [&](std::uint32_t k) {
    const auto gamma = static_cast<double>(discount_);
    return discount_offset_ == 0 ? gamma : gamma * load_float(row + k * stride_ + discount_offset_);
  };
  for (const Copy& reward : rewards_) {
    double sum = 0.0;
    double product = 1.0;
    for (std::uint32_t k = 0; k < length; ++k) {
      sum += product * load_float(row + k * stride_ + reward.offset);
      product *= per_step(k);
    }
    auto* const to =
        reinterpret_cast<float*>(batch.columns[reward.field].data[detail::BatchView::kReturns]);
    to[place] = static_cast<float>(sum);
  }
  double product = header.terminated() ? 0.0 : 1.0;
  for (std::uint32_t k = 0; k < length; ++k) {
    product *= per_step(k);
  }
  batch.discounts[place] = static_cast<float>(product);
}

void Gather::sequences(std::span<const std::byte* const> rows, const detail::BatchView& batch,
                       std::size_t offset) const noexcept {
  const std::size_t window_bytes = (std::size_t{ahead_} + 1) * stride_;
  const std::size_t fetched = std::min(window_bytes, kSequenceBytes);
  const std::size_t distance = std::clamp<std::size_t>(kSequencesAhead / fetched, 1, 16);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + distance < rows.size()) {
      // At the end of an episode these lines may belong to another window; a prefetch cannot fault.
      prefetch(rows[i + distance], fetched);
    }
    const std::byte* const row = rows[i];
    const std::size_t place = offset + i;
    storage::ItemHeader header;
    std::memcpy(&header, row, sizeof(header));
    const std::uint32_t length = header.length();
    const auto column = [&](const auto& copy, int which) {
      return batch.columns[copy.field].data[which] + place * ahead_ * copy.bytes;
    };
    for (const Copy& copy : observations_) {
      steps(copy, row, length, column(copy, detail::BatchView::kNow));
      steps(copy, row + stride_, length, column(copy, detail::BatchView::kNext));
    }
    for (const storage::CompressedField& field : packed_) {
      packed_steps(field, {row, 0, length}, column(field, detail::BatchView::kNow),
                   column(field, detail::BatchView::kNext),
                   is_streamed(field.bytes, 2 * ahead_ * field.bytes, batch));
    }
    for (const Copy& copy : columns_) {
      steps(copy, row, length, column(copy, detail::BatchView::kNow));
    }
    if (!recurrent_.empty()) {
      recurrent_state(row, batch, place);
    }
    batch.discounts[place] = header.terminated() ? 0.0F : 1.0F;
    batch.episodes[place] = header.episode;
    batch.positions[place] = header.position();
    batch.lengths[place] = length;
  }
}

/// Copies one field of `length` rows; zeros for the steps that a whole window has beyond them.
void Gather::steps(const Copy& copy, const std::byte* row, std::uint32_t length,
                   std::byte* to) const noexcept {
  const std::byte* const from = row + copy.offset;
  with_size(copy.bytes, [=, stride = stride_](auto size) {
    for (std::uint32_t k = 0; k < length; ++k) {
      std::memcpy(to + k * size, from + k * stride, size);
    }
  });
  if (length < ahead_) {
    std::memset(to + length * copy.bytes, 0, (ahead_ - length) * copy.bytes);
  }
}

/// As `steps`, for the current and the next frames of a sequence.
void Gather::packed_steps(const storage::CompressedField& field, const Frames& frames,
                          std::byte* now, std::byte* next, bool streamed) const noexcept {
  unpack(
      field, frames, 0, frames.length, streamed, [&](std::int64_t k) -> std::array<std::byte*, 2> {
        const std::size_t at = static_cast<std::size_t>(k) * field.bytes;
        return {k < frames.length ? now + at : nullptr, k > 0 ? next + at - field.bytes : nullptr};
      });
  const auto length = static_cast<std::size_t>(frames.length);
  if (length < ahead_) {
    std::memset(now + length * field.bytes, 0, (ahead_ - length) * field.bytes);
    std::memset(next + length * field.bytes, 0, (ahead_ - length) * field.bytes);
  }
}

/// Copies the recurrent state of the item's first step.
void Gather::recurrent_state(const std::byte* row, const detail::BatchView& batch,
                             std::size_t place) const noexcept {
  storage::StateNumber number = 0;
  std::memcpy(&number, row + storage::kStateNumberOffset, sizeof(number));
  const std::byte* const state = states_ + std::size_t{number} * state_stride_;
  for (const Copy& copy : recurrent_) {
    std::memcpy(batch.columns[copy.field].data[detail::BatchView::kNow] + place * copy.bytes,
                state + copy.offset, copy.bytes);
  }
}

}  // namespace reprise::window
