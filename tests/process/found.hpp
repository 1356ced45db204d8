#pragma once

#include "process/hosted.hpp"
#include "process/lives.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// All items of a buffer of `NamedSteps`, by the guest and the environment that appended them. Each
/// item is checked when it is read.
struct FoundItems {
  struct Step {
    std::uint32_t length;
    float discount;
    std::uint64_t episode;
  };
  /// By {life, environment}, and then by the number of the step.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::map<std::uint64_t, Step>> steps;

  FoundItems(ReplayBuffer& replay, const NamedSteps& named) {
    Sampler sampler = replay.selector(1).sampler({.parallel_gather_bytes = kNoParallelGather});
    std::size_t drawn = 0;
    for (std::size_t left = replay.size(); left != 0;) {
      const std::size_t n = std::min<std::size_t>(left, 4096);
      const auto batch = require_batch(sampler.sample(n, {.draws = Draws::Epoch}));
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(named.error_in(*batch, i), "");
        const auto name = NamedSteps::Name::of(batch->now(named.name)[i]);
        steps[{name.life, name.environment}][name.step] = {
            batch->lengths()[i], batch->discounts()[i], batch->episode_ids()[i]};
      }
      drawn += n;
      left -= n;
    }
    std::size_t different = 0;
    for (const auto& [environment, of_environment] : steps) {
      different += of_environment.size();
    }
    EXPECT_EQ(different, drawn) << "a step is in the buffer twice";
  }

  /// Expects exactly the first `count` steps of an environment to be items, with the windows that
  /// they have if the open episode was cut after the last of these steps.
  void expect_steps(std::uint64_t life, std::uint64_t environment, std::uint64_t count) {
    const auto& all = steps[{life, environment}];
    ASSERT_EQ(all.size(), count);
    for (std::uint64_t s = 0; s < count; ++s) {
      const NamedSteps::Name name{life, environment, s};
      ASSERT_TRUE(all.contains(s)) << "life " << life << " lacks step " << s;
      std::uint32_t length = 1;
      while (length < NamedSteps::kNStep && s + length < count &&
             !NamedSteps::begins_episode({life, environment, s + length})) {
        ++length;
      }
      ASSERT_EQ(all.at(s).length, length) << "life " << life << ", step " << s << " of " << count;
      const bool terminated =
          NamedSteps::end({life, environment, s + length - 1}) == End::Terminated;
      ASSERT_EQ(all.at(s).discount,
                terminated ? 0.0F : std::pow(NamedSteps::kDiscount, static_cast<float>(length)));
      if (!NamedSteps::begins_episode(name)) {
        ASSERT_EQ(all.at(s).episode, all.at(s - 1).episode);
      }
    }
  }
};

}  // namespace reprise::test
