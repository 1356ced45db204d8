// Measures how long calls hold the lock of a shard, because that limits the number of actors and
// learners that a buffer serves (docs/performance.md). The shard is one of four of a full buffer of
// 2^20 steps.

#include <reprise/item.hpp>
#include <reprise/selector.hpp>
#include <reprise/selectors/fifo.hpp>

#include "measure.hpp"
#include "select/weight_rule.hpp"
#include "shard/budget.hpp"
#include "shard/shard.hpp"
#include "storage/chunk_store.hpp"
#include "storage/doorbell.hpp"

#include <vector>

namespace {

using namespace reprise;

constexpr std::size_t kItems = (std::size_t{1} << 20U) / 4;
constexpr std::uint32_t kRows = 2048;
/// Number of draws from one shard: a batch is spread over four.
constexpr std::size_t kDraws = bench::kBatch / 4;

class FullShard {
 public:
  explicit FullShard(std::size_t /*size*/)
      : store_(kItems / kRows + 2, kRows, 64),
        shard_(store_, budget_, rules_, Fifo{}, {0, kItems / kRows + 2, kItems}, 0) {
    for (std::size_t i = 0; i < kItems; i += 256) {
      append(256);
      ingest();
    }
    keys_.resize(kDraws);
  }

  /// Publishes steps as a writer does, except that rows stay as they are, and that one ring of the
  /// bell announces all `steps`.
  void append(std::uint32_t steps) {
    if (chunk_ == storage::kNil) {
      chunk_ = shard_.chunks().take_recycled();
      int disk_error = 0;  // Only mapped files set it.
      chunk_ = chunk_ == storage::kNil ? shard_.chunks().take_fresh(disk_error) : chunk_;
      written_ = 0;
    }
    for (const std::uint32_t end = std::min(written_ + steps, kRows); written_ != end; ++written_) {
      store_.priorities(chunk_)[written_] = storage::kInitialPriority;
    }
    storage::publish(store_.chunk(chunk_).bell, written_);
    shard_.ring(chunk_, written_ == kRows ? shard::Ring::Closing : shard::Ring::News);
    if (written_ == kRows) {
      chunk_ = storage::kNil;
    }
  }
  void ingest() {
    const SelectorSummary other_shards;
    const base::MutexLock lock(shard_.mutex);
    shard_.locked().ingest(std::span(&other_shards, 1), 1000);
  }
  void draw() {
    for (std::size_t i = 0; i < kDraws;
         ++i) {  // A random place in each of kDraws equal parts of 1.
      fractions_[i] = (static_cast<double>(i) + random_.uniform()) / kDraws;
    }
    const base::MutexLock lock(shard_.mutex);
    pins_ = shard_.locked()
                .draw(kSelector, fractions_, {keys_, places_, leaves_, pinned_, weights_})
                .pins;
  }
  void unpin() { shard_.unpin(std::span(pinned_).first(pins_)); }
  void update() {
    rules_[kSelector]->weigh(priorities_.next(), weights_);
    const base::MutexLock lock(shard_.mutex);
    benchmark::DoNotOptimize(shard_.locked().update(kSelector, keys_, weights_, leaves_));
  }

 private:
  static constexpr std::size_t kSelector = 0;  ///< The shard's only selector.

  const std::unique_ptr<SelectorRule> rules_[1]{
      Proportional{.alpha = bench::kAlpha, .epsilon = bench::kEpsilon}.make_selector_rule()};
  storage::ChunkStore store_;
  shard::Budget budget_{kItems};
  shard::Shard shard_;
  std::uint32_t chunk_ = storage::kNil;
  std::uint32_t written_ = 0;
  bench::Random random_{10};
  bench::Priorities priorities_{kDraws};
  double fractions_[kDraws] = {};
  std::uint32_t leaves_[kDraws] = {};
  float weights_[kDraws] = {};
  storage::Place places_[kDraws] = {};
  std::uint32_t pinned_[kDraws] = {};
  std::size_t pins_ = 0;
  std::vector<ItemKey> keys_;
};

[[maybe_unused]] const bool added = [] {
  // Ingest and eviction of a run of steps in one chunk. The time includes the writer's work, but
  // for its rows.
  for (const std::uint32_t steps : {1U, 16U, 256U}) {
    bench::add<FullShard>("shard/ingest/" + std::to_string(steps), kItems, steps,
                          [steps](FullShard& shard) {
                            shard.append(steps);
                            shard.ingest();
                          });
  }
  bench::add<FullShard>("shard/draw", kItems, kDraws, [](FullShard& shard) {
    shard.draw();
    shard.unpin();
  });
  bench::add<FullShard>("shard/cycle", kItems, kDraws, [](FullShard& shard) {
    shard.draw();
    shard.unpin();
    shard.update();
  });
  return true;
}();

}  // namespace
