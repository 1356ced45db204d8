#pragma once

#include <reprise/reprise.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace reprise::test {

/// Rows that say what they should be, for tests with many threads: each observation carries its
/// actor, episode, position and a hash of the three, and every other column follows from them. How
/// long an episode is and how it ends follow from actor and episode, so that a sampled window can
/// be judged completely without knowing anything about the threads that wrote it.
class Truth {
 public:
  using Stamp = std::array<std::uint64_t, 4>;  ///< Actor, episode, position, hash.

  /// How an episode ends. The last two leave it open: begin_episode or ~Writer must truncate it.
  enum class Ending : std::uint8_t { Terminated, Truncated, BegunWithin, WriterDestroyed };

  /// n-step 3 with a discount of 0.5 and rewards that are small integers: returns are exact.
  static constexpr Transitions kWindow{.n_step = 3, .discount = 0.5F, .frame_stack = 2};

  Truth();

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] static std::uint64_t length(std::uint64_t actor, std::uint64_t episode);
  [[nodiscard]] static Ending ending(std::uint64_t actor, std::uint64_t episode);

  /// Writes one whole episode; false if the buffer was closed. The caller destroys the writer if
  /// the episode ends so.
  bool write_episode(Writer& writer, std::uint64_t actor, std::uint64_t episode) const;

  /// In words, the first thing wrong with the batch; empty if all of it is true.
  [[nodiscard]] std::string first_lie(const Batch& batch) const;

 private:
  [[nodiscard]] static Stamp stamp(std::uint64_t actor, std::uint64_t episode,
                                   std::uint64_t position);
  [[nodiscard]] static float reward(std::uint64_t hash) { return static_cast<float>(hash % 8); }
  [[nodiscard]] std::string lie(const Batch& batch, std::size_t item) const;

  Schema schema_;
  Observation<std::uint64_t> stamp_;
  Column<std::uint64_t> echo_;  ///< The stamp again, seven times over: a row of some size.
  Reward reward_;
};

}  // namespace reprise::test
