#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::storage {

/// What a row of a stream is, in a byte after its observations: a step with the `End` of its
/// commit, or the final observation of the episode of the step before it.
///
/// The byte never changes once the window of a decided item reads it (I1). A commit writes the byte
/// of its step, and the byte of a final row is written before the next episode has a step. So a
/// window reads the bytes of its steps and of the rows between them. It does not read that of the
/// row behind its last step, which changes if the writer begins another episode there.
enum class StreamRow : std::uint8_t { Continue, Terminated, Truncated, Final };

/// Reads and writes the `StreamRow` of rows.
class StreamRows {
 public:
  /// For rows that have no `StreamRow`, because windows end with their episode.
  StreamRows() = default;
  StreamRows(std::size_t offset, std::size_t stride) noexcept : offset_(offset), stride_(stride) {}

  /// Whether rows have a `StreamRow`.
  [[nodiscard]] bool present() const noexcept { return offset_ != 0; }
  [[nodiscard]] StreamRow of(const std::byte* row) const noexcept {
    StreamRow kind{};
    std::memcpy(&kind, row + offset_, sizeof(kind));
    return kind;
  }
  void put(std::byte* row, StreamRow kind) const noexcept {
    std::memcpy(row + offset_, &kind, sizeof(kind));
  }
  /// How many rows further the next step of a window is: 2 if a final row lies between.
  [[nodiscard]] std::uint32_t to_next(const std::byte* row) const noexcept {
    return present() && of(row + stride_) == StreamRow::Final ? 2 : 1;
  }

 private:
  std::size_t offset_ = 0;
  std::size_t stride_ = 0;
};

}  // namespace reprise::storage
