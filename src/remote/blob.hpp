#pragma once

#include <reprise/remote.hpp>

#include "base/text.hpp"
#include "record/bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace reprise::remote {

using record::Bytes;

// As wide as the number in a blob, where any number may be read.
enum class BlobKind : std::uint32_t {  // NOLINT(performance-enum-size)
  Shipment = 1,
  Request = 2,
  Answer = 3,
  Shipments = 4,  ///< Shipments of many writers of one process.
  Outcomes = 5,   ///< The answer to `Shipments`.
  Refused = 6,    ///< An answer: the call is for another incarnation, or came too late.
  Closed = 7,     ///< An answer: the buffer is closed.
};

/// The first bytes of every blob, as they lie in memory.
struct BlobHeader {
  static constexpr std::uint64_t kMagic = 0x0a1a0a0d52505289;  ///< The same as in checkpoint files.
  static constexpr std::uint32_t kVersion = 2;

  std::uint64_t checksum = 0;  ///< XXH3-64 of all bytes after this field.
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  BlobKind kind = BlobKind::Shipment;
  std::uint64_t fingerprint = 0;  ///< A hash of schema and window.
  std::uint64_t bytes = 0;        ///< The size of the whole blob.
  /// The id of the writer, client or process; in an answer, the shard's incarnation.
  std::uint64_t origin = 0;
  /// The number of the shipment or of the request; in `Outcomes`, how many outcomes there are.
  std::uint64_t number = 0;
  std::uint64_t steps = 0;  ///< Steps in a shipment; in an answer, those committed in the shard.
};
static_assert(sizeof(BlobHeader) == 64 && std::is_trivially_copyable_v<BlobHeader>);

/// A hash of schema and window. Two processes can read each other's blobs if both have the same.
[[nodiscard]] std::uint64_t fingerprint(const Schema& schema, const Window& window);

/// Writes the header, its size and its checksum into a blob whose other bytes are complete.
void seal(Blob& blob, BlobHeader header) noexcept;

/// Checks a whole blob of any kind, and returns its header. Error messages begin with `name`.
[[nodiscard]] BlobHeader open_any(Bytes blob, const char* name);
/// Checks a whole blob of this kind, of any schema, and returns its header. Throws
/// `std::invalid_argument` for any other bytes.
[[nodiscard]] BlobHeader open(Bytes blob, BlobKind kind);
/// As `open`, for this schema and window.
[[nodiscard]] BlobHeader open(Bytes blob, BlobKind kind, std::uint64_t fingerprint);

/// Writes values one after the other into a blob, after its header. The blob must be large enough.
class BlobWriter {
 public:
  explicit BlobWriter(Blob& blob) noexcept : at_(blob.bytes().data() + sizeof(BlobHeader)) {}

  template <class T>
  void value(const T& value) noexcept {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  void bytes(Bytes bytes) noexcept {
    if (!bytes.empty()) {
      std::memcpy(at_, bytes.data(), bytes.size());
      at_ += bytes.size();
    }
  }

 private:
  std::byte* at_;
};

/// Reads values, which need not be aligned. Throws `std::invalid_argument` beyond the end.
class BlobReader {
 public:
  BlobReader(Bytes blob, const char* what) noexcept
      : blob_(blob), at_(sizeof(BlobHeader)), what_(what) {}

  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T value() {
    T value{};
    std::memcpy(&value, bytes(1, sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// Returns the next `count` elements of `each` bytes.
  [[nodiscard]] Bytes bytes(std::uint64_t count, std::size_t each = 1) {
    const std::size_t left = blob_.size() - at_;
    require(each == 0 || count <= left / each, count, " elements of ", each,
            " bytes should follow; there are ", left, " bytes");
    const Bytes result = blob_.subspan(at_, static_cast<std::size_t>(count) * each);
    at_ += result.size();
    return result;
  }
  void finish() const {
    require(at_ == blob_.size(), blob_.size() - at_, " bytes that nothing explains");
  }
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (!ok) {
      base::refuse(what_, ": at byte ", at_, ": ", parts...);
    }
  }

 private:
  Bytes blob_;
  std::size_t at_;
  const char* what_;
};

}  // namespace reprise::remote
