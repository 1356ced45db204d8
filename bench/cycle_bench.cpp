// W1 through the public API: a learner draws 512 items with their importance weights, then updates
// the priorities of these items. The time includes locks, ingesting what writers have published,
// pins and keys, but the rows are not copied.

#include "measure.hpp"
#include "reprise_items.hpp"
#include "textbook_items.hpp"

#include <array>
#include <mutex>

namespace {

using bench::kBatch;
using bench::RepriseItems;

/// The textbook's trees, guarded by its mutex.
class TextbookLocked {
 public:
  explicit TextbookLocked(std::size_t size) : items_(size) {
    bench::Random random(1);
    for (std::size_t i = 0; i < size; ++i) {
      items_.set(i, static_cast<float>(random.uniform()));
    }
  }

  void draw() {
    const std::lock_guard lock(mutex_);
    items_.draw(random_, drawn_, weights_);
    benchmark::DoNotOptimize(weights_.data());
  }
  void update() {
    const std::lock_guard lock(mutex_);
    items_.update(drawn_, priorities_.next());
  }

 private:
  std::mutex mutex_;
  bench::TextbookItems items_;
  bench::Random random_{2};
  bench::Priorities priorities_;
  std::array<std::uint32_t, kBatch> drawn_{};
  std::array<float, kBatch> weights_{};
};

/// Two buffers with half of the items each. A batch has items of both: kBatch / 2 of each, or, with
/// `by_total`, shares in proportion to the buffers' total weights.
template <bool by_total>
class MixedItems {
 public:
  explicit MixedItems(std::size_t size)
      : first_(half_options(size, 1)),
        second_(half_options(size, 2)),
        sampler_(make_sampler(first_.replay(), second_.replay())) {}

  void draw() {
    batch_ = &*sampler_.sample({.beta = bench::kBeta, .gather = false});
    benchmark::DoNotOptimize(batch_->weights().data());
  }
  void update() {
    benchmark::DoNotOptimize(sampler_.update_priorities(batch_->keys(), priorities_.next()));
  }

 private:
  static reprise::Options half_options(std::size_t size, std::uint16_t tag) {
    return {
        .capacity_steps = size / 2, .selectors = {RepriseItems::proportional()}, .key_tag = tag};
  }
  static reprise::MixedSampler make_sampler(reprise::ReplayBuffer& first,
                                            reprise::ReplayBuffer& second) {
    if constexpr (by_total) {
      return reprise::MixedSampler({first, second}, kBatch);
    } else {
      return reprise::MixedSampler({{first, kBatch / 2}, {second, kBatch / 2}});
    }
  }

  RepriseItems first_;
  RepriseItems second_;
  reprise::MixedSampler sampler_;
  const reprise::Batch* batch_ = nullptr;
  bench::Priorities priorities_;
};

template <class Items>
void add_draw(const std::string& name) {
  bench::add_sizes<Items>(name, {20}, kBatch, [](Items& items) { items.draw(); });
}

template <class Items>
void add_cycle(const std::string& name, std::initializer_list<int> log_sizes) {
  bench::add_sizes<Items>(name, log_sizes, kBatch, [](Items& items) {
    items.draw();
    items.update();
  });
}

/// Number of items that a learner of thousands of simulators draws at a time.
constexpr std::size_t kManyItems = 32'768;

[[maybe_unused]] const bool added = [] {
  const auto sizes = {14, 16, 18, 20, 22, 23};
  add_draw<RepriseItems>("W1/draw/reprise");
  add_draw<TextbookLocked>("W1/draw/textbook");
  bench::add_sizes<RepriseItems>("W1/draw_many/reprise", {20, 23}, kManyItems,
                                 [](RepriseItems& items) { items.draw(kManyItems); });
  add_cycle<RepriseItems>("W1/cycle/reprise", sizes);
  add_cycle<TextbookLocked>("W1/cycle/textbook", sizes);
  // These have as many items as W1/cycle/reprise, but in two buffers.
  add_cycle<MixedItems<false>>("mixed/exact/reprise", {14, 20});
  add_cycle<MixedItems<true>>("mixed/common_total/reprise", {14, 20});
  return true;
}();

}  // namespace
