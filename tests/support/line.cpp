#include "line.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace reprise::test {
namespace {

Options with_uniform(Options options) {
  options.selectors.push_back(Uniform{});
  return options;
}

}  // namespace

Options small_options() {
  Options options;
  options.capacity_steps = 64;
  options.selectors = {kRaw};
  options.max_writers = 8;
  options.chunk_steps = 8;
  options.shards = 1;
  options.key_tag = 7;
  return options;
}

Line::Line(Options options)
    : id(schema.observation<std::uint64_t>("id")),
      action(schema.column<std::uint64_t>("action")),
      reward(schema.reward("reward")),
      replay(schema, with_uniform(std::move(options))) {}

CommitStatus Line::append(Writer& writer, std::uint64_t number, End end,
                          std::span<const float> priorities) {
  if (!writer.in_episode()) {
    writer.begin_episode();
    writer.now(id) = number;
  }
  writer.now(action) = number;
  writer.now(reward) = static_cast<float>(number);
  writer.next(id) = number + 1;
  return writer.commit(end, priorities);
}

void Line::append_many(Writer& writer, std::uint64_t first, std::size_t count) {
  for (std::uint64_t number = first; number < first + count; ++number) {
    append(writer, number);
  }
}

std::map<std::uint64_t, ItemKey> Line::keys() {
  const std::size_t items = replay.size();
  std::map<std::uint64_t, ItemKey> found;
  if (items == 0) {
    return found;
  }
  Sampler sampler = replay.sampler(
      {.selector = replay.options().selectors.size() - 1, .parallel_gather_bytes = kGatherAlone});
  const SampleResult batch = sampler.sample(4 * items, kAtOnce);
  if (!batch) {
    return found;
  }
  for (std::size_t i = 0; i < batch->size(); ++i) {
    found[batch->now(action)[i]] = batch->keys()[i];
  }
  return found;
}

std::vector<std::uint64_t> Line::numbers() {
  std::vector<std::uint64_t> all;
  for (const auto& [number, key] : keys()) {
    all.push_back(number);
  }
  return all;
}

std::map<std::uint64_t, double> Line::probabilities(std::size_t draws, std::size_t selector) {
  std::map<std::uint64_t, double> found;
  Sampler sampler = replay.sampler({.selector = selector});
  const SampleResult batch = sampler.sample(draws, kAtOnce);
  if (!batch) {
    return found;
  }
  for (std::size_t i = 0; i < batch->size(); ++i) {
    found[batch->now(action)[i]] = batch->probabilities()[i];
  }
  return found;
}

std::vector<std::uint64_t> numbers_between(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> all(last - first);
  std::iota(all.begin(), all.end(), first);
  return all;
}

void expect_accounted(const ReplayBuffer& replay) {
  const Stats stats = replay.stats();
  EXPECT_EQ(stats.committed_steps,
            stats.resident_steps + stats.excess_steps + stats.evicted_steps + stats.pending_steps)
      << "resident " << stats.resident_steps << ", evicted " << stats.evicted_steps << ", pending "
      << stats.pending_steps;
}

}  // namespace reprise::test
