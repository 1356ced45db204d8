#include "testing/faults/child.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"

#include <fstream>

// Tests that `Stats::touched_bytes` is the memory that the process uses, within documented bounds.

namespace reprise::test {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kHugePage = 2048 * kKiB;

/// The reason why the memory of a buffer cannot be measured on this system; empty if it can be.
std::string why_not_measurable() {
  if (kAddressSanitizer || kThreadSanitizer) {
    return "the sanitizer uses memory itself";
  }
  std::string enabled;
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::getline(file, enabled);
  if (enabled.find("[madvise]") == std::string::npos &&
      enabled.find("[always]") == std::string::npos) {
    return "this machine gives no transparent huge pages: '" + enabled + "'";
  }
  return "";
}

/// Bytes of the process that are in memory; 0 if the system does not report them.
std::size_t resident_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  while (rollup >> word) {
    if (word == "Rss:") {
      std::size_t kib = 0;
      rollup >> kib;
      return kib * kKiB;
    }
  }
  return 0;
}

/// A buffer to which `steps` steps were appended.
struct Filled {
  Schema schema;
  ScalarObservation<std::uint64_t> state = schema.observation<std::uint64_t>("state");
  Reward reward = schema.reward("reward");
  ReplayBuffer replay;
  Writer writer = replay.writer();

  Filled(const Options& options, std::size_t steps) : replay(schema, options) {
    writer.begin_episode();
    writer.now(state) = 0;
    for (std::size_t i = 0; i < steps; ++i) {
      writer.now(reward) = 1.0F;
      writer.next(state) = i;
      writer.commit();
      if (i % kKiB == 0) {
        static_cast<void>(replay.size());  // Ingests steps, so that their weights take memory.
      }
    }
    static_cast<void>(as_lvalue(replay.sampler({.seed = 1})).sample(64));
  }
};

/// The buffers to fill, and the bounds of the memory that they may use.
struct MemoryCase {
  Options options;
  std::size_t steps = 0;       ///< Steps appended to each buffer.
  std::size_t page_bytes = 0;  ///< Bytes beside `touched_bytes` that partly filled pages may take.
  std::size_t buffers = 1;
  double min_share = 0.9;  ///< The least memory, as a share of `touched_bytes`.
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
};

/// Compares the memory used with `touched_bytes`, in a child process, because here the buffers
/// would reuse memory that other tests have freed.
void expect_reported_memory(const MemoryCase& tested) {
  expect_in_child([&tested]() -> std::string {
    // Brings the pages of the program's code into memory.
    { const Filled first({.capacity_steps = 100}, 100); }
    std::vector<std::unique_ptr<Filled>> filled;
    filled.reserve(tested.buffers);
    const std::size_t before = resident_bytes();
    for (std::size_t i = 0; i < tested.buffers; ++i) {
      filled.push_back(std::make_unique<Filled>(tested.options, tested.steps));
    }
    const auto used = static_cast<double>(resident_bytes() - before);
    const auto sum = static_cast<double>(tested.buffers * filled[0]->replay.stats().touched_bytes);
    const bool within_bounds = before != 0 && used >= tested.min_share * sum &&
                               used <= 1.1 * sum + static_cast<double>(tested.page_bytes) &&
                               used <= static_cast<double>(tested.max_bytes);
    return within_bounds ? ""
                         : std::to_string(tested.buffers) + " buffers of " +
                               std::to_string(tested.options.capacity_steps) + " steps: counted " +
                               std::to_string(sum) + " bytes, used " + std::to_string(used);
  });
}

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not_measurable(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
};

/// The bytes of the pages that each shard and selector fills only in part.
constexpr std::size_t kSmallPages = 32 * kKiB;

TEST_F(Memory, OfALargeBufferIsReported) {
  constexpr std::size_t kSteps = std::size_t{1} << 20U;
  for (const std::size_t shards : {1U, 4U}) {
    // A row takes 32 bytes.
    expect_reported_memory({.options = {.capacity_steps = kSteps, .shards = shards},
                            .steps = kSteps + kSteps / 4,
                            .page_bytes = shards * kSmallPages,
                            .max_bytes = 50 * kSteps});
  }
}

TEST_F(Memory, OfSeveralSelectorsIsReported) {
  constexpr std::size_t kSteps = std::size_t{1} << 19U;
  expect_reported_memory({.options = {.capacity_steps = kSteps,
                                      .selectors = {RankBased{}, Lifo{}, MaxHeap{}, Uniform{}},
                                      .max_times_sampled = 3},
                          .steps = kSteps + kSteps / 4,
                          .page_bytes = 4 * 4 * kSmallPages,
                          .min_share = 0.8});
}

TEST_F(Memory, OfManySmallBuffersIsReported) {
  expect_reported_memory({.options = {.capacity_steps = 10'000},
                          .steps = 15'000,
                          .page_bytes = 50 * 4 * kSmallPages,
                          .buffers = 50});
}

TEST_F(Memory, OfManyShardsIsReported) {
  expect_reported_memory({.options = {.capacity_steps = 16'384, .shards = 256},
                          .steps = 20'000,
                          .page_bytes = 256 * kSmallPages});
}

TEST_F(Memory, OfAHardlyFilledBufferIsAtMostAHugePageMorePerShardAndArray) {
  // Each shard has five arrays: rows, priorities, and three of weights.
  expect_reported_memory({.options = {.capacity_steps = std::size_t{1} << 20U},
                          .steps = 10'000,
                          .page_bytes = std::size_t{4} * 5 * kHugePage});
  // The reserved chunks of all possible writers would fill huge pages. The buffer must not touch
  // them, except for 128 bytes of counts per writer.
  expect_reported_memory({.options = {.capacity_steps = 20'000, .max_writers = 2048},
                          .steps = 20'000,
                          .page_bytes = 4 * kSmallPages + std::size_t{2048} * 128});
}

}  // namespace
}  // namespace reprise::test
