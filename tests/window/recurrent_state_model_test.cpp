#include <reprise/reprise.hpp>

#include "../support/line.hpp"
#include "../support/lock_holder.hpp"
#include "../support/recurrent_line.hpp"
#include "../support/rng.hpp"
#include "../support/scale.hpp"
#include "../support/sequence_model.hpp"
#include "sampler/sampler_core.hpp"
#include "writer/writer_core.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

Options options_with(const Sequences& window) {
  Options options = small_options();
  options.window = window;
  options.selectors = {Uniform{}};
  return options;
}

/// Episodes of random lengths, written by several writers whose turns are mixed, and the items that
/// have to come of them.
class RecurrentWorld {
 public:
  RecurrentWorld(Rng& rng, const Sequences& window, const Options& options)
      : rng_(rng), window_(window), line_(options) {
    for (int i = 0; i < 3; ++i) {
      actors_.push_back({line_.replay.writer(), 0, 0});
    }
  }

  /// A few steps of one writer, which may end its episode, begin another within it, or leave.
  void turn() {
    Actor& actor = actors_[rng_.below(actors_.size())];
    for (std::size_t steps = rng_.between(1, 25); steps != 0; --steps) {
      if (!actor.writer.in_episode()) {
        actor.number = actor.first = number_ += 1000;
      }
      const std::uint64_t position = actor.number - actor.first;
      const bool with_states = may_begin(window_, position) || rng_.chance(0.5);
      const End end =
          rng_.chance(0.05) ? (rng_.chance(0.5) ? End::Terminated : End::Truncated) : End::Continue;
      ASSERT_EQ(line_.append(actor.writer, actor.number, end, with_states),
                CommitStatus::Committed);
      ++actor.number;
      ++committed_;
      if (end != End::Continue) {
        over(actor, false);
      }
    }
    if (rng_.chance(0.15)) {
      actor.writer = line_.replay.writer();
      over(actor, true);
    } else if (rng_.chance(0.1) && actor.writer.in_episode()) {
      write_uncommitted(actor);
      actor.writer.begin_episode();
      over(actor, true);
      actor.number = actor.first = number_ += 1000;
      actor.writer.now(line_.id) = actor.number;
    }
  }

  void check() {
    static_cast<void>(line_.replay.size());  // Asking takes in everything that was committed.
    const Stats stats = line_.replay.stats();
    ASSERT_EQ(stats.committed_steps, committed_);
    Sampler sampler =
        line_.replay.sampler({.seed = rng_.next(), .parallel_gather_bytes = kGatherAlone});
    const SampleResult batch = sampler.sample(4 * stats.items + 1, kAtOnce);
    ASSERT_EQ(static_cast<bool>(batch), stats.items != 0);
    std::set<std::uint64_t> seen;
    for (std::size_t i = 0; batch && i < batch->size(); ++i) {
      const std::uint64_t number = line_.expect_states(*batch, i);
      ASSERT_FALSE(testing::Test::HasFailure());
      seen.insert(number);
      if (const auto item = items_.find(number); item != items_.end()) {
        ASSERT_EQ(batch->lengths()[i], item->second);
      } else {
        ASSERT_TRUE(is_open(number)) << "no item begins with step " << number;
      }
    }
    ASSERT_EQ(seen.size(), stats.items) << "every item has come";
    for (const auto& [number, length] : items_) {
      ASSERT_TRUE(seen.contains(number) || stats.evicted_steps != 0) << number;
    }
  }

 private:
  struct Actor {
    Writer writer;
    std::uint64_t first;   ///< Number of the episode's first step.
    std::uint64_t number;  ///< Of the next step.
  };

  /// What is not committed is of no item.
  void write_uncommitted(Actor& actor) { line_.write_states(actor.writer, actor.number + 500); }

  void over(Actor& actor, bool cut_off) {
    for (const auto& [position, length] :
         sequences_of(window_, actor.number - actor.first, cut_off)) {
      items_[actor.first + position] = length;
    }
    actor.first = actor.number;
  }

  /// Whether the step is of an episode that goes on, of which whole items can be drawn already.
  [[nodiscard]] bool is_open(std::uint64_t number) const {
    for (const Actor& actor : actors_) {
      if (number >= actor.first && number + window_.burn_in + window_.length <= actor.number &&
          (number - actor.first) % window_.period == 0) {
        return true;
      }
    }
    return false;
  }

  Rng& rng_;
  const Sequences window_;
  RecurrentLine line_;
  std::vector<Actor> actors_;
  std::map<std::uint64_t, std::uint32_t> items_;  ///< Length by number of the first step.
  std::uint64_t number_ = 0;
  std::uint64_t committed_ = 0;
};

TEST(RecurrentState, OfEveryItemIsThatOfTheModelWhateverTheWindowAndTheEpisodes) {
  for (std::uint64_t seed = 1; seed <= scaled(300); ++seed) {
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
    RecurrentWorld world(rng, window, options);
    for (int i = 0; i < 40; ++i) {
      ASSERT_NO_FATAL_FAILURE(world.turn());
      if (i % 4 == 3) {
        ASSERT_NO_FATAL_FAILURE(world.check());
      }
    }
  }
}

TEST(RecurrentState, WrittenWhileThereIsNoChunkComesWithTheTail) {
  using detail::RowView;
  Schema schema;
  const auto id = schema.observation<std::uint64_t>("id");
  const auto lstm = schema.recurrent_state<float>("lstm", {2});
  Options options = options_with({.length = 3, .period = 1});
  options.capacity_steps = 10;
  options.max_writers = 2;
  options.chunk_steps = 6;
  const auto core = std::make_shared<buffer::BufferCore>(schema, options);
  writer::WriterCore writer(core, core->slots().take().value_or(0),
                            {.timeout = std::chrono::nanoseconds(0)});
  writer.begin_episode();
  writer.access<RowView::kNow>(id) = 0;
  const auto append = [&](std::uint64_t number) {
    writer.access<RowView::kNow>(lstm)[0] = lstm_of(number, 0);
    writer.access<RowView::kNow>(lstm)[1] = lstm_of(number, 1);
    writer.access<RowView::kNext>(id) = number + 1;
    writer.check_commit(End::Continue, {});
    return writer.commit(End::Continue, {});
  };
  std::uint64_t number = 0;
  {
    LockHolder holder(core->shards()[0].mutex);
    while (append(number) == CommitStatus::Committed) {
      ++number;
    }
    EXPECT_EQ(append(number), CommitStatus::TimedOut);
  }
  EXPECT_EQ(writer.commit(End::Continue, {}), CommitStatus::Committed);
  EXPECT_EQ(append(++number), CommitStatus::Committed);
  EXPECT_EQ(append(++number), CommitStatus::Committed);
  core->shards().drain();
  sampler::SamplerCore sampler(core, {});
  sampler.own().reserve(64);
  ASSERT_EQ(sampler.sample(sampler.own(), 0, 64, kAtOnce).code, SampleStatus::Code::Ok);
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint64_t first = sampler.batch().now(id)[3 * i];
    seen.insert(first);
    EXPECT_EQ(sampler.batch().now(lstm)[2 * i], lstm_of(first, 0));
    EXPECT_EQ(sampler.batch().now(lstm)[2 * i + 1], lstm_of(first, 1));
  }
  EXPECT_TRUE(seen.contains(number - 2)) << "decided in the chunk that the tail moved into";
}

TEST(RecurrentState, IsNeverTornNorAnothersWhileActorsAppendAndEvict) {
  constexpr std::size_t kActors = 3;
  const Sequences window{.length = 6, .period = 3, .burn_in = 2, .end = SequenceEnd::Overlap};
  Options options = options_with(window);
  options.capacity_steps = 400;
  options.shards = 2;
  options.chunk_steps = 24;
  RecurrentLine line(options);
  std::vector<std::jthread> actors;
  actors.reserve(kActors);
  for (std::uint64_t a = 0; a < kActors; ++a) {
    actors.emplace_back([&, a](const std::stop_token& stop) {
      Rng rng(a + 1);
      Writer writer = line.replay.writer();
      std::uint64_t number = (a + 1) << 40U;
      while (!stop.stop_requested()) {
        line.append(writer, number, rng.chance(0.05) ? End::Terminated : End::Continue);
        number += writer.in_episode() ? 1U : 1000U;
        if (rng.chance(0.01)) {
          writer = line.replay.writer();
          number += 1000;
        }
      }
    });
  }
  Sampler sampler = line.replay.sampler({.parallel_gather_bytes = kGatherAlone});
  for (std::size_t batches = 0; batches < scaled(2000) && !testing::Test::HasFailure(); ++batches) {
    const SampleResult batch = sampler.sample(64);
    ASSERT_TRUE(batch) << batch.status().message();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      line.expect_states(*batch, i);
    }
  }
}

}  // namespace
}  // namespace reprise::test
