// W2 with small rows: an observation of 32 bytes, action, reward, end and next observation, 76
// bytes together, in a full buffer of 2^20 steps. One thread.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "textbook_rows.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using bench::kBatch;

constexpr std::size_t kObservation = 32;
constexpr std::size_t kCapacity = std::size_t{1} << 20U;
/// Number of appends per iteration.
constexpr std::size_t kRun = 512;
constexpr std::size_t kEpisode = 1024;

struct Transition {
  std::uint8_t now[kObservation];
  std::int32_t action;
  float reward;
  float done;
  std::uint8_t next[kObservation];
};
static_assert(sizeof(Transition) == 76);

/// Makes rows to append in turn. The observation of each row is the next observation of the row
/// before it; that of the first row is the last row's.
std::vector<Transition> sources(std::size_t count = bench::kSources) {
  std::vector<Transition> rows(count);
  bench::Random random(5);
  for (Transition& row : rows) {
    std::generate(std::begin(row.next), std::end(row.next),
                  [&] { return static_cast<std::uint8_t>(random.next()); });
    row.action = static_cast<std::int32_t>(random.next() % 4);
    row.reward = static_cast<float>(random.uniform());
    row.done = 0.0F;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(rows[i].now, rows[(i + rows.size() - 1) % rows.size()].next, kObservation);
  }
  return rows;
}

/// The same rows as an array for each field.
struct Arrays {
  Arrays() {
    const std::vector<Transition> rows = sources(bench::kSources * kRun);
    for (const Transition& row : rows) {
      now.insert(now.end(), std::begin(row.now), std::end(row.now));
      next.insert(next.end(), std::begin(row.next), std::end(row.next));
      action.push_back(row.action);
      reward.push_back(row.reward);
      const bool last = action.size() % kEpisode == 0;
      ends.push_back(last ? reprise::End::Terminated : reprise::End::Continue);
    }
  }

  std::vector<std::uint8_t> now;
  std::vector<std::uint8_t> next;
  std::vector<std::int32_t> action;
  std::vector<float> reward;
  std::vector<reprise::End> ends;
};

class RepriseRows {
 public:
  explicit RepriseRows(std::size_t capacity)
      : replay_(schema_, {.capacity_steps = capacity,
                          .selectors = {reprise::Proportional{.alpha = bench::kAlpha,
                                                              .epsilon = bench::kEpsilon}}}) {
    // Appends more steps than fit, so that eviction is under way. Every item has a random priority.
    for (std::size_t i = 0; i < capacity + capacity / 8; i += kBatch) {
      for (const float& priority : priorities_.next()) {
        append_one({&priority, 1});
      }
    }
    if (replay_.size() != capacity) {  // size() ingests everything that was committed.
      throw std::logic_error("the buffer did not fill");
    }
  }

  void append(std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      append_one({});
    }
  }
  void append_arrays(std::size_t rows) {
    const auto slice = [&](const auto& array, std::size_t row_values) {
      return std::as_bytes(std::span(array)).subspan(array_at_ * row_values, rows * row_values);
    };
    const reprise::AnyValue values[] = {
        {reprise::AnyField(state_), /*next=*/false, slice(arrays_.now, kObservation)},
        {reprise::AnyField(action_), /*next=*/false, slice(arrays_.action, sizeof(std::int32_t))},
        {reprise::AnyField(reward_), /*next=*/false, slice(arrays_.reward, sizeof(float))},
        {reprise::AnyField(state_), /*next=*/true, slice(arrays_.next, kObservation)}};
    std::size_t taken = 0;
    array_writer_.add_transitions(std::span(arrays_.ends).subspan(array_at_, rows), values, taken);
    array_at_ = (array_at_ + rows) % arrays_.ends.size();
  }
  void sample(std::size_t n = kBatch) {
    batch_ = &*sampler_.sample(n, {.beta = bench::kBeta});
    benchmark::DoNotOptimize(batch_->weights().data());
  }
  void update() {
    const auto priorities = priorities_.next().first(batch_->keys().size());
    benchmark::DoNotOptimize(replay_.update_priorities(batch_->keys(), priorities));
  }
  void remove() { benchmark::DoNotOptimize(replay_.remove(batch_->keys())); }
  /// Reads items by their keys, in random order, as reanalysis does. The first call draws the
  /// batches whose items are read.
  void gather() {
    if (keys_.empty()) {
      for (std::size_t i = 0; i < bench::kSources; ++i) {
        sample();
        keys_.emplace_back(batch_->keys().begin(), batch_->keys().end());
        std::shuffle(keys_.back().begin(), keys_.back().end(), std::mt19937(i));
      }
    }
    turn_ = (turn_ + 1) % keys_.size();
    if (replay_.gather(keys_[turn_], gathered_) != kBatch) {
      throw std::logic_error("an item is gone");
    }
    benchmark::DoNotOptimize(gathered_.weights().data());
  }
  /// Gives the items of the last batch goals from their episodes.
  void relabel() {
    benchmark::DoNotOptimize(
        hindsight_.relabel(batch_->keys(), std::span(goals_), std::span(distances_)));
  }
  double memory_bytes() const { return static_cast<double>(replay_.stats().touched_bytes); }
  double field_bytes() const { return static_cast<double>(schema_.step_bytes()); }

 private:
  void append_one(std::span<const float> priority) {
    const Transition& row = sources_[at_];
    if (!writer_.in_episode()) {
      writer_.begin_episode();
      std::memcpy(writer_.now(state_).data(), row.now, kObservation);
    }
    writer_.now(action_) = row.action;
    writer_.now(reward_) = row.reward;
    std::memcpy(writer_.next(state_).data(), row.next, kObservation);
    const bool last = ++steps_ % kEpisode == 0;
    writer_.commit(last ? reprise::End::Terminated : reprise::End::Continue, priority);
    at_ = (at_ + 1) % sources_.size();
  }

  std::vector<Transition> sources_ = sources();
  std::size_t at_ = 0;
  std::size_t steps_ = 0;
  bench::Priorities priorities_;
  reprise::Schema schema_;
  reprise::Observation<std::uint8_t> state_ =
      schema_.observation<std::uint8_t>("state", {kObservation});
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  reprise::Writer writer_ = replay_.writer();
  Arrays arrays_;
  std::size_t array_at_ = 0;
  reprise::Writer array_writer_ = replay_.writer();
  reprise::Sampler sampler_ = replay_.sampler({.seed = 1});
  reprise::Hindsight hindsight_ = replay_.hindsight(state_);
  std::vector<std::uint8_t> goals_ = std::vector<std::uint8_t>(kBatch * kObservation);
  std::vector<std::int32_t> distances_ = std::vector<std::int32_t>(kBatch);
  const reprise::Batch* batch_ = nullptr;
  reprise::Batch gathered_ = replay_.make_batch(kBatch);
  std::vector<std::vector<reprise::ItemKey>> keys_;
  std::size_t turn_ = 0;
};

struct TextbookRows : bench::TextbookRows<Transition> {
  explicit TextbookRows(std::size_t capacity)
      : bench::TextbookRows<Transition>(capacity, sources()) {}
};

/// Adds the benchmark `name`. An iteration calls `once` with a full buffer of the type Rows, and
/// handles `items` items.
template <class Rows, class Once>
void add(const std::string& name, std::size_t items, const Once& once) {
  bench::add<Rows>(name, kCapacity, items, once);
}

[[maybe_unused]] const bool added = [] {
  using Rows = RepriseRows;
  const auto sample = [](auto& rows) { rows.sample(); };
  const auto cycle = [](auto& rows) {
    rows.sample();
    rows.update();
  };
  bench::add_append<RepriseRows>("W2/append76/reprise", kCapacity, kRun);
  bench::add_append<TextbookRows>("W2/append76/textbook", kCapacity, kRun);
  add<Rows>("W2/append76_arrays/reprise", kRun, [](Rows& rows) { rows.append_arrays(kRun); });
  add<RepriseRows>("W2/sample76/reprise", kBatch, sample);
  add<TextbookRows>("W2/sample76/textbook", kBatch, sample);
  add<Rows>("W2/gather76_by_key/reprise", kBatch, [](Rows& rows) { rows.gather(); });
  // Draws a batch, whose items then get goals from their episodes.
  add<Rows>("W2/sample76_hindsight/reprise", kBatch, [](Rows& rows) {
    rows.sample();
    rows.relabel();
  });
  add<RepriseRows>("W2/cycle76/reprise", kBatch, cycle);
  add<TextbookRows>("W2/cycle76/textbook", kBatch, cycle);
  // Batches of one item, which bench/python/run compares with the same calls from Python.
  add<Rows>("W2/cycle76_of_1/reprise", 1, [](Rows& rows) {
    rows.sample(1);
    rows.update();
  });
  // Each iteration appends as many steps as it draws. The drawn items get another priority, or, in
  // the second benchmark, are removed.
  add<Rows>("W2/append_cycle76/reprise", kBatch, [](Rows& rows) {
    rows.append(kBatch);
    rows.sample();
    rows.update();
  });
  add<Rows>("W2/append_cycle76_removing/reprise", kBatch, [](Rows& rows) {
    rows.append(kBatch);
    rows.sample();
    rows.remove();
  });
  return true;
}();

}  // namespace
