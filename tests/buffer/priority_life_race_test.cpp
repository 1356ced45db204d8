// Tests `set_alpha` and `decay` while other threads append, draw and update.
//
// Every priority is a power of 4 and every alpha or decay a power of 2, so that weights are powers
// of 2 and no conversion rounds.
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::array kAlphas{0.5F, 1.0F, 2.0F};

/// A power of 4 from 4^-4 to 4^4.
float random_priority(Rng& rng) {
  return std::ldexp(1.0F, 2 * static_cast<int>(rng.below(9)) - 8);
}

Options many_shards(std::size_t capacity) {
  return SmallOptions{.capacity_steps = capacity,
                      .selectors = {Proportional{.alpha = 1.0F, .epsilon = 0.0F}},
                      .shards = 3};
}

/// Expects the weights of the given items to be the squares of their priorities, and the weights of
/// other items to be powers of 16.
void expect_squared_weights(NumberedBuffer& line, const std::map<std::uint64_t, float>& given) {
  // One item of known priority gives the unit of all weights.
  double unit = 0.0;
  const auto probabilities = line.probabilities(1 << 16);
  for (const auto& [number, priority] : given) {
    if (probabilities.contains(number)) {
      unit = probabilities.at(number) / std::pow(priority, 2.0);
      break;
    }
  }
  ASSERT_GT(unit, 0.0);
  for (const auto& [number, probability] : probabilities) {
    const double weight = probability / unit;
    if (given.contains(number)) {
      ASSERT_NEAR(weight / std::pow(given.at(number), 2.0), 1.0, 1e-12) << "item " << number;
    } else {
      // The item got the highest priority at the moment of its commit, which is 4^k for some k from
      // -4 to 4, so it weighs 16^k now.
      const double k = std::log2(weight) / 4;
      ASSERT_NEAR(k, std::round(k), 1e-9) << "item " << number << " weighs " << weight;
      ASSERT_LE(std::abs(k), 4.1) << "item " << number << " weighs " << weight;
    }
  }
}

TEST(SetAlphaRace, EveryWeightIsThatOfTheLastAlphaInTheEnd) {
  constexpr std::uint64_t kItems = 600;
  constexpr std::size_t kUpdaters = 3;
  const std::uint64_t appended = scaled(4000, 400);
  NumberedBuffer line(many_shards(kItems + appended));
  Rng rng(1);
  // Priorities by number; items that are missing here have an initial priority.
  std::map<std::uint64_t, float> given;
  for (std::uint64_t i = 0; i < kItems; ++i) {
    given[i] = random_priority(rng);
    line.append(i, given[i]);
  }
  const auto keys = line.keys();
  std::atomic<std::size_t> busy = kUpdaters + 1;
  std::vector<std::map<std::uint64_t, float>> last(kUpdaters);
  std::vector<std::jthread> threads;
  // Each thread updates the items whose number modulo kUpdaters is its own.
  start(threads, kUpdaters, [&](std::size_t updater) {
    Rng own(100 + updater);
    for (std::size_t round = 0; round < scaled(1000, 100); ++round) {
      std::vector<ItemKey> updated_keys;
      std::vector<float> priorities;
      for (std::size_t i = 0; i < 50; ++i) {
        const std::uint64_t number = own.below(kItems / kUpdaters) * kUpdaters + updater;
        updated_keys.push_back(keys.at(number));
        priorities.push_back(random_priority(own));
        last[updater][number] = priorities.back();
      }
      ASSERT_EQ(line.replay.update_priorities(updated_keys, priorities).applied, 50U);
    }
    busy.fetch_sub(1);
  });
  threads.emplace_back([&] {
    Rng own(200);
    for (std::uint64_t i = kItems; i < kItems + appended; ++i) {
      if (i % 2 == 0) {
        line.append(i);
      } else {
        given[i] = random_priority(own);
        line.append(i, given[i]);
      }
    }
    busy.fetch_sub(1);
  });
  while (busy.load() != 0) {
    line.replay.selector().set_alpha(kAlphas[rng.below(kAlphas.size())]);
    std::this_thread::yield();
  }
  threads.clear();
  line.replay.selector().set_alpha(2.0F);
  for (const auto& of_updater : last) {
    for (const auto& [number, priority] : of_updater) {
      given[number] = priority;
    }
  }
  ASSERT_EQ(line.replay.size(), kItems + appended);

  expect_squared_weights(line, given);
}

TEST(SetAlphaRace, NoDrawThatLocksAllShardsSeesAChangeInOnlySomeOfThem) {
  constexpr std::uint64_t kItems = 60;
  Options options = many_shards(kItems);
  options.chunk_steps = 4;
  // With a limit of draws, a draw holds the locks of all shards.
  options.max_times_sampled = 1U << 31U;
  NumberedBuffer line(options);
  line.append_many(0, kItems, [&](std::uint64_t i) { return i % 2 == 0 ? 1.0F : 4.0F; });
  (void)line.replay.size();
  const std::size_t rounds = scaled(3000, 300);
  // With no more decays than this, every weight stays in the range of a float.
  constexpr std::size_t kDecays = 24;
  std::atomic<std::size_t> drawn = 0;
  std::atomic<bool> done = false;
  std::jthread changer([&] {
    Rng rng(3);
    for (std::size_t decays = 0; !done.load();) {
      line.replay.selector().set_alpha(kAlphas[rng.below(kAlphas.size())]);
      if (drawn.load() * kDecays > decays * rounds) {
        // If a draw saw the decay in only some shards, the probabilities would be wrong.
        line.replay.selector().decay(0.5F);
        ++decays;
      }
      line.replay.selector().set_alpha(1.0F);
      std::this_thread::yield();
    }
  });
  Sampler sampler = line.replay.sampler();
  // An item of priority 4 has 4^alpha times the P of an item of priority 1, and all P add up to 1.
  for (; drawn.load() < rounds; ++drawn) {
    const SampleResult batch = sampler.sample(16);
    if (!batch) {
      ADD_FAILURE() << batch.status().message();
      break;
    }
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const bool heavy = batch->now(line.id)[i] % 2 == 1;
      bool of_an_alpha = false;
      for (const double alpha : kAlphas) {
        const double heavy_weight = std::pow(4.0, alpha);
        const double probability =
            (heavy ? heavy_weight : 1.0) / (0.5 * kItems * (1.0 + heavy_weight));
        of_an_alpha |= std::abs(batch->probabilities()[i] / probability - 1.0) < 1e-5;
      }
      EXPECT_TRUE(of_an_alpha) << "P " << batch->probabilities()[i] << " of item "
                               << batch->now(line.id)[i];
    }
    if (HasFailure()) {
      break;
    }
  }
  done.store(true);
}

TEST(DecayRace, EveryWeightHasDecayedOncePerDecaySinceItsLastUpdate) {
  constexpr std::uint64_t kItems = 300;
  constexpr std::uint64_t kUpdated = kItems / 2;
  constexpr int kDecays = 8;
  NumberedBuffer line(many_shards(kItems));
  line.append_many(0, kItems, 1.0F);
  std::vector<ItemKey> keys = line.key_list();
  const std::vector<float> ones(kItems, 1.0F);
  for (std::size_t round = 0; round < scaled(50, 5); ++round) {
    line.replay.update_priorities(keys, ones);
    std::atomic<bool> done = false;
    std::jthread updater([&] {
      while (!done.load()) {
        line.replay.update_priorities(std::span(keys).first(kUpdated),
                                      std::span(ones).first(kUpdated));
      }
    });
    for (int i = 0; i < kDecays; ++i) {
      line.replay.selector().decay(0.5F);
      std::this_thread::yield();
    }
    done.store(true);
    updater.join();
    line.replay.update_priorities(std::span(keys).first(1), std::span(ones).first(1));
    const auto probabilities = line.probabilities(1 << 14);
    for (const auto& [number, probability] : probabilities) {
      const double halvings = std::log2(probabilities.at(0) / probability);
      if (number >= kUpdated) {
        ASSERT_NEAR(halvings, kDecays, 1e-9) << "item " << number;
      } else {
        ASSERT_NEAR(halvings, std::round(halvings), 1e-9) << "item " << number;
        ASSERT_TRUE(halvings > -0.1 && halvings < kDecays + 0.1) << "item " << number;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::test
