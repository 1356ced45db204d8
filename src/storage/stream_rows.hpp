#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::storage {

/// What a row of a stream is, in a byte after its observations: a step with the `End` of its
/// commit, or the final observation of the episode of the step before it.
///
/// The byte never changes once a decided window reads it (I1): that of a step is written by its
/// commit, that of a final row before the next episode has a step. So a window reads the bytes of
/// its own steps and of the rows between them, and not that of the row after its last step, which
/// becomes a final one if its writer begins another episode there.
enum class StreamRow : std::uint8_t { Continue, Terminated, Truncated, Final };

/// Reads and writes the `StreamRow` of rows.
class StreamRows {
 public:
  /// For rows that have no `StreamRow`, because windows end with their episode.
  StreamRows() = default;
  StreamRows(std::size_t offset, std::size_t stride) noexcept : offset_(offset), stride_(stride) {}

  [[nodiscard]] bool on() const noexcept { return offset_ != 0; }
  [[nodiscard]] StreamRow of(const std::byte* row) const noexcept {
    StreamRow kind{};
    std::memcpy(&kind, row + offset_, sizeof(kind));
    return kind;
  }
  void put(std::byte* row, StreamRow kind) const noexcept {
    std::memcpy(row + offset_, &kind, sizeof(kind));
  }
  /// How many rows after a step's row the row of its window's next step is.
  [[nodiscard]] std::uint32_t to_next(const std::byte* row) const noexcept {
    return on() && of(row + stride_) == StreamRow::Final ? 2 : 1;
  }

 private:
  std::size_t offset_ = 0;
  std::size_t stride_ = 0;
};

}  // namespace reprise::storage
