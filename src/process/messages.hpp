#pragma once

#include <reprise/batch_source.hpp>
#include <reprise/options.hpp>
#include <reprise/schema.hpp>

#include "base/text.hpp"
#include "buffer/buffer_core.hpp"
#include "process/channel.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

// The contents of messages. Both processes run the same version, so values are sent as they lie in
// memory.

namespace reprise::process {

/// What a connection is for.
enum class Purpose : std::uint32_t {  // NOLINT(performance-enum-size): as it is sent.
  Calls,
  Writer,
  Sampler,
  Service,
};

/// The first bytes of the first message of either side, in every version.
struct Greeting {
  std::array<char, 8> magic{'r', 'e', 'p', 'r', 'i', 's', 'e', '\x1a'};
  std::array<char, 24> version = this_version();

  [[nodiscard]] static std::array<char, 24> this_version() noexcept;
  /// The version as text. The other process may have sent any bytes.
  [[nodiscard]] std::string text() const;
};

/// The first message of a guest.
struct Hello {
  Greeting greeting = {};
  Purpose purpose = Purpose::Calls;
  std::uint32_t unique_frames = 0;  ///< For a sampler, as are `seed`, `selector` and `fresh`.
  std::uint64_t seed = 0;
  std::uint64_t selector = 0;
  std::uint64_t environments = 0;  ///< For a writer.
  float fresh = 0.0F;
  std::uint32_t unused = 0;
};

/// The answer to `Hello`. A description of the buffer follows it.
struct Welcome {
  Greeting greeting = {};
  std::uint64_t ring_rows = 0;  ///< For a writer: rows of each ring. Their memory comes along.
};

/// Asks for a batch.
struct SampleCall {
  std::uint64_t number = 0;  ///< The number of the call, which its answer repeats.
  std::uint64_t items = 0;
  std::int64_t timeout_ns = 0;
  std::uint64_t memory_bytes = 0;  ///< The size of the guest's memory for batches.
  float beta = 0.0F;
  std::uint32_t n_step = 0;  ///< 0: the batch has no returns.
  float discount = 0.0F;
  Normalise normalise = Normalise::ByBatch;
  Draws draws = Draws::Stratified;
  std::uint8_t gather = 1;
  std::uint8_t only_checks = 0;  ///< If 1, nothing is drawn.
};

/// The answer to a `SampleCall`. The memory of the batch comes with it, unless the guest has it.
struct SampleAnswer {
  std::uint64_t number = 0;
  std::uint64_t memory_bytes = 0;  ///< The size of the memory that comes, or 0.
  SampleStatus status;
};

/// Asks for an update. The keys and the priorities follow it.
struct UpdateCall {
  std::uint64_t number = 0;
  std::uint64_t selector = 0;
  std::uint64_t keys = 0;
};
struct UpdateAnswer {
  std::uint64_t number = 0;
  UpdateResult result;
};

/// Calls the service. The bytes of the call follow it.
struct ServiceCall {
  std::uint64_t number = 0;
  std::uint64_t read = 0;  ///< Bit i is set if the guest has read the answer in place i.
};
/// The answer to a `ServiceCall`. Its bytes are in a place, which is memory that both processes
/// have mapped (`AnswerMemory`), or follow this struct.
struct ServiceAnswer {
  static constexpr std::uint64_t kPlaces = 64;
  static constexpr std::uint64_t kInline = kPlaces;

  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = kInline;  ///< The number of the place; `kInline`: the bytes follow.
  /// The size of the place's memory if that comes with the message; otherwise 0.
  std::uint64_t memory_bytes = 0;
};

/// Reports that a request threw. The parts of the exception's message, as in `Refusal`, follow it.
struct Failure {
  enum class Kind : std::uint64_t { Invalid, Logic, Memory, Other };
  std::uint64_t number = 0;
  Kind kind = Kind::Other;
};

template <class T>
[[nodiscard]] Bytes bytes_of(const T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

/// Returns the value at the start of a message, or nothing if the message is shorter.
template <class T>
[[nodiscard]] std::optional<T> value_of(Bytes message) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if (message.size() < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(static_cast<void*>(&value), message.data(), sizeof(T));
  return value;
}

[[nodiscard]] std::vector<std::byte> joined(Bytes front, Bytes behind);
/// Returns the bytes of a value and, after them, `behind`.
template <class T>
[[nodiscard]] std::vector<std::byte> joined(const T& value, Bytes behind) {
  return joined(bytes_of(value), behind);
}

/// Describes what a request of this number has thrown, for `rethrow` in the other process.
[[nodiscard]] std::vector<std::byte> failure_of(std::uint64_t number, const std::exception& error);
/// Throws what a `Failure` describes, with the same parts, so that every language words it alike.
[[noreturn]] void rethrow(Bytes failure);

/// What a guest has to know of a buffer, with the exponents that selectors have now. A user's own
/// selector is replaced by one of the library that asks commits for priorities in the same way.
struct Description {
  Schema schema;
  Options options;
};
[[nodiscard]] std::vector<std::byte> described(const buffer::BufferCore& core);
/// Throws `std::runtime_error` for bytes that describe no buffer.
[[nodiscard]] Description description_of(Bytes bytes);

[[nodiscard]] std::vector<std::byte> bytes_of(const Stats& stats);
/// Throws `std::runtime_error` for bytes that are no statistics.
[[nodiscard]] Stats stats_of(Bytes bytes);

}  // namespace reprise::process
