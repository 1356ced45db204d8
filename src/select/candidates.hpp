#pragma once

#include "base/random.hpp"
#include "base/text.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace reprise::select {

/// The chunks of a shard that may be evicted. A few picked at random are compared, so that no
/// sorted list has to be kept (Psounis and Prabhakar, 2001). The seed is fixed, so that equal calls
/// give equal picks (I8).
///
/// Externally synchronised. Nothing allocates after construction; `enter` and `leave` are O(1).
class Candidates {
 public:
  /// `compared` is `<strategy>::candidates`; throws std::invalid_argument if it is out of range.
  Candidates(const char* strategy, std::uint32_t compared, std::uint32_t chunks)
      : compared_(checked(strategy, compared)), members_(chunks), entries_(chunks) {}

  void enter(std::uint32_t chunk) noexcept {
    Entry& entry = entries_[chunk];
    entry.place = size_;
    entry.entered = ++entered_;
    members_[size_++] = chunk;
  }

  void leave(std::uint32_t chunk) noexcept {
    const std::uint32_t last = members_[--size_];
    members_[entries_[chunk].place] = last;
    entries_[last].place = entries_[chunk].place;
  }

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t operator[](std::uint32_t place) const noexcept {
    return members_[place];
  }

  /// The chunk with the lowest score among those compared, or among all if there are no more. Among
  /// equals the chunk that entered first. Needs size() > 0. O(compared).
  template <class Score>
  [[nodiscard]] std::uint32_t least(const Score& score) noexcept {
    std::uint32_t best = members_[0];
    double best_score = std::numeric_limits<double>::infinity();
    const bool all = size_ <= compared_;
    for (std::uint32_t i = 0; i < (all ? size_ : compared_); ++i) {
      const std::uint32_t chunk = members_[all ? i : any()];
      const double value = score(chunk);
      if (i == 0 || value < best_score ||
          (value <= best_score && entries_[chunk].entered < entries_[best].entered)) {
        best = chunk;
        best_score = value;
      }
    }
    return best;
  }

 private:
  static constexpr std::uint32_t kMostCompared = 256;

  static std::uint32_t checked(const char* strategy, std::uint32_t compared) {
    if (compared < 1 || compared > kMostCompared) {
      throw std::invalid_argument(
          base::text(strategy, "::candidates is ", compared, "; allowed: 1 to ", kMostCompared));
    }
    return compared;
  }

  struct Entry {
    std::uint64_t entered = 0;  ///< Rises with each `enter`.
    std::uint32_t place = 0;    ///< In members_.
  };

  std::uint32_t any() noexcept {
    return static_cast<std::uint32_t>((random_.next() >> 32U) * size_ >> 32U);
  }

  const std::uint32_t compared_;
  std::uint32_t size_ = 0;
  std::uint64_t entered_ = 0;
  base::Random random_{0};
  std::vector<std::uint32_t> members_;  ///< Dense up to size_.
  std::vector<Entry> entries_;          ///< By chunk.
};

}  // namespace reprise::select
