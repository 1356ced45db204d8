#include <reprise/reprise.hpp>

#include "../support/model_check.hpp"
#include "../support/rng.hpp"
#include "../support/scale.hpp"
#include "../support/world.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>
#include <vector>

namespace reprise::test {
namespace {

struct Setting {
  Options options;
  bool with_discount = false;
};

std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  const auto& window = std::get<Transitions>(setting.options.window);
  return out << "capacity " << setting.options.capacity_steps << ", chunk "
             << setting.options.chunk_steps << ", shards " << setting.options.shards << ", n_step "
             << window.n_step << ", stack " << window.frame_stack << ", discount "
             << window.discount << ", "
             << (window.stack_start == StackStart::Zeros ? "zeros" : "repeat")
             << (setting.with_discount ? ", discount field" : "");
}

Setting random_setting(Rng& rng) {
  Setting setting;
  Transitions window;
  window.n_step = static_cast<std::uint32_t>(rng.between(1, 7));
  window.frame_stack = static_cast<std::uint32_t>(rng.between(1, 5));
  window.stack_start = rng.chance(0.5) ? StackStart::RepeatFirst : StackStart::Zeros;
  window.discount = rng.chance(0.2) ? 1.0F : static_cast<float>(rng.unit());
  setting.with_discount = rng.chance(0.4);
  Options& options = setting.options;
  options.window = window;
  options.capacity_steps = rng.chance(0.3) ? std::size_t{1} << rng.below(9) : rng.between(1, 300);
  options.shards = rng.between(1, std::min<std::size_t>(4, options.capacity_steps));
  const std::size_t least = window.n_step + window.frame_stack;
  options.chunk_steps = rng.chance(0.3) ? least : least + rng.below(20);
  options.max_writers = 4;
  options.selectors = {Uniform{}};
  options.key_tag = 1;
  return setting;
}

/// Drives random episodes of several writers into a buffer and into the model. With several
/// writers or shards the order of eviction is the buffer's own, so the model keeps everything.
class Comparison {
 public:
  explicit Comparison(Rng& rng)
      : rng_(rng),
        setting_(random_setting(rng)),
        world_(setting_.with_discount),
        replay_(world_.schema(), setting_.options),
        model_(std::get<Transitions>(setting_.options.window), kConstant, kKeepEverything),
        sampler_(replay_.sampler({.seed = rng.next()})),
        streams_(rng.between(1, 4)) {}

  [[nodiscard]] const Setting& setting() const { return setting_; }

  void step() {
    Stream& stream = streams_[rng_.below(streams_.size())];
    if (!stream.writer) {
      stream.writer.emplace(replay_.writer());
    }
    if (stream.writer->in_episode() && rng_.chance(0.01)) {
      model_.truncate(stream.writer->episode_id());
      if (rng_.chance(0.5)) {
        stream.writer.reset();
        return;
      }
      begin(*stream.writer);
    }
    if (!stream.writer->in_episode()) {
      begin(*stream.writer);
      stream.mean_length = 1.0 + 60.0 * rng_.unit() * rng_.unit();
    }
    const StepData data = world_.random_step(rng_);
    const Frame next = world_.random_frame(rng_);
    End end = End::Continue;
    if (rng_.chance(1.0 / stream.mean_length)) {
      end = rng_.chance(0.5) ? End::Terminated : End::Truncated;
    }
    const std::uint64_t episode = stream.writer->episode_id();
    world_.write_step(*stream.writer, data, next);
    ASSERT_EQ(stream.writer->completing(end), model_.completing(episode, end));
    ASSERT_EQ(stream.writer->commit(end), CommitStatus::Committed);
    model_.commit(episode, data, next, end);
  }

  void check() {
    ASSERT_EQ(replay_.size(), std::min(model_.size(), setting_.options.capacity_steps));
    expect_accounted(replay_);
    if (replay_.size() == 0) {
      return;
    }
    const SampleResult batch = sampler_.sample(rng_.between(1, 48));
    ASSERT_TRUE(batch);
    expect_windows_agree(*batch, world_, model_);
  }

 private:
  struct Stream {
    std::optional<Writer> writer;
    double mean_length = 1.0;
  };
  static constexpr Proportional kConstant{.initial = InitialPriority::Constant};
  static constexpr std::size_t kKeepEverything = 1'000'000;

  void begin(Writer& writer) {
    const Frame first = world_.random_frame(rng_);
    writer.begin_episode();
    world_.write_first(writer, first);
    model_.begin_episode(writer.episode_id(), first);
  }

  Rng& rng_;
  Setting setting_;
  World world_;
  ReplayBuffer replay_;
  Model model_;
  Sampler sampler_;
  std::vector<Stream> streams_;
};

TEST(Windows, AgreeWithBruteForceOverRandomEpisodesChunksShardsAndEvictions) {
  const std::size_t runs = scaled(150, 10);
  for (std::size_t run = 0; run < runs; ++run) {
    Rng rng(1000 + run);
    Comparison comparison(rng);
    SCOPED_TRACE(testing::Message() << "seed " << 1000 + run << ": " << comparison.setting());
    const std::size_t steps = rng.between(50, 1500);
    for (std::size_t step = 0; step < steps; ++step) {
      comparison.step();
      if (rng.chance(0.2)) {
        comparison.check();
      }
      if (testing::Test::HasFailure()) {
        return;
      }
    }
    comparison.check();
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

/// One episode of `rewards`, each step read back and compared; for rapidcheck, which shrinks it.
bool episode_reads_back(const std::vector<float>& rewards, const Transitions& window, End end,
                        std::size_t extra_chunk) {
  const World world;
  Options options;
  options.capacity_steps = 256;
  options.window = window;
  options.selectors = {Uniform{}};
  options.max_writers = 2;
  options.shards = 1;
  options.chunk_steps = window.n_step + window.frame_stack + extra_chunk;
  ReplayBuffer replay(world.schema(), options);
  Model model(window, {}, options.capacity_steps);
  Rng rng(rewards.size());
  Writer writer = replay.writer();
  const Frame first = world.random_frame(rng);
  writer.begin_episode();
  world.write_first(writer, first);
  const std::uint64_t episode = writer.episode_id();
  model.begin_episode(episode, first);
  for (std::size_t t = 0; t < rewards.size(); ++t) {
    const StepData step{.action = static_cast<std::int32_t>(t), .reward = rewards[t]};
    const Frame next = world.random_frame(rng);
    const End now = t + 1 == rewards.size() ? end : End::Continue;
    world.write_step(writer, step, next);
    writer.commit(now);
    model.commit(episode, step, next, now);
  }
  if (replay.size() != model.size() ||
      replay.size() != std::min<std::size_t>(rewards.size(), 256)) {
    return false;
  }
  Sampler sampler = replay.sampler();
  const SampleResult batch = sampler.sample(4 * replay.size());
  return batch && first_difference(*batch, world, model).empty();
}

TEST(Windows, OfAnyOneEpisodeReadBack) {
  EXPECT_TRUE(rc::check("an episode reads back", [] {
    const auto rewards = *rc::gen::nonEmpty(rc::gen::container<std::vector<float>>(rc::gen::map(
        rc::gen::inRange(-8, 9), [](int reward) { return static_cast<float>(reward); })));
    Transitions window;
    window.n_step = *rc::gen::inRange(1U, 12U);
    window.frame_stack = *rc::gen::inRange(1U, 8U);
    window.discount = *rc::gen::element(0.0F, 0.5F, 0.99F, 1.0F);
    window.stack_start = *rc::gen::element(StackStart::RepeatFirst, StackStart::Zeros);
    const End end = *rc::gen::element(End::Terminated, End::Truncated);
    RC_ASSERT(episode_reads_back(rewards, window, end, *rc::gen::inRange<std::size_t>(0, 30)));
  }));
}

}  // namespace
}  // namespace reprise::test
