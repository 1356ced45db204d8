#include <reprise/removers/least_frequently_sampled.hpp>
#include <reprise/removers/least_recently_sampled.hpp>
#include <reprise/removers/lowest_priority.hpp>

#include "base/describe.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace reprise {
namespace {

/// Evicts the chunk with the lowest score of a few picked at random, so that no sorted list has to
/// be kept (Psounis and Prabhakar, 2001). The seed is fixed, so that equal calls give equal picks
/// (invariant I8).
///
/// Nothing allocates after construction; `enters` and `leaves` are O(1).
class ComparingRemover : public ShardRemover {
 public:
  ComparingRemover(std::uint32_t compared, const ShardChunks& chunks)
      : chunks_(chunks),
        compared_(compared),
        members_(chunks.chunks()),
        entries_(chunks.chunks()) {}

  void enters(std::uint32_t chunk) noexcept override {
    Entry& entry = entries_[chunk];
    entry.place = size_;
    entry.entered = ++entered_;
    members_[size_++] = chunk;
  }

  void leaves(std::uint32_t chunk) noexcept override {
    const std::uint32_t last = members_[--size_];
    members_[entries_[chunk].place] = last;
    entries_[last].place = entries_[chunk].place;
  }

  /// The chunk with the lowest score of `compared_` random chunks, or of all if there are no more.
  /// Of chunks with equal scores it is the one that entered first. O(compared).
  [[nodiscard]] std::uint32_t victim() noexcept final {
    std::uint32_t best = members_[0];
    double best_score = std::numeric_limits<double>::infinity();
    const bool all = size_ <= compared_;
    for (std::uint32_t i = 0; i < (all ? size_ : compared_); ++i) {
      const std::uint32_t chunk = members_[all ? i : random_member()];
      const double value = score(chunk);
      if (i == 0 || value < best_score ||
          (value <= best_score && entries_[chunk].entered < entries_[best].entered)) {
        best = chunk;
        best_score = value;
      }
    }
    return best;
  }

 protected:
  [[nodiscard]] virtual double score(std::uint32_t chunk) const noexcept = 0;
  [[nodiscard]] const ShardChunks& chunks() const noexcept { return chunks_; }

 private:
  struct Entry {
    std::uint64_t entered = 0;  ///< Rises with each `enters`.
    std::uint32_t place = 0;    ///< Index in members_.
  };

  std::uint32_t random_member() noexcept {
    return static_cast<std::uint32_t>((random_.next() >> 32U) * size_ >> 32U);
  }

  const ShardChunks& chunks_;
  const std::uint32_t compared_;
  std::uint32_t size_ = 0;
  std::uint64_t entered_ = 0;
  base::Random random_{0};
  std::vector<std::uint32_t> members_;  ///< The first size_ are the chunks that may be evicted.
  std::vector<Entry> entries_;          ///< By chunk.
};

/// Scores a chunk by the draws of its steps since it was filled, divided by the draws that as many
/// average steps of the shard got in that time. So under even draws the score does not depend on
/// the chunk's age, except that newer steps halve it (`score`).
class ByDraws final : public ComparingRemover {
 public:
  ByDraws(std::uint32_t compared, const ShardChunks& chunks)
      : ComparingRemover(compared, chunks), records_(chunks.chunks()) {}

  void enters(std::uint32_t chunk) noexcept override {
    ComparingRemover::enters(chunk);
    const std::uint32_t steps = chunks().steps(chunk);
    steps_ += steps;
    filled_ += steps;
    records_[chunk] = {.filled_at_entry = filled_, .mean_at_entry = mean_draws_, .steps = steps};
  }
  void leaves(std::uint32_t chunk) noexcept override {
    ComparingRemover::leaves(chunk);
    steps_ -= records_[chunk].steps;
  }

  [[nodiscard]] bool wants_samples() const noexcept override { return true; }
  void sampled(std::span<const std::uint32_t> chunks) noexcept override {
    for (const std::uint32_t chunk : chunks) {
      ++records_[chunk].draws;
    }
    if (!chunks.empty()) {
      mean_draws_ += static_cast<double>(chunks.size()) / static_cast<double>(steps_);
    }
  }

 private:
  struct Record {
    std::uint64_t draws = 0;            ///< Draws since the chunk entered.
    std::uint64_t filled_at_entry = 0;  ///< `filled_` when the chunk entered.
    double mean_at_entry = 0.0;         ///< `mean_draws_` when the chunk entered.
    std::uint32_t steps = 0;            ///< How many steps the chunk had when it entered.
  };
  /// Halvings after which any score is 0.
  static constexpr std::uint64_t kMaxHalvings = 2000;

  /// Both numbers of draws begin with 1 per step, because few draws tell little. The score is
  /// halved each time that as many newer steps were filled as the shard has, and falls linearly in
  /// between: `exp2` need not be the same on all machines (I8).
  [[nodiscard]] double score(std::uint32_t chunk) const noexcept override {
    const Record& record = records_[chunk];
    const auto draws = static_cast<double>(record.draws + record.steps);
    const double expected = record.steps * (mean_draws_ - record.mean_at_entry + 1.0);
    const std::uint64_t newer = filled_ - record.filled_at_entry;
    const double part = static_cast<double>(newer % steps_) / static_cast<double>(steps_);
    const auto halvings = static_cast<int>(std::min(newer / steps_, kMaxHalvings));
    return std::ldexp(draws / expected * (1.0 - part / 2.0), -halvings);
  }

  std::vector<Record> records_;  ///< By chunk.
  std::uint64_t steps_ = 0;      ///< Sum of `Record::steps` over the chunks that have entered.
  std::uint64_t filled_ = 0;     ///< Steps of all chunks that ever entered.
  double mean_draws_ = 0.0;      ///< Draws of an average step, had it been there from the start.
};

/// Scores a chunk by the number of the batch that last drew from it.
class ByLastSample final : public ComparingRemover {
 public:
  ByLastSample(std::uint32_t compared, const ShardChunks& chunks)
      : ComparingRemover(compared, chunks), last_(chunks.chunks()) {}

  void enters(std::uint32_t chunk) noexcept override {
    ComparingRemover::enters(chunk);
    last_[chunk] = batches_;
  }

  [[nodiscard]] bool wants_samples() const noexcept override { return true; }
  void sampled(std::span<const std::uint32_t> chunks) noexcept override {
    ++batches_;
    for (const std::uint32_t chunk : chunks) {
      last_[chunk] = batches_;
    }
  }

 private:
  /// The conversion is exact below 2^53, which no count of batches reaches.
  [[nodiscard]] double score(std::uint32_t chunk) const noexcept override {
    return static_cast<double>(last_[chunk]);
  }

  std::uint64_t batches_ = 0;
  /// For each chunk, the batch that last drew from it, or the last batch before it entered.
  std::vector<std::uint64_t> last_;
};

/// Scores a chunk by the mean weight of its steps in a selector.
class ByWeight final : public ComparingRemover {
 public:
  ByWeight(std::uint32_t compared, std::size_t selector, const ShardChunks& chunks)
      : ComparingRemover(compared, chunks), selector_(selector) {}

 private:
  [[nodiscard]] double score(std::uint32_t chunk) const noexcept override {
    return chunks().weight(chunk, selector_) / chunks().steps(chunk);
  }

  const std::size_t selector_;
};

}  // namespace

std::unique_ptr<ShardRemover> LeastFrequentlySampled::make_shard_remover(
    const ShardChunks& chunks) const {
  remover_kind().check(*this);
  return std::make_unique<ByDraws>(candidates, chunks);
}

StrategyKind<Remover> LeastFrequentlySampled::remover_kind() {
  return base::describe<Remover, LeastFrequentlySampled>(
      "LeastFrequentlySampled",
      R"(Evicts the chunk that is sampled least often, of `candidates` (1 to 256) picked at random:
with the fewest draws per step since it was full (earlier draws do not count), relative to the mean
of its shard in that time. This score is halved with each capacity of newer steps, so nothing stays
for ever.)",
      base::option<&LeastFrequentlySampled::candidates>("candidates", 1, 256));
}

std::unique_ptr<ShardRemover> LeastRecentlySampled::make_shard_remover(
    const ShardChunks& chunks) const {
  remover_kind().check(*this);
  return std::make_unique<ByLastSample>(candidates, chunks);
}

StrategyKind<Remover> LeastRecentlySampled::remover_kind() {
  return base::describe<Remover, LeastRecentlySampled>(
      "LeastRecentlySampled",
      R"(Evicts the chunk that was not sampled for the longest time, of `candidates` (1 to 256) picked
at random.)",
      base::option<&LeastRecentlySampled::candidates>("candidates", 1, 256));
}

std::unique_ptr<ShardRemover> LowestPriority::make_shard_remover(const ShardChunks& chunks) const {
  remover_kind().check(*this);
  base::require(selector < chunks.selectors(), base::StrategyOf{"LowestPriority"}, "selector is ",
                selector, "; allowed: 0 to ", chunks.selectors() - 1, ", its place in selectors");
  return std::make_unique<ByWeight>(candidates, selector, chunks);
}

StrategyKind<Remover> LowestPriority::remover_kind() {
  return base::describe<Remover, LowestPriority>(
      "LowestPriority",
      R"(Evicts the chunk whose steps weigh least on average in a selector, given by its place among
the buffer's selectors, of `candidates` (1 to 256) picked at random.)",
      base::option<&LowestPriority::selector>("selector"),
      base::option<&LowestPriority::candidates>("candidates", 1, 256));
}

}  // namespace reprise
