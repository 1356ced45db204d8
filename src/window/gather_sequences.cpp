#include "window/gather.hpp"

#include <algorithm>
#include <cstring>

namespace reprise::window {
namespace {

/// Bytes of windows prefetched ahead of the one being copied, which is also the most of one window:
/// a processor follows longer ones by itself.
constexpr std::size_t kAheadBytes = 8192;
constexpr std::size_t kPrefetchBytes = 1024;

/// Copies elements of kBytes, or of `bytes` if kBytes is 0: with a constant a copy is no call.
template <std::size_t kBytes>
void copy_steps(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t stride,
                std::uint32_t count) noexcept {
  const std::size_t size = kBytes == 0 ? bytes : kBytes;
  for (std::uint32_t k = 0; k < count; ++k) {
    std::memcpy(to + k * size, from + k * stride, size);
  }
}

}  // namespace

void Gather::sequences(std::span<const std::byte* const> rows, const detail::BatchView& batch,
                       std::size_t offset) const noexcept {
  const std::size_t window_bytes = (std::size_t{ahead_} + 1) * stride_;
  const std::size_t fetched = std::min(window_bytes, kPrefetchBytes);
  const std::size_t distance = std::clamp<std::size_t>(kAheadBytes / fetched, 1, 16);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + distance < rows.size()) {
      // At the end of an episode these lines may belong to another window; a prefetch cannot fault.
      const std::byte* const from = rows[i + distance];
      for (std::size_t at = 0; at < fetched; at += 64) {
        __builtin_prefetch(from + at);
      }
    }
    const std::byte* const row = rows[i];
    const std::size_t place = offset + i;
    storage::ItemHeader header;
    std::memcpy(&header, row, sizeof(header));
    const std::uint32_t length = header.length();
    const auto column = [&](const Copy& copy, int which) {
      return batch.columns[copy.field].data[which] + place * ahead_ * copy.bytes;
    };
    for (const Copy& copy : observations_) {
      steps(copy, row, length, column(copy, detail::BatchView::kNow));
      steps(copy, row + stride_, length, column(copy, detail::BatchView::kNext));
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

/// Copies one field of `length` rows, and fills the steps that a whole window has beyond them.
void Gather::steps(const Copy& copy, const std::byte* row, std::uint32_t length,
                   std::byte* to) const noexcept {
  const std::byte* const from = row + copy.offset;
  switch (copy.bytes) {
    case 1:
      copy_steps<1>(to, from, 1, stride_, length);
      break;
    case 4:
      copy_steps<4>(to, from, 4, stride_, length);
      break;
    case 8:
      copy_steps<8>(to, from, 8, stride_, length);
      break;
    case 16:
      copy_steps<16>(to, from, 16, stride_, length);
      break;
    case 32:
      copy_steps<32>(to, from, 32, stride_, length);
      break;
    default:
      copy_steps<0>(to, from, copy.bytes, stride_, length);
  }
  if (zeros_beyond_ && length < ahead_) {
    std::memset(to + length * copy.bytes, 0, (ahead_ - length) * copy.bytes);
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
