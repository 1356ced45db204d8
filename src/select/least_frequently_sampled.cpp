#include <reprise/removers/least_frequently_sampled.hpp>

#include "select/candidates.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace reprise {
namespace {

class ByDraws final : public ShardRemover {
 public:
  ByDraws(std::uint32_t compared, const ShardChunks& chunks)
      : candidates_("LeastFrequentlySampled", compared, chunks.chunks()),
        chunks_(chunks),
        counts_(chunks.chunks()) {}

  void enters(std::uint32_t chunk) noexcept override {
    candidates_.enter(chunk);
    const std::uint32_t steps = chunks_.steps(chunk);
    counts_[chunk] = {steps, steps};
    steps_ += steps;
  }
  void leaves(std::uint32_t chunk) noexcept override {
    candidates_.leave(chunk);
    steps_ -= counts_[chunk].steps;
  }

  [[nodiscard]] std::uint32_t victim() noexcept override {
    return candidates_.least([this](std::uint32_t chunk) {
      return static_cast<double>(counts_[chunk].draws) / counts_[chunk].steps;
    });
  }

  [[nodiscard]] bool wants_samples() const noexcept override { return true; }
  void sampled(std::span<const std::uint32_t> chunks) noexcept override {
    for (const std::uint32_t chunk : chunks) {
      ++counts_[chunk].draws;
    }
    since_halving_ += chunks.size();
    if (since_halving_ >= steps_) {
      halve();
    }
  }

 private:
  struct Count {
    std::uint64_t draws = 0;
    std::uint32_t steps = 0;  ///< Steps when the chunk entered.
  };

  /// O(chunks), amortised over at least as many draws as there are chunks, because each chunk has a
  /// step.
  void halve() noexcept {
    since_halving_ = 0;
    for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
      counts_[candidates_[i]].draws /= 2;
    }
  }

  select::Candidates candidates_;
  const ShardChunks& chunks_;
  std::vector<Count> counts_;  ///< By chunk.
  std::uint64_t steps_ = 0;    ///< Sum of `Count::steps` over the chunks that have entered.
  std::uint64_t since_halving_ = 0;
};

}  // namespace

std::unique_ptr<ShardRemover> LeastFrequentlySampled::make_shard_remover(
    const ShardChunks& chunks) const {
  return std::make_unique<ByDraws>(candidates, chunks);
}

}  // namespace reprise
