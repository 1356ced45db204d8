#include <reprise/reprise.hpp>

#include "../support/model_check.hpp"
#include "../support/rng.hpp"
#include "../support/scale.hpp"
#include "../support/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace reprise::test {
namespace {

/// One writer, one shard, and every public operation in random order: there the buffer promises
/// everything exactly, and the model says what it must be after every call.
class Differential {
 public:
  explicit Differential(std::uint64_t seed)
      : rng_(seed),
        world_(rng_.chance(0.3)),
        window_(random_window()),
        selector_(random_selector()),
        options_(random_options()),
        replay_(world_.schema(), options_),
        model_(window_, selector_, options_.capacity_steps),
        sampler_(replay_.sampler({.seed = seed})) {}

  void run(std::size_t operations) {
    for (std::size_t i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
      const std::size_t what = rng_.below(100);
      if (what < 65) {
        commit();
      } else if (what < 66) {
        writer_.reset();
        end_open_episode();
      } else if (what < 67) {
        begin();
      } else if (what < 85) {
        sample();
      } else {
        update();
      }
      expect_counts_agree(replay_, model_);
    }
  }

 private:
  Transitions random_window() {
    Transitions window;
    window.n_step = static_cast<std::uint32_t>(rng_.between(1, 5));
    window.frame_stack = static_cast<std::uint32_t>(rng_.between(1, 4));
    window.stack_start = rng_.chance(0.5) ? StackStart::Zeros : StackStart::RepeatFirst;
    window.discount = static_cast<float>(rng_.unit());
    return window;
  }

  Proportional random_selector() {
    constexpr InitialPriority kRules[] = {InitialPriority::MaximumInBuffer,
                                          InitialPriority::HighestSeen, InitialPriority::Constant};
    Proportional selector{.initial = kRules[rng_.below(3)], .initial_constant = 2.0F};
    exact_ = rng_.chance(0.6);
    if (exact_) {
      // Powers 0, 1 and 2 of small integers are exact, so probabilities must be too.
      selector.alpha = static_cast<float>(rng_.below(3));
      selector.epsilon = 0.0F;
    } else {
      selector.alpha = static_cast<float>(rng_.unit() * 2.0);
      selector.epsilon = 0.01F;
    }
    return selector;
  }

  Options random_options() {
    Options options;
    options.capacity_steps = rng_.between(1, 120);
    options.window = window_;
    options.selectors = {selector_};
    options.max_writers = 2;
    options.shards = 1;
    options.chunk_steps = window_.n_step + window_.frame_stack + rng_.below(16);
    options.key_tag = 3;
    return options;
  }

  float random_priority() { return static_cast<float>(rng_.below(9)); }

  void end_open_episode() {
    if (open_) {
      model_.truncate(*open_);
      open_.reset();
    }
  }

  void begin() {
    if (!writer_) {
      writer_.emplace(replay_.writer());
    }
    end_open_episode();
    const Frame first = world_.random_frame(rng_);
    writer_->begin_episode();
    world_.write_first(*writer_, first);
    open_ = writer_->episode_id();
    model_.begin_episode(*open_, first);
  }

  void commit() {
    if (!open_) {
      begin();
    }
    const StepData step = world_.random_step(rng_);
    const Frame next = world_.random_frame(rng_);
    constexpr End kEnds[] = {End::Terminated, End::Truncated};
    const End end = rng_.chance(0.06) ? kEnds[rng_.below(2)] : End::Continue;
    std::vector<float> priorities;
    if (rng_.chance(0.5)) {
      priorities.resize(model_.completing(*open_, end));
      std::ranges::generate(priorities, [&] { return random_priority(); });
    }
    world_.write_step(*writer_, step, next);
    ASSERT_EQ(writer_->completing(end), model_.completing(*open_, end));
    ASSERT_EQ(writer_->commit(end, priorities), CommitStatus::Committed);
    model_.commit(*open_, step, next, end, priorities);
    if (end != End::Continue) {
      open_.reset();
    }
  }

  void sample() {
    SampleOptions options{.timeout = std::chrono::nanoseconds(0)};
    options.beta = static_cast<float>(rng_.unit());
    options.normalise = static_cast<Normalise>(rng_.below(3));
    options.draws = rng_.chance(0.5) ? Draws::Stratified : Draws::Independent;
    const SampleResult batch = sampler_.sample(rng_.between(1, 40), options);
    if (model_.size() == 0) {
      ASSERT_EQ(batch.status().code, SampleStatus::Code::TimedOut);
    } else if (model_.total_weight() <= 0.0) {
      ASSERT_EQ(batch.status().code, SampleStatus::Code::NothingToDraw);
    } else {
      ASSERT_TRUE(batch) << batch.status().message();
      expect_windows_agree(*batch, world_, model_);
      expect_weights_agree(*batch, model_, options, exact_ ? 1e-12 : 1e-6);
      for (std::size_t i = 0; i < batch->size(); ++i) {
        remember(batch->keys()[i], {batch->episode_ids()[i], batch->positions()[i]});
      }
    }
  }

  void remember(ItemKey key, ItemId item) {
    const auto [place, fresh] = items_.emplace(key, item);
    ASSERT_TRUE(fresh || place->second == item) << "a key came back for another item";
  }

  void update() {
    if (items_.empty()) {
      return;
    }
    std::vector<ItemKey> keys;
    std::vector<float> priorities;
    std::map<ItemId, float> last;  // The last of repeated keys wins; the others never were.
    std::size_t applied = 0;
    for (std::size_t i = rng_.between(1, 12); i-- > 0;) {
      const auto place =
          std::next(items_.begin(), static_cast<std::ptrdiff_t>(rng_.below(items_.size())));
      keys.push_back(place->first);
      priorities.push_back(random_priority());
      if (model_.resident(place->second)) {
        last[place->second] = priorities.back();
        ++applied;
      }
    }
    for (const auto& [item, priority] : last) {
      model_.set_priority(item, priority);
    }
    const UpdateResult result = replay_.update_priorities(keys, priorities);
    ASSERT_EQ(result.applied, applied);
    ASSERT_EQ(result.stale, keys.size() - applied);
  }

  Rng rng_;
  World world_;
  bool exact_ = false;
  Transitions window_;
  Proportional selector_;
  Options options_;
  ReplayBuffer replay_;
  Model model_;
  Sampler sampler_;
  std::optional<Writer> writer_;
  std::optional<std::uint64_t> open_;  ///< The episode that the writer is in.
  std::map<ItemKey, ItemId> items_;    ///< Every key ever drawn.
};

TEST(Model, AgreesWithTheBufferAfterEveryOperation) {
  const std::size_t runs = scaled(300, 10);
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Differential differential(seed);
    differential.run(1000);
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace reprise::test
