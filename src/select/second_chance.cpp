#include <reprise/removers/second_chance.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace reprise {
namespace {

/// The clock as a list: the hand is at the old end, and a chunk that it passes goes to the young
/// end.
class Clock final : public ShardRemover {
 public:
  explicit Clock(std::uint32_t chunks) : ends_(chunks), links_(std::size_t{chunks} + 1) {
    links_[ends_] = {ends_, ends_, false};
  }

  /// As sampled: else it would go before older chunks that were, while none could draw from it.
  void enters(std::uint32_t chunk) noexcept override { append(chunk, true); }
  void leaves(std::uint32_t chunk) noexcept override { remove(chunk); }

  [[nodiscard]] std::uint32_t victim() noexcept override {
    std::uint32_t oldest = links_[ends_].newer;
    while (links_[oldest].sampled) {
      remove(oldest);
      append(oldest, false);
      oldest = links_[ends_].newer;
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
    std::uint32_t older;
    std::uint32_t newer;
    bool sampled;  ///< True if the chunk was filled or sampled since the hand last passed it.
  };

  void append(std::uint32_t chunk, bool sampled) noexcept {
    const std::uint32_t youngest = links_[ends_].older;
    links_[chunk] = {youngest, ends_, sampled};
    links_[youngest].newer = chunk;
    links_[ends_].older = chunk;
  }
  void remove(std::uint32_t chunk) noexcept {
    links_[links_[chunk].older].newer = links_[chunk].newer;
    links_[links_[chunk].newer].older = links_[chunk].older;
  }

  const std::uint32_t ends_;  ///< The place of both ends of the list; never sampled.
  std::vector<Link> links_;   ///< By chunk.
};

}  // namespace

std::unique_ptr<ShardRemover> SecondChance::make_shard_remover(const ShardChunks& chunks) const {
  return std::make_unique<Clock>(chunks.chunks());
}

}  // namespace reprise
