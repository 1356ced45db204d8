#pragma once

#include <reprise/batch_source.hpp>
#include <reprise/options.hpp>
#include <reprise/schema.hpp>

#include "base/text.hpp"
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

// What the messages of a connection hold. Both ends are of one version, so values are sent as they
// lie in memory.

namespace reprise::process {

/// What a connection is for.
enum class Purpose : std::uint32_t {  // NOLINT(performance-enum-size): as it is sent.
  Calls,
  Writer,
  Sampler,
  Service,
};

/// With what the first message of either side begins, in every version.
struct Greeting {
  std::array<char, 8> magic{'r', 'e', 'p', 'r', 'i', 's', 'e', '\x1a'};
  std::array<char, 24> version = this_version();

  [[nodiscard]] static std::array<char, 24> this_version() noexcept;
  /// The version as text, whatever the other process has sent.
  [[nodiscard]] std::string text() const;
};

/// The first message of a guest.
struct Hello {
  Greeting greeting = {};
  Purpose purpose = Purpose::Calls;
  std::uint32_t unique_frames = 0;  ///< Of a sampler, as the next ones.
  std::uint64_t seed = 0;
  std::uint64_t selector = 0;
  std::uint64_t environments = 0;  ///< Of a writer.
  float fresh = 0.0F;
  std::uint32_t unused = 0;
};

/// The answer to it, in front of the description of the buffer.
struct Welcome {
  Greeting greeting = {};
  std::uint64_t ring_rows = 0;  ///< Of a writer, whose memory comes with the message.
};

/// Asks for a batch.
struct SampleCall {
  std::uint64_t number = 0;  ///< Of the call, by which its answer is known.
  std::uint64_t items = 0;
  std::int64_t timeout_ns = 0;
  std::uint64_t memory_bytes = 0;  ///< Of the memory for batches that the guest has.
  float beta = 0.0F;
  Normalise normalise = Normalise::ByBatch;
  Draws draws = Draws::Stratified;
  std::uint8_t gather = 1;
  std::uint8_t only_checks = 0;  ///< 1: nothing is drawn.
};

/// The answer to it. The memory of the batch comes with it, unless the guest has that.
struct SampleAnswer {
  std::uint64_t number = 0;
  std::uint64_t memory_bytes = 0;  ///< Of the memory that comes; else 0.
  SampleStatus status;
};

/// Asks for an update; behind it lie the keys and the priorities.
struct UpdateCall {
  std::uint64_t number = 0;
  std::uint64_t selector = 0;
  std::uint64_t keys = 0;
};
struct UpdateAnswer {
  std::uint64_t number = 0;
  UpdateResult result;
};

/// Calls the service; behind it lie the bytes of the call.
struct ServiceCall {
  std::uint64_t number = 0;
  std::uint64_t read = 0;  ///< Places of answers that the guest has read, a bit each.
};
/// The answer to it: in the memory of a place, or behind this.
struct ServiceAnswer {
  static constexpr std::uint64_t kPlaces = 64;
  static constexpr std::uint64_t kBehind = kPlaces;

  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = kBehind;
  std::uint64_t memory_bytes = 0;  ///< Of the place's memory, if that comes with the message.
};

/// A request threw: behind it lie the parts of what it says, as in `Refusal`.
struct Failure {
  enum class Is : std::uint64_t { Invalid, Logic, Memory, Other };
  std::uint64_t number = 0;
  Is is = Is::Other;
};

template <class T>
[[nodiscard]] Bytes bytes_of(const T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

/// The value with which a message begins; nothing if it is shorter.
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
/// A value, and bytes behind it.
template <class T>
[[nodiscard]] std::vector<std::byte> joined(const T& value, Bytes behind) {
  return joined(bytes_of(value), behind);
}

/// What a request of this number has thrown, for `rethrow` in the other process.
[[nodiscard]] std::vector<std::byte> failure_of(std::uint64_t number, const std::exception& error);
/// Throws it: with the same parts it says the same there, in the words of every language.
[[noreturn]] void rethrow(Bytes failure);

/// What a guest has to know of a buffer. A selector of the user's own is described by one of the
/// library that asks for priorities as it does.
struct Description {
  Schema schema;
  Options options;
};
[[nodiscard]] std::vector<std::byte> described(const Schema& schema, const Options& options);
/// `std::runtime_error` for bytes that describe no buffer.
[[nodiscard]] Description description_of(Bytes bytes);

[[nodiscard]] std::vector<std::byte> bytes_of(const Stats& stats);
/// `std::runtime_error` for bytes that are none.
[[nodiscard]] Stats stats_of(Bytes bytes);

}  // namespace reprise::process
