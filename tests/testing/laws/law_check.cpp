#include "law_check.hpp"

#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::uint64_t kSamplerSeed = 3;
/// Above this probability too few digits of 1 - n * P are exact.
constexpr double kNearlyCertain = 0.999;

Options with_selector(Options options, const Selector& selector) {
  options.selectors.insert(options.selectors.begin(), selector);
  options.episode_index = true;
  return options;
}

}  // namespace

Options LawCheck::options(std::size_t shards) {
  return SmallOptions{.capacity_steps = 100, .selectors = {}, .shards = shards};
}

LawCheck::LawCheck(const SelectorLaw& law, Options options, std::uint64_t seed)
    : line(with_selector(std::move(options), law.selector)),
      law_(law),
      rng_(seed),
      alpha_(double{law.alpha}),
      tolerance_(law.tolerance),
      sampler_(line.replay.sampler(
          {.seed = kSamplerSeed + seed, .parallel_gather_bytes = kNoParallelGather})) {
  make_writers();
}

void LawCheck::make_writers() {
  writers_.clear();
  for (int i = 0; i < 5; ++i) {
    writers_.push_back(line.replay.writer());
  }
}

void LawCheck::append_one(std::span<const float> priority) {
  const std::uint64_t number = all_.size();
  Writer& writer = writers_[number % writers_.size()];
  writer.begin_episode();
  writer.now(line.id) = number;
  if (line.version) {
    writer.set_version(version_of(number));
  }
  Item item{.priority = 1.0F, .episode = writer.episode_id()};
  std::uint64_t highest = number;
  if (!priority.empty()) {
    item.priority = priority.front();
  } else {
    find_items();
    highest = *std::ranges::max_element(numbers_, {}, [&](std::uint64_t other) {
      return double{all_[other].priority} * all_[other].decay_factor;
    });
    item.priority = all_[highest].priority;
    item.decay_factor = all_[highest].decay_factor;
  }
  ASSERT_EQ(line.append(writer, number, End::Terminated, priority), CommitStatus::Committed);
  all_.push_back(item);
  numbers_.push_back(number);
  if (highest == number) {
    return;  // The item has a priority of its own, so nothing needs to be ingested yet.
  }
  find_items();
  if (!std::ranges::binary_search(numbers_, highest)) {
    // The append may have evicted the item with the highest priority, before or after it looked for
    // that priority. So the new item's priority is unknown, and is set.
    set_priority(number, 1.0F);
  }
}

void LawCheck::set_priority(std::uint64_t number, float priority) {
  find_items();
  ASSERT_EQ(line.update(all_[number].key, priority).applied, 1U);
  all_[number].priority = priority;
  all_[number].decay_factor = 1.0;
}

void LawCheck::append(std::span<const float> priorities) {
  for (const float& priority : priorities) {
    append_one({&priority, 1});
  }
}

void LawCheck::append_random(std::size_t count) {
  const bool many = count > line.replay.options().capacity_steps;
  for (; count != 0; --count) {
    const float priority = random_priority();
    const bool has_priority = law_.in_order || many || all_.size() < 10 || !rng_.chance(0.3);
    append_one(std::span(&priority, has_priority ? 1 : 0));
  }
}

void LawCheck::find_items() {
  const std::uint32_t limit = line.replay.options().max_times_sampled;
  std::erase_if(numbers_, [&](std::uint64_t number) {
    Item& item = all_[number];
    const auto key = line.replay.episodes().find(item.episode, 0);
    item.key = key.value_or(ItemKey{});
    return !key || (limit != 0 && item.draws >= limit) ||
           version_of(number) + kStaleness < version_;
  });
  set_probabilities();
}

std::vector<double> LawCheck::weights() {
  find_items();
  return weights_now();
}

std::vector<double> LawCheck::weights_now() const {
  std::vector<LawItem> items;
  for (const std::uint64_t number : numbers_) {
    const Item& item = all_[number];
    items.push_back({item.priority, item.decay_factor, all_.size() - 1 - number});
  }
  return law_.weights(items, alpha_);
}

void LawCheck::set_probabilities() {
  probabilities_ = weights_now();
  const double total =
      law_.in_order ? 1.0 : std::accumulate(probabilities_.begin(), probabilities_.end(), 0.0);
  for (double& probability : probabilities_) {
    probability /= total;
  }
}

double LawCheck::probability_of(std::uint64_t number) const {
  const auto place = std::ranges::lower_bound(numbers_, number) - numbers_.begin();
  return probabilities_[static_cast<std::size_t>(place)];
}

void LawCheck::update(std::size_t count) {
  find_items();
  std::vector<ItemKey> keys;
  std::vector<float> priorities;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = numbers_[rng_.below(numbers_.size())];
    for (int twice = rng_.chance(1.0 / 6.0) ? 2 : 1; twice != 0; --twice) {
      keys.push_back(all_[number].key);
      priorities.push_back(random_priority());
    }
    all_[number].priority = priorities.back();
    all_[number].decay_factor = 1.0;
  }
  ASSERT_EQ(line.replay.update_priorities(keys, priorities).applied, keys.size());
}

void LawCheck::remove(std::size_t count) {
  find_items();
  for (; count != 0 && numbers_.size() > 1; --count) {
    const ItemKey key = all_[numbers_[rng_.below(numbers_.size())]].key;
    ASSERT_EQ(line.replay.remove({&key, 1}), 1U);
    find_items();
  }
}

void LawCheck::set_alpha(float alpha) {
  line.replay.selector().set_alpha(alpha);
  EXPECT_EQ(line.replay.selector().alpha(), alpha);
  alpha_ = double{alpha};
  tolerance_ = 1e-5;  // Each change of alpha rounds all weights once more.
}

void LawCheck::decay() {
  line.replay.selector().decay(0.5F);
  for (const std::uint64_t number : numbers_) {
    all_[number].decay_factor *= std::pow(0.5, 1.0 / alpha_);
  }
}

void LawCheck::raise_version() {
  version_ = static_cast<std::int64_t>(all_.size() / kItemsPerVersion) + kStaleness;
  line.replay.set_version(version_);
}

void LawCheck::save_and_restore() {
  const ScratchDirectory directory;
  writers_.clear();
  line.replay.save(directory.path());
  line.replay.restore(directory.path());
  make_writers();
  sampler_ = line.replay.sampler(
      {.seed = kSamplerSeed + all_.size(), .parallel_gather_bytes = kNoParallelGather});
}

void LawCheck::draw(std::size_t n, const SampleOptions& how) {
  find_items();
  const SampleResult batch = sampler_.sample(n, how);
  ASSERT_TRUE(batch) << batch.status().message();
  ASSERT_EQ(batch->size(), n);
  for (const std::uint64_t number : batch->now(line.action)) {
    ASSERT_TRUE(std::ranges::binary_search(numbers_, number)) << "item " << number << " is gone";
  }
  law_.in_order ? check_order(*batch) : check_probabilities(*batch, how);
  for (const std::uint64_t number : batch->now(line.action)) {
    ++all_[number].draws;
  }
}

void LawCheck::check_order(const Batch& batch) const {
  const auto drawn = batch.now(line.action);
  ASSERT_EQ(std::set(drawn.begin(), drawn.end()).size(), drawn.size()) << "an item comes twice";
  std::vector<double> expected = weights_now();
  std::ranges::sort(expected, std::greater());
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    ASSERT_EQ(probability_of(drawn[i]), expected[i]) << "place " << i << ", item " << drawn[i];
    ASSERT_EQ(batch.probabilities()[i], 1.0);
    ASSERT_EQ(batch.weights()[i], 1.0F);
  }
}

/// The value by which the batch's importance weights are divided.
double LawCheck::importance_divisor(const Batch& batch, const SampleOptions& how) const {
  double min_probability = std::numeric_limits<double>::infinity();
  if (how.normalise == Normalise::ByBatch) {
    min_probability = *std::ranges::min_element(batch.probabilities());
  } else if (how.normalise == Normalise::ByBuffer) {
    for (const double probability : probabilities_) {
      min_probability =
          probability > 0.0 ? std::min(min_probability, probability) : min_probability;
    }
    const double alike = law_.uniform / static_cast<double>(numbers_.size());
    min_probability = alike > 0.0 ? std::min(min_probability, alike) : min_probability;
  } else {
    return 1.0;
  }
  return std::pow(static_cast<double>(numbers_.size()) * min_probability, -double{how.beta});
}

void LawCheck::check_probabilities(const Batch& batch, const SampleOptions& how) {
  const bool without_replacement = how.draws == Draws::WithoutReplacement;
  // If items have a draw limit, an item may reach the limit within a batch, and other items are
  // drawn in its place, so the batch does not follow the law.
  const bool counted =
      !without_replacement && (batch.size() == 1 || line.replay.options().max_times_sampled == 0);
  const auto n = static_cast<double>(batch.size());
  const double divisor = importance_divisor(batch, how);
  double threshold = 0.0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t number = batch.now(line.action)[i];
    const double exact = probability_of(number);
    const double p = batch.probabilities()[i];
    ASSERT_GT(exact, 0.0) << "item " << number << " weighs nothing";
    if (!without_replacement) {
      ASSERT_NEAR(p, exact, tolerance_ * exact) << "item " << number;
    } else if (n * p < kNearlyCertain) {
      // An item is in the batch with probability n * P = 1 - exp(-weight * t), with one t for all
      // items.
      const double t = -std::log1p(-n * p) / exact;
      threshold = threshold == 0.0 ? t : threshold;
      ASSERT_NEAR(t, threshold, (1e-6 + 2.0 * tolerance_) * threshold) << "item " << number;
    }
    const double importance =
        std::pow(static_cast<double>(numbers_.size()) * p, -double{how.beta}) / divisor;
    ASSERT_NEAR(double{batch.weights()[i]}, importance, (2e-6 + 2.0 * tolerance_) * importance);
    if (counted) {
      counts_.count(number);
    }
  }
  for (std::size_t i = 0; i < numbers_.size() && counted; ++i) {
    counts_.expect(numbers_[i], n * probabilities_[i]);
  }
}

}  // namespace reprise::test
