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
      mutable_(layout.mutable_fields()),
      store_(store),
      states_(store.state(0)),
      state_stride_(layout.state_stride()),
      stride_(layout.stride()),
      ahead_(window.ahead()),
      behind_(window.behind()),
      n_step_(window.n_step()),
      discount_(window.discount()),
      has_steps_(window.has_steps()),
      zeros_before_(window.zeros_before()) {
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
      item_bytes_ += n_step_ == 0 ? 0 : window.targets() * sizeof(float);
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
      packed(field, row, header, batch, place);
    }
    for (const Copy& copy : columns_) {
      copy_bytes(batch.columns[copy.field].data[detail::BatchView::kNow] + place * copy.bytes,
                 row + copy.offset, copy.bytes);
    }
    if (!mutable_.empty()) {
      mutable_steps(row, 1, 1, batch, place);
    }
    target(row, length, header.terminated(), batch, place);
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

/// The frames of all stacks, each once: those up to and including `row`, then those of the steps
/// after it. Beyond a shorter window its last frame is repeated; beyond a shorter sequence there
/// are zeros.
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
  const std::uint32_t last = has_steps_ ? header.length() : ahead_;
  for (std::uint32_t k = 0; k <= last; ++k) {
    put(from + std::min(k, header.length()) * stride_);
  }
  if (last < ahead_) {
    std::memset(to, 0, (ahead_ - last) * copy.bytes);
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

/// Writes the frames of steps [-behind_, last] where `places_of` says. Steps that the window lacks
/// have zeros or its first frame before the episode, and its last frame beyond its end.
template <class PlacesOf>
void Gather::unpack(const storage::CompressedField& field, const Frames& frames, std::int64_t last,
                    bool streamed, const PlacesOf& places_of) const noexcept {
  const std::span<const std::byte> room = store_.frame_room(frames.row);
  storage::FrameDecoder decoder;
  for (std::int64_t k = -std::int64_t{behind_}; k <= last; ++k) {
    const std::int64_t step = std::clamp(k, -frames.back, frames.length);
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
    std::memcpy(&ref, frames.row + step * static_cast<std::int64_t>(stride_) + field.offset,
                sizeof(ref));
    const bool is_there = k >= step || !zeros_before_;
    if (!is_there || !decoder.read(room, ref, field.key, field.bytes, write)) {
      each_place([&](std::byte* place) { std::memset(place, 0, field.bytes); });
    }
  }
  if (streamed) {
    end_stream();
  }
}

/// The stacks of a window, or their frames once.
void Gather::packed(const storage::CompressedField& field, const std::byte* row,
                    const storage::ItemHeader& header, const detail::BatchView& batch,
                    std::size_t place) const noexcept {
  const auto back = static_cast<std::int64_t>(std::min<std::uint64_t>(header.position(), behind_));
  const Frames frames{row, back, header.length()};
  batch.unique_frames ? packed_once(field, frames, batch, place)
                      : packed_stacks(field, frames, batch, place);
}

/// The stacks of a window.
void Gather::packed_stacks(const storage::CompressedField& field, const Frames& frames,
                           const detail::BatchView& batch, std::size_t place) const noexcept {
  const detail::BatchView::Column& column = batch.columns[field.field];
  const auto behind = static_cast<std::int64_t>(behind_);
  const std::size_t stack = (std::size_t{behind_} + 1) * field.bytes;
  const std::size_t item = batch.steps * stack;
  const std::int64_t steps = has_steps_ ? frames.length : 1;
  // Frame k is the last one of the stack of step k, the one before it in that of step k + 1, ...
  const auto places = [&](int which, std::int64_t k) -> Places {
    const std::int64_t first = std::max<std::int64_t>(k, 0);
    const std::int64_t last = std::min(k + behind, steps - 1);
    if (first > last) {
      return {};
    }
    return {column.data[which] + place * item + static_cast<std::size_t>(first) * stack +
                static_cast<std::size_t>(k - first + behind) * field.bytes,
            static_cast<std::size_t>(last - first + 1), stack - field.bytes};
  };
  const std::int64_t ahead = has_steps_ ? 1 : frames.length;
  unpack(field, frames, frames.length, is_streamed(field.bytes, 2 * item, batch),
         [&](std::int64_t k) -> std::array<Places, 2> {
           return {places(detail::BatchView::kNow, k), places(detail::BatchView::kNext, k - ahead)};
         });
  for (const int which : {detail::BatchView::kNow, detail::BatchView::kNext}) {
    const std::size_t used = static_cast<std::size_t>(steps) * stack;
    std::memset(column.data[which] + place * item + used, 0, item - used);
  }
}

/// The frames of a window, each once.
void Gather::packed_once(const storage::CompressedField& field, const Frames& frames,
                         const detail::BatchView& batch, std::size_t place) const noexcept {
  const std::size_t item = batch.frames * field.bytes;
  std::byte* const to = batch.columns[field.field].data[detail::BatchView::kFrames] + place * item;
  const std::int64_t last = has_steps_ ? frames.length : ahead_;
  unpack(field, frames, last, is_streamed(field.bytes, item, batch),
         [&](std::int64_t k) -> std::array<Places, 2> {
           return {Places{to + static_cast<std::size_t>(k + behind_) * field.bytes, 1}, Places{}};
         });
  const std::size_t used = static_cast<std::size_t>(last + behind_ + 1) * field.bytes;
  std::memset(to + used, 0, item - used);
}

/// R = sum over k of (product of the discounts of the steps before k) * reward[t + k], t being the
/// step of `row` and k < length; the product over all these steps is the factor of the value of the
/// observation after them. Accumulated in double.
void Gather::target(const std::byte* row, std::uint32_t length, bool terminated,
                    const detail::BatchView& batch, std::size_t place) const noexcept {
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
  double product = terminated ? 0.0 : 1.0;
  for (std::uint32_t k = 0; k < length; ++k) {
    product *= per_step(k);
  }
  batch.discounts[place] = static_cast<float>(product);
}

/// The target of each step of a sequence, and zeros beyond its last one.
void Gather::targets(const std::byte* row, const storage::ItemHeader& header,
                     const detail::BatchView& batch, std::size_t place) const noexcept {
  const std::uint32_t length = header.length();
  const std::size_t first = place * ahead_;
  for (std::uint32_t t = 0; t < length; ++t) {
    const std::uint32_t steps = std::min(n_step_, length - t);
    target(row + t * stride_, steps, header.terminated() && t + steps == length, batch, first + t);
  }
  const auto clear = [&](void* column) {
    std::fill_n(static_cast<float*>(column) + first + length, ahead_ - length, 0.0F);
  };
  for (const Copy& reward : rewards_) {
    clear(batch.columns[reward.field].data[detail::BatchView::kReturns]);
  }
  clear(batch.discounts);
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
    for (const Copy& copy : observations_) {
      const std::size_t bytes = copy.bytes * ahead_ * (behind_ + 1);
      std::byte* const* const data = batch.columns[copy.field].data;
      if (batch.unique_frames) {
        frames(copy, row, header, batch, place);
      } else if (behind_ == 0) {
        steps(copy, row, length, data[detail::BatchView::kNow] + place * bytes);
        steps(copy, row + stride_, length, data[detail::BatchView::kNext] + place * bytes);
      } else {
        const std::uint64_t position = header.position();
        stacks(copy, row, position, length, data[detail::BatchView::kNow] + place * bytes);
        stacks(copy, row + stride_, position + 1, length,
               data[detail::BatchView::kNext] + place * bytes);
      }
    }
    for (const storage::CompressedField& field : packed_) {
      packed(field, row, header, batch, place);
    }
    for (const Copy& copy : columns_) {
      steps(copy, row, length,
            batch.columns[copy.field].data[detail::BatchView::kNow] + place * ahead_ * copy.bytes);
    }
    if (!mutable_.empty()) {
      mutable_steps(row, length, ahead_, batch, place);
    }
    if (!recurrent_.empty()) {
      recurrent_state(row, batch, place);
    }
    if (n_step_ != 0) {
      targets(row, header, batch, place);
    } else {
      batch.discounts[place] = header.terminated() ? 0.0F : 1.0F;
    }
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

/// As `steps`, with the stack of each step. `position`: that of `row`.
void Gather::stacks(const Copy& copy, const std::byte* row, std::uint64_t position,
                    std::uint32_t length, std::byte* to) const noexcept {
  const std::size_t bytes = (std::size_t{behind_} + 1) * copy.bytes;
  for (std::uint32_t k = 0; k < length; ++k) {
    stack(copy, row + k * stride_, position + k, to + k * bytes);
  }
  std::memset(to + length * bytes, 0, (ahead_ - length) * bytes);
}

/// Copies the mutable columns of `length` rows, each row's as one update left them; zeros for the
/// steps that a window of `steps` has beyond them.
void Gather::mutable_steps(const std::byte* row, std::uint32_t length, std::size_t steps,
                           const detail::BatchView& batch, std::size_t place) const noexcept {
  const auto column = [&](const storage::MutableField& field, std::size_t k) {
    return batch.columns[field.field].data[detail::BatchView::kNow] +
           (place * steps + k) * field.bytes;
  };
  const storage::Version* const versions = store_.version(row);
  for (std::uint32_t k = 0; k < length; ++k) {
    storage::read_whole(versions[k], [&] {
      for (const storage::MutableField& field : mutable_) {
        storage::get_value(row + k * stride_ + field.offset, column(field, k), field.bytes);
      }
    });
  }
  for (const storage::MutableField& field : mutable_) {
    if (length < steps) {
      std::memset(column(field, length), 0, (steps - length) * field.bytes);
    }
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
