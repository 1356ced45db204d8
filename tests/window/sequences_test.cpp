#include <reprise/reprise.hpp>

#include "../support/line.hpp"
#include "../support/rng.hpp"
#include "../support/scale.hpp"
#include "../support/sequence_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::test {
namespace {

using Numbers = std::vector<std::uint64_t>;

Options options_with(const Sequences& window) {
  Options options = small_options();
  options.window = window;
  options.selectors = {Uniform{}};
  options.chunk_steps = 0;
  return options;
}

/// Draws until every item has come, and gives the batch.
const Batch& all_of(Sampler& sampler, std::size_t items, std::size_t n = 0) {
  const SampleResult batch = sampler.sample(n == 0 ? 4 * items : n, kAtOnce);
  EXPECT_TRUE(batch);
  return *batch;
}

/// Of the items, by position of their first step.
std::map<std::uint64_t, double> probabilities(Line& line) {
  Sampler sampler = line.replay.sampler();
  std::map<std::uint64_t, double> of;
  const Batch& batch = all_of(sampler, 16);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    of[batch.positions()[i]] = batch.probabilities()[i];
  }
  return of;
}

TEST(Sequences, AreTensorsOfBatchTimeAndShape) {
  Line line(options_with({.length = 3, .period = 3}));
  Writer writer = line.replay.writer();
  line.append_many(writer, 10, 6);
  Sampler sampler = line.replay.sampler();
  const Batch& batch = all_of(sampler, 2, 2);
  EXPECT_EQ(batch.shape(line.id), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(batch.shape(line.action), (std::vector<std::size_t>{2, 3}));
  const auto now = batch.now(line.id);
  const auto next = batch.next(line.id);
  const auto action = batch.now(line.action);
  EXPECT_EQ(Numbers(now.begin(), now.end()), (Numbers{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(Numbers(next.begin(), next.end()), (Numbers{11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(Numbers(action.begin(), action.end()), Numbers(now.begin(), now.end()));
  const auto reward = batch.now(line.reward);
  EXPECT_EQ(Numbers(reward.begin(), reward.end()), Numbers(now.begin(), now.end()));
  EXPECT_EQ(batch.lengths()[0], 3U);
  EXPECT_EQ(batch.positions()[1], 3U);
  EXPECT_EQ(batch.discounts()[0], 1.0F);
  EXPECT_THROW(static_cast<void>(batch.returns(line.reward)), std::logic_error);
}

TEST(Sequences, OfShapedFieldsHaveTimeBeforeShape) {
  Schema schema;
  const auto frame = schema.observation<std::uint8_t>("frame", {2, 2});
  Options options = options_with({.length = 2, .period = 1, .burn_in = 1});
  ReplayBuffer replay(schema, options);
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(frame)[3] = 0;
  for (std::uint8_t t = 0; t < 3; ++t) {
    for (std::uint8_t k = 0; k < 4; ++k) {
      writer.next(frame)[k] = static_cast<std::uint8_t>(10 * (t + 1) + k);
    }
    writer.commit();
  }
  Sampler sampler = replay.sampler();
  const SampleResult batch = sampler.sample(1, kAtOnce);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->shape(frame), (std::vector<std::size_t>{1, 3, 2, 2}));
  EXPECT_EQ(batch->next(frame)[0], 10);
  EXPECT_EQ(batch->next(frame)[11], 33);
}

TEST(Sequences, EndAsAsked) {
  const auto items_of = [](SequenceEnd end, std::uint64_t steps) {
    Line line(options_with({.length = 4, .period = 2, .end = end}));
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; i < steps; ++i) {
      line.append(writer, i, i + 1 == steps ? End::Terminated : End::Continue);
    }
    EXPECT_EQ(line.replay.size(), steps) << "every step counts";
    std::map<std::uint64_t, std::uint32_t> items;
    Sampler sampler = line.replay.sampler();
    if (const SampleResult batch = sampler.sample(64, kAtOnce)) {
      for (std::size_t i = 0; i < batch->size(); ++i) {
        const std::uint64_t first = batch->positions()[i];
        items[first] = batch->lengths()[i];
        const bool at_end = first + batch->lengths()[i] == steps;
        EXPECT_EQ(batch->discounts()[i], at_end ? 0.0F : 1.0F);
      }
    } else {
      EXPECT_EQ(batch.status().code, SampleStatus::Code::TimedOut);
      EXPECT_EQ(batch.status().items, 0U);
    }
    return items;
  };
  using Items = std::map<std::uint64_t, std::uint32_t>;
  EXPECT_EQ(items_of(SequenceEnd::Truncate, 7), (Items{{0, 4}, {2, 4}, {4, 3}, {6, 1}}));
  EXPECT_EQ(items_of(SequenceEnd::ZeroPad, 7), (Items{{0, 4}, {2, 4}, {4, 3}, {6, 1}}));
  EXPECT_EQ(items_of(SequenceEnd::Drop, 7), (Items{{0, 4}, {2, 4}}));
  EXPECT_EQ(items_of(SequenceEnd::Overlap, 7), (Items{{0, 4}, {2, 4}, {3, 4}}));
  EXPECT_EQ(items_of(SequenceEnd::Drop, 3), Items{});
  EXPECT_EQ(items_of(SequenceEnd::Overlap, 3), (Items{{0, 3}}));
}

TEST(Sequences, OfNoMoreThanTheBurnInAreLeftOut) {
  Line line(options_with({.length = 2, .period = 1, .burn_in = 2}));
  Writer writer = line.replay.writer();
  for (std::uint64_t i = 0; i < 5; ++i) {
    line.append(writer, i, i == 4 ? End::Truncated : End::Continue);
  }
  EXPECT_EQ(line.replay.size(), 5U);
  EXPECT_EQ(line.replay.stats().items, 3U);
  Sampler sampler = line.replay.sampler();
  const auto lengths = all_of(sampler, 3).lengths();
  EXPECT_EQ(*std::min_element(lengths.begin(), lengths.end()), 3U);
}

TEST(Sequences, WritersDoNotWaitForSamplesThatNobodyCanDraw) {
  // Episodes too short for any item: samplers cannot catch up, so the ratio has to wait.
  Options options = options_with({.length = 8, .period = 8, .end = SequenceEnd::Drop});
  options.capacity_steps = 1000;
  options.rate_limiter =
      SampleToInsertRatio{.samples_per_insert = 4.0, .min_size = 10, .error_buffer = 500.0};
  Line line(options);
  Writer writer = line.replay.writer({.timeout = std::chrono::nanoseconds(0)});
  Sampler sampler = line.replay.sampler();
  for (std::uint64_t i = 0; i < 600; ++i) {
    ASSERT_EQ(line.append(writer, 10 * i, i % 4 == 3 ? End::Terminated : End::Continue),
              CommitStatus::Committed);
  }
  const SampleResult none = sampler.sample(1, kAtOnce);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code, SampleStatus::Code::TimedOut);
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(line.append(writer, 10000 + i), CommitStatus::Committed);
  }
  EXPECT_TRUE(sampler.sample(1, kAtOnce));
}

TEST(Sequences, AreNotDrawnBeforeTheyAreWhole) {
  Line line(options_with({.length = 4, .period = 4}));
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 3);
  Sampler sampler = line.replay.sampler();
  EXPECT_FALSE(sampler.sample(1, kAtOnce));
  EXPECT_EQ(line.replay.stats().pending_steps, 3U);
  line.append(writer, 3);
  EXPECT_TRUE(sampler.sample(1, kAtOnce));
}

TEST(Sequences, ZerosStandWhereAnEpisodeEndedSooner) {
  Line line(options_with({.length = 4, .period = 8, .end = SequenceEnd::ZeroPad}));
  Writer writer = line.replay.writer();
  Sampler sampler = line.replay.sampler();
  // Something to be overwritten.
  line.append_many(writer, 100, 8);
  ASSERT_TRUE(sampler.sample(4, kAtOnce));
  writer = line.replay.writer();
  for (std::uint64_t i = 200; i < 202; ++i) {
    line.append(writer, i, i == 201 ? End::Truncated : End::Continue);
  }
  const Batch& batch = all_of(sampler, 2);
  bool found = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.lengths()[i] == 2) {
      found = true;
      const auto now = batch.now(line.id).subspan(4 * i, 4);
      const auto next = batch.next(line.id).subspan(4 * i, 4);
      EXPECT_EQ(Numbers(now.begin(), now.end()), (Numbers{200, 201, 0, 0}));
      EXPECT_EQ(Numbers(next.begin(), next.end()), (Numbers{201, 202, 0, 0}));
    }
  }
  EXPECT_TRUE(found);
}

TEST(Sequences, TakeAPriorityForEachItemDecidedAndNoOther) {
  Options options = options_with({.length = 3, .period = 2});
  options.selectors = {kRaw};
  Line line(options);
  Writer writer = line.replay.writer();
  const float priorities[] = {1.0F, 2.0F};
  const auto one = [&](std::size_t i) { return std::span(priorities).subspan(i, 1); };
  writer.begin_episode();
  std::size_t decided = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    writer.now(line.id) = i;
    writer.next(line.id) = i + 1;
    writer.now(line.action) = i;
    writer.now(line.reward) = 0.0F;
    const std::size_t items = writer.completing(End::Continue);
    EXPECT_EQ(items, i == 2 || i == 4 ? 1U : 0U) << i;
    EXPECT_THROW(writer.commit(End::Continue, priorities), std::invalid_argument);
    writer.commit(End::Continue, items == 0 ? std::span<const float>() : one(decided));
    decided += items;
  }
  EXPECT_EQ(probabilities(line), (std::map<std::uint64_t, double>{{0, 1.0 / 3}, {2, 2.0 / 3}}));
}

TEST(Sequences, OfAWholeEpisodeAreThoseThatItsStepsDecide) {
  constexpr SequenceEnd kEnds[] = {SequenceEnd::Truncate, SequenceEnd::ZeroPad, SequenceEnd::Drop,
                                   SequenceEnd::Overlap};
  for (const SequenceEnd kind : kEnds) {
    for (std::uint32_t period = 1; period <= 5; period += 2) {
      Line line(options_with({.length = 2, .period = period, .burn_in = 1, .end = kind}));
      Writer writer = line.replay.writer();
      for (std::size_t steps = 1; steps <= 18; ++steps) {
        const End end = steps % 2 == 0 ? End::Continue : End::Terminated;
        writer.begin_episode();
        std::size_t items = 0;
        for (std::size_t t = 0; t < steps / 2 + 1; ++t) {
          writer.now(line.id) = t;
          writer.next(line.id) = t + 1;
          writer.now(line.action) = t;
          writer.now(line.reward) = 0.0F;
          const End last = t == steps / 2 ? end : End::Continue;
          items += writer.completing(last);
          ASSERT_EQ(writer.commit(last), CommitStatus::Committed);
        }
        EXPECT_EQ(writer.check_episode(steps / 2 + 1, end, {}), items) << steps << " " << period;
        const std::vector<float> more(items + 1, 1.0F);
        EXPECT_THROW(writer.check_episode(steps / 2 + 1, end, more), std::invalid_argument);
      }
    }
  }
}

TEST(Sequences, UpdatesReachTheirItemsAlone) {
  Options options = options_with({.length = 2, .period = 2});
  options.selectors = {kRaw};
  Line line(options);
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 8);
  Sampler sampler = line.replay.sampler();
  const Batch& batch = all_of(sampler, 4);
  std::map<std::uint64_t, ItemKey> keys;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    keys[batch.positions()[i]] = batch.keys()[i];
  }
  ASSERT_EQ(keys.size(), 4U);
  const std::vector<ItemKey> all{keys[0], keys[2], keys[4], keys[6]};
  EXPECT_EQ(line.replay.update_priorities(all, std::vector{0.0F, 0.0F, 0.0F, 0.0F}).applied, 4U);
  EXPECT_FALSE(sampler.sample(1, kAtOnce));
  EXPECT_EQ(line.replay.update_priorities(all, std::vector{0.0F, 1.0F, 3.0F, 0.0F}).applied, 4U)
      << "an item of weight 0 is still an item";
  EXPECT_EQ(probabilities(line), (std::map<std::uint64_t, double>{{2, 0.25}, {4, 0.75}}));
}

/// Episodes of random lengths, written by several writers in turn, and what has to come of them.
class SequenceWorld {
 public:
  SequenceWorld(Rng& rng, const Sequences& window, const Options& options)
      : rng_(rng), window_(window), line_(options) {
    for (int i = 0; i < 3; ++i) {
      writers_.push_back(line_.replay.writer());
    }
  }

  /// Steps are numbered through, so that a number tells its episode.
  void episode(bool cut_off) {
    Writer& writer = writers_[rng_.below(writers_.size())];
    const std::uint64_t steps = rng_.between(1, 40);
    const std::uint64_t first = number_;
    const End end = rng_.chance(0.5) ? End::Terminated : End::Truncated;
    for (std::uint64_t i = 0; i < steps; ++i, ++number_) {
      const bool last = i + 1 == steps && !cut_off;
      ASSERT_EQ(line_.append(writer, number_, last ? end : End::Continue), CommitStatus::Committed);
    }
    if (cut_off) {
      writer = line_.replay.writer();
    }
    for (const auto& [position, length] : sequences_of(window_, steps, cut_off)) {
      const bool ends = position + length == steps && !cut_off && end == End::Terminated;
      items_[first + position] = {position, length, ends};
    }
    number_ += 1000;  // The next episode does not continue this one.
    committed_ += steps;
  }

  void check() {
    static_cast<void>(line_.replay.size());  // Asking takes in everything that was committed.
    const Stats stats = line_.replay.stats();
    ASSERT_EQ(stats.committed_steps, committed_);
    ASSERT_EQ(stats.resident_steps + stats.pending_steps + stats.evicted_steps, committed_);
    ASSERT_EQ(stats.pending_steps, 0U);
    Sampler sampler =
        line_.replay.sampler({.seed = rng_.next(), .parallel_gather_bytes = kGatherAlone});
    const SampleResult batch =
        sampler.sample(4 * items_.size() + 1,
                       {.beta = 1.0F, .normalise = Normalise::Not, .timeout = kAtOnce.timeout});
    if (!batch) {
      ASSERT_TRUE(items_.empty() || stats.evicted_steps != 0);
      return;
    }
    std::map<std::uint64_t, bool> seen;
    for (std::size_t i = 0; i < batch->size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(check_item(*batch, i));
      seen[batch->now(line_.id)[i * whole()]] = true;
      // Uniform: w = (N P)^-1 = 1, which says that N counts items, not steps.
      ASSERT_NEAR(batch->weights()[i], 1.0F, 1e-5F);
    }
    if (stats.evicted_steps == 0) {
      ASSERT_EQ(seen.size(), items_.size()) << "every item can be drawn";
    }
    ASSERT_NEAR(batch->probabilities()[0] * static_cast<double>(seen.size()), 1.0, 1e-9);
  }

 private:
  struct Item {
    std::uint64_t position;
    std::uint32_t length;
    bool terminated;
  };

  [[nodiscard]] std::size_t whole() const { return window_.burn_in + window_.length; }

  void check_item(const Batch& batch, std::size_t i) const {
    const auto now = batch.now(line_.id).subspan(i * whole(), whole());
    const auto next = batch.next(line_.id).subspan(i * whole(), whole());
    const auto action = batch.now(line_.action).subspan(i * whole(), whole());
    const auto found = items_.find(now[0]);
    ASSERT_NE(found, items_.end()) << "no item begins with step " << now[0];
    const Item& item = found->second;
    ASSERT_EQ(batch.positions()[i], item.position);
    ASSERT_EQ(batch.lengths()[i], item.length);
    ASSERT_EQ(batch.discounts()[i], item.terminated ? 0.0F : 1.0F);
    for (std::size_t k = 0; k < item.length; ++k) {
      ASSERT_EQ(now[k], now[0] + k);
      ASSERT_EQ(next[k], now[0] + k + 1);
      ASSERT_EQ(action[k], now[0] + k);
    }
    for (std::size_t k = item.length; window_.end == SequenceEnd::ZeroPad && k < whole(); ++k) {
      ASSERT_EQ(now[k] | next[k] | action[k], 0U);
    }
  }

  Rng& rng_;
  Sequences window_;
  Line line_;
  std::vector<Writer> writers_;
  std::map<std::uint64_t, Item> items_;  ///< By number of the first step; evicted ones included.
  std::uint64_t number_ = 1;
  std::uint64_t committed_ = 0;
};

TEST(Sequences, AreThoseOfTheModelWhateverTheWindowAndTheEpisodes) {
  for (std::uint64_t seed = 1; seed <= scaled(150); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const Sequences window{.length = static_cast<std::uint32_t>(rng.between(1, 12)),
                           .period = static_cast<std::uint32_t>(rng.between(1, 15)),
                           .burn_in = static_cast<std::uint32_t>(rng.below(5)),
                           .end = static_cast<SequenceEnd>(rng.below(4))};
    Options options = options_with(window);
    options.shards = rng.between(1, 3);
    options.chunk_steps = window.length + window.burn_in + 1 + rng.below(30);
    options.capacity_steps = rng.chance(0.5) ? 10000 : rng.between(20, 300);
    SequenceWorld world(rng, window, options);
    for (int i = 0; i < 12; ++i) {
      ASSERT_NO_FATAL_FAILURE(world.episode(rng.chance(0.2)));
      ASSERT_NO_FATAL_FAILURE(world.check());
    }
  }
}

TEST(Sequences, AreWholeWhileActorsAppendAndEvict) {
  const Sequences window{.length = 6, .period = 3, .burn_in = 2, .end = SequenceEnd::Overlap};
  Options options = options_with(window);
  options.capacity_steps = 400;
  options.shards = 2;
  options.chunk_steps = 24;
  options.selectors = {Proportional{}};
  Line line(options);
  constexpr std::size_t kWhole = 8;
  std::vector<std::jthread> actors;
  for (std::uint64_t a = 0; a < 2; ++a) {
    actors.emplace_back([&, a](const std::stop_token& stop) {
      Rng rng(a + 1);
      Writer writer = line.replay.writer();
      std::uint64_t number = (a + 1) << 40U;
      while (!stop.stop_requested()) {
        line.append(writer, number, rng.chance(0.05) ? End::Terminated : End::Continue);
        number += writer.in_episode() ? 1U : 1000U;
        if (rng.chance(0.002)) {
          writer = line.replay.writer();
          number += 1000;
        }
      }
    });
  }
  Sampler sampler = line.replay.sampler({.parallel_gather_bytes = kGatherAlone});
  std::vector<float> priorities(64, 1.0F);
  for (std::size_t batches = 0; batches < scaled(2000); ++batches) {
    const SampleResult batch = sampler.sample(64);
    ASSERT_TRUE(batch) << batch.status().message();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const auto now = batch->now(line.id).subspan(i * kWhole, kWhole);
      const auto next = batch->next(line.id).subspan(i * kWhole, kWhole);
      ASSERT_TRUE(batch->lengths()[i] == kWhole || batch->positions()[i] == 0);
      for (std::size_t k = 0; k < batch->lengths()[i]; ++k) {
        ASSERT_EQ(now[k], now[0] + k);
        ASSERT_EQ(next[k], now[0] + k + 1);
      }
    }
    line.replay.update_priorities(batch->keys(), priorities);
  }
  actors.clear();
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.resident_steps + stats.pending_steps + stats.evicted_steps,
            stats.committed_steps);
}

}  // namespace
}  // namespace reprise::test
