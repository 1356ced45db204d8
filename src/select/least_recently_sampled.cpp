#include <reprise/removers/least_recently_sampled.hpp>

#include "select/candidates.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace reprise {
namespace {

class ByLastSample final : public ShardRemover {
 public:
  ByLastSample(std::uint32_t compared, std::uint32_t chunks)
      : candidates_("LeastRecentlySampled", compared, chunks), last_(chunks) {}

  void enters(std::uint32_t chunk) noexcept override {
    candidates_.enter(chunk);
    last_[chunk] = batches_;
  }
  void leaves(std::uint32_t chunk) noexcept override { candidates_.leave(chunk); }

  [[nodiscard]] std::uint32_t victim() noexcept override {
    // The conversion is exact below 2^53, which no count of batches reaches.
    return candidates_.least(
        [this](std::uint32_t chunk) { return static_cast<double>(last_[chunk]); });
  }

  [[nodiscard]] bool wants_samples() const noexcept override { return true; }
  void sampled(std::span<const std::uint32_t> chunks) noexcept override {
    ++batches_;
    for (const std::uint32_t chunk : chunks) {
      last_[chunk] = batches_;
    }
  }

 private:
  select::Candidates candidates_;
  std::uint64_t batches_ = 0;
  /// By chunk: the batch that last drew from it, or the last batch before it entered.
  std::vector<std::uint64_t> last_;
};

}  // namespace

std::unique_ptr<ShardRemover> LeastRecentlySampled::make_shard_remover(
    const ShardChunks& chunks) const {
  return std::make_unique<ByLastSample>(candidates, chunks.chunks());
}

}  // namespace reprise
