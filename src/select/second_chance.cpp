#include <reprise/removers/second_chance.hpp>

#include "base/describe.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace reprise {
namespace {

/// The clock as a list: the hand is at the old end, and a chunk that it passes moves to the young
/// end.
class Clock final : public ShardRemover {
 public:
  explicit Clock(std::uint32_t chunks) : sentinel_(chunks), links_(std::size_t{chunks} + 1) {
    links_[sentinel_] = {.older = sentinel_, .newer = sentinel_};
  }

  void enters(std::uint32_t chunk) noexcept override {
    ++size_;
    links_[chunk].filled = ++filled_;
    append(chunk);
  }
  void leaves(std::uint32_t chunk) noexcept override {
    --size_;
    remove(chunk);
  }

  /// The loop ends, because the first round clears all marks of being sampled, and the chunk that
  /// was filled first is never young.
  [[nodiscard]] std::uint32_t victim() noexcept override {
    std::uint32_t oldest = links_[sentinel_].newer;
    while (links_[oldest].sampled || young(oldest)) {
      remove(oldest);
      append(oldest);
      oldest = links_[sentinel_].newer;
    }
    return oldest;
  }

  [[nodiscard]] bool wants_samples() const noexcept override { return true; }
  void sampled(std::span<const std::uint32_t> chunks) noexcept override {
    for (const std::uint32_t chunk : chunks) {
      links_[chunk].sampled = true;
    }
  }

 private:
  struct Link {
    std::uint32_t older = 0;
    std::uint32_t newer = 0;
    bool sampled = false;      ///< True if the chunk was sampled since it was appended.
    std::uint64_t filled = 0;  ///< `filled_` when the chunk entered.
  };

  /// Whether fewer chunks were filled after this one than half of the list has. Then the hand comes
  /// to this chunk too early, because it passed chunks that were sampled, and samplers had little
  /// time to draw from this one.
  [[nodiscard]] bool young(std::uint32_t chunk) const noexcept {
    return filled_ - links_[chunk].filled < size_ / 2;
  }

  void append(std::uint32_t chunk) noexcept {
    const std::uint32_t youngest = links_[sentinel_].older;
    links_[chunk].older = youngest;
    links_[chunk].newer = sentinel_;
    links_[chunk].sampled = false;
    links_[youngest].newer = chunk;
    links_[sentinel_].older = chunk;
  }
  void remove(std::uint32_t chunk) noexcept {
    links_[links_[chunk].older].newer = links_[chunk].newer;
    links_[links_[chunk].newer].older = links_[chunk].older;
  }

  const std::uint32_t sentinel_;  ///< Index of the link between both ends of the list; no chunk.
  std::vector<Link> links_;       ///< By chunk.
  std::uint32_t size_ = 0;        ///< Chunks that may be evicted.
  std::uint64_t filled_ = 0;      ///< Chunks that ever entered.
};

}  // namespace

std::unique_ptr<ShardRemover> SecondChance::make_shard_remover(const ShardChunks& chunks) const {
  return std::make_unique<Clock>(chunks.chunks());
}

StrategyKind<Remover> SecondChance::remover_kind() {
  return base::describe<Remover, SecondChance>(
      "SecondChance",
      R"(Evicts chunks in the order in which they were filled, sparing once those that were sampled
since, and those of which the turn comes early (the clock algorithm).)");
}

}  // namespace reprise
