#include "model_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace reprise::test {

namespace {

std::string difference(const Batch& batch, std::size_t item, const World& world,
                       const Model& model) {
  const ItemId id{batch.episode_ids()[item], batch.positions()[item]};
  if (!model.resident(id)) {
    return "the item is not in the buffer";
  }
  const ExpectedWindow expected = model.window(id);
  std::ostringstream words;
  if (batch.lengths()[item] != expected.length) {
    words << "length " << batch.lengths()[item] << " for " << expected.length;
  } else if (world.now(batch, item) != expected.now) {
    words << "other frames at the step";
  } else if (world.next(batch, item) != expected.next) {
    words << "other frames after the return";
  } else if (world.step(batch, item) != expected.step) {
    words << "other columns of the step";
  } else if (const auto returns = static_cast<double>(world.returns(batch, item));
             !(std::abs(returns - expected.returns) <= 1e-6 * (expected.returns_scale + 1e-6))) {
    words << "return " << returns << " for " << expected.returns;
  } else if (const auto discount = static_cast<double>(batch.discounts()[item]);
             !(std::abs(discount - expected.discount) <= 1e-6 * expected.discount + 1e-30)) {
    // At a discount of 0, as after a termination, nothing but 0 will do.
    words << "discount " << discount << " for " << expected.discount;
  }
  return words.str();
}

}  // namespace

std::string first_difference(const Batch& batch, const World& world, const Model& model) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::string words = difference(batch, i, world, model);
    if (!words.empty()) {
      std::ostringstream where;
      where << "episode " << batch.episode_ids()[i] << ", position " << batch.positions()[i] << ": "
            << words;
      return where.str();
    }
  }
  return {};
}

void expect_windows_agree(const Batch& batch, const World& world, const Model& model) {
  EXPECT_EQ(first_difference(batch, world, model), "");
}

void expect_weights_agree(const Batch& batch, const Model& model, const SampleOptions& options,
                          double relative_error) {
  const double total = model.total_weight();
  const auto items = static_cast<double>(model.size());
  const auto beta = static_cast<double>(options.beta);
  double largest = 0.0;
  if (options.normalise == Normalise::ByBuffer) {
    largest = std::pow(items * model.least_weight() / total, -beta);
  } else if (options.normalise == Normalise::ByBatch) {
    for (const double probability : batch.probabilities()) {
      largest = std::max(largest, std::pow(items * probability, -beta));
    }
  } else {
    largest = 1.0;
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const ItemId id{batch.episode_ids()[i], batch.positions()[i]};
    SCOPED_TRACE(testing::Message() << "episode " << id.episode << ", position " << id.position
                                    << ", priority " << model.priority(id));
    const double probability = model.weight(model.priority(id)) / total;
    ASSERT_GT(probability, 0.0) << "drew an item of weight 0";
    ASSERT_NEAR(batch.probabilities()[i], probability, relative_error * probability);
    const double weight = std::pow(items * probability, -beta) / largest;
    ASSERT_NEAR(static_cast<double>(batch.weights()[i]), weight,
                (1e-6 + 2.0 * relative_error) * weight);
  }
}

void expect_counts_agree(const ReplayBuffer& replay, const Model& model) {
  expect_accounted(replay);
  ASSERT_EQ(replay.size(), model.size());
  expect_accounted(replay);
  const Stats stats = replay.stats();
  EXPECT_EQ(stats.committed_steps, model.committed());
  EXPECT_EQ(stats.resident_steps, model.size());
  EXPECT_EQ(stats.evicted_steps, model.evicted());
  EXPECT_EQ(stats.queued_chunks, 0U) << "size() ingests everything committed before it";
}

}  // namespace reprise::test
