#pragma once

#include <reprise/detail/field_access.hpp>
#include <reprise/schema.hpp>

#include "storage/stream_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

namespace reprise::storage {

/// The header of an item, at the start of the row of its first step. The writer writes it when the
/// item is decided, before the row is published, and nobody changes it until the chunk is used
/// again. Windows that merely contain the row do not read the header, so a later decision changes
/// nothing that they read (I1). The header is read through the item's key. `items/hindsight` also
/// reads it in any published row, where a header of an earlier use of the chunk may lie, and can
/// tell, because no two steps are decided with one episode and position.
///
/// The length is the number of rows behind the first that the item's window reads: as many as the
/// window has steps, and in a stream also the final rows between them (`StreamRows`).
struct ItemHeader {
  std::uint64_t episode = 0;
  std::uint64_t packed = 0;  ///< position : 40, length : 16, terminated : 8

  static constexpr std::uint64_t kMaxPosition = (std::uint64_t{1} << 40U) - 1;

  static ItemHeader make(std::uint64_t episode, std::uint64_t position, std::uint32_t length,
                         bool terminated = false) noexcept {
    return {episode, position << 24U | std::uint64_t{length} << 8U | (terminated ? 1U : 0U)};
  }
  [[nodiscard]] std::uint64_t position() const noexcept { return packed >> 24U; }
  [[nodiscard]] std::uint32_t length() const noexcept { return (packed >> 8U) & 0xffffU; }
  [[nodiscard]] bool terminated() const noexcept { return (packed & 0xffU) != 0; }
  /// The header of the same item with a window of at most `steps` steps.
  [[nodiscard]] ItemHeader within(std::uint32_t steps) const noexcept {
    return steps < length() ? make(episode, position(), steps) : *this;
  }
};
static_assert(sizeof(ItemHeader) == 16 && std::is_trivially_copyable_v<ItemHeader>);

/// The number of an item's recurrent state. States are numbered as rows are: those of chunk c begin
/// with number c * (rows of a chunk). If the schema has recurrent states, the number follows the
/// header in each row, and is written and read together with the header.
using StateNumber = std::uint32_t;
inline constexpr std::size_t kStateNumberOffset = sizeof(ItemHeader);

/// A field that is compressed.
struct CompressedField {
  std::size_t field;   ///< Its number in the schema.
  std::size_t offset;  ///< Offset in a row.
  std::size_t bytes;   ///< Before compression.
  std::size_t key;     ///< Offset of its key frame in a chunk's frame room.
};

/// A mutable column.
struct MutableField {
  std::size_t field;   ///< Its number in the schema.
  std::size_t offset;  ///< Offset in a row.
  std::size_t bytes;   ///< Bytes of a value, without the rest of its last word.
};

/// Offsets of all fields in a row (header, observations, then the per-step columns, each aligned
/// for its type, and last the mutable ones, in words) and in an item's recurrent state. Rows in the
/// hands of a writer have every field as it is; rows in a chunk have a `FrameRef` in the place of
/// each field that is compressed. The observations come first because a writer may fill in a row's
/// columns while samplers read its observation as the `next` of another step. Rows of streams have
/// a `StreamRow` before the columns.
class RowLayout {
 public:
  /// Whether frames of compressed fields are in the rows, or a `FrameRef` in the place of each.
  enum class Frames { InRows, ByRef };
  /// `streams`: rows have a `StreamRow`, for windows that go on across ends of episodes.
  explicit RowLayout(const Schema& schema, Frames frames = Frames::InRows, bool streams = false);

  [[nodiscard]] const std::vector<detail::FieldAccess>& fields() const noexcept { return fields_; }
  /// The compressed fields, in the order of their frames in a chunk.
  [[nodiscard]] const std::vector<CompressedField>& compressed() const noexcept {
    return compressed_;
  }
  /// The mutable columns, which follow everything else in a row.
  [[nodiscard]] const std::vector<MutableField>& mutable_fields() const noexcept {
    return mutable_;
  }
  [[nodiscard]] std::size_t mutable_begin() const noexcept { return mutable_begin_; }
  /// Bytes of all compressed fields of a row, before compression.
  [[nodiscard]] std::size_t frame_bytes() const noexcept {
    return compressed_.empty() ? 0 : compressed_.back().key + compressed_.back().bytes;
  }
  /// Bytes from one row to the next; rows of large observations begin on a cache line.
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
  /// The offset in a row at which the headers end and the observations begin, and the offset at
  /// which the observations end.
  [[nodiscard]] std::size_t headers_end() const noexcept {
    return state_mask_ == 0 ? sizeof(ItemHeader) : kStateNumberOffset + sizeof(StateNumber);
  }
  [[nodiscard]] std::size_t observations_end() const noexcept { return observations_end_; }
  [[nodiscard]] const StreamRows& stream_rows() const noexcept { return stream_rows_; }
  /// Bytes from one recurrent state, all its fields together, to the next; 0 without any.
  [[nodiscard]] std::size_t state_stride() const noexcept { return state_stride_; }
  /// Bit i: field i is an observation.
  [[nodiscard]] std::uint64_t observation_mask() const noexcept { return observation_mask_; }
  /// Bit i: field i is a recurrent state.
  [[nodiscard]] std::uint64_t state_mask() const noexcept { return state_mask_; }
  /// Bit i: field i has to be written. Only the version of the policy has not, because commits fill
  /// it in.
  [[nodiscard]] std::uint64_t field_mask() const noexcept { return field_mask_; }
  /// The number of the field with the version of the policy, if there is one.
  [[nodiscard]] std::optional<std::size_t> version_field() const noexcept { return version_field_; }
  /// The number of the discount field, if there is one.
  [[nodiscard]] std::optional<std::size_t> discount_field() const noexcept {
    return discount_field_;
  }

 private:
  std::vector<detail::FieldAccess> fields_;
  std::vector<CompressedField> compressed_;
  std::vector<MutableField> mutable_;
  std::size_t mutable_begin_ = 0;
  std::size_t stride_ = 0;
  std::size_t observations_end_ = 0;
  std::size_t state_stride_ = 0;
  std::uint64_t observation_mask_ = 0;
  std::uint64_t state_mask_ = 0;
  std::uint64_t field_mask_ = 0;
  std::optional<std::size_t> discount_field_;
  std::optional<std::size_t> version_field_;
  StreamRows stream_rows_;
};

}  // namespace reprise::storage
