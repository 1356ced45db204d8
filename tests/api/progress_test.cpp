#include "testing/fixtures/removers.hpp"
#include "testing/test.hpp"

// Tests that under any options some writer or sampler makes progress, and that samplers get batches
// if the buffer can hold enough items.

namespace reprise::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Options of a buffer, and of the writers and samplers that use it.
struct Trial {
  Options options;
  std::size_t batch = 1;
  Draws draws = Draws::Stratified;
  std::size_t writers = 1;
  std::size_t samplers = 1;
  std::size_t episode = 1;  ///< Number of steps in an episode.
};

Window random_window(Rng& rng) {
  if (rng.chance(0.7)) {
    return Transitions{.n_step = static_cast<std::uint32_t>(rng.between(1, 4)),
                       .frame_stack = static_cast<std::uint32_t>(rng.between(1, 3))};
  }
  return Sequences{.length = static_cast<std::uint32_t>(rng.between(1, 6)),
                   .period = static_cast<std::uint32_t>(rng.between(1, 6)),
                   .burn_in = static_cast<std::uint32_t>(rng.below(3)),
                   .end = static_cast<SequenceEnd>(rng.below(4))};
}

Selector random_selector(Rng& rng) {
  switch (rng.below(6)) {
    case 0:
      return Uniform{};
    case 1:
      return Proportional{};
    case 2:
      return RankBased{};
    case 3:
      return Lifo{};
    case 4:
      return MaxHeap{};
    default:
      return Fifo{};
  }
}

RateLimiter random_limiter(Rng& rng, const Options& options, std::size_t batch) {
  const std::size_t items = rng.between(1, options.capacity_steps);
  switch (rng.below(3)) {
    case 0:
      return MinSize{items};
    case 1: {
      // A ratio above the limit of draws is refused.
      const double max_ratio = options.max_times_sampled == 0 ? 8.0 : options.max_times_sampled;
      const double ratio = rng.chance(0.3) ? max_ratio : max_ratio * std::max(rng.unit(), 0.01);
      const double batch_and_insert = static_cast<double>(batch) + ratio;
      return SampleToInsertRatio{.samples_per_insert = ratio,
                                 .min_size = items,
                                 .error_buffer = batch_and_insert * (0.6 + 3.0 * rng.unit()) + 1.0};
    }
    default:
      return Queue{std::max(items, batch)};
  }
}

/// A random trial; nothing if the buffer's constructor or `sample` refuses its options.
std::optional<Trial> random_trial(std::uint64_t seed) {
  Rng rng(seed);
  Trial trial;
  Options& options = trial.options;
  options.capacity_steps = rng.chance(0.2) ? rng.between(1, 20) : rng.between(20, 2'000);
  options.shards = rng.between(1, std::min<std::size_t>(options.capacity_steps, 5));
  options.window = random_window(rng);
  options.selectors = {random_selector(rng)};
  const std::vector<NamedRemover> removers = all_removers();
  options.remover = rng.chance(0.5) ? Fifo{} : removers[rng.below(removers.size())].remover;
  options.max_times_sampled = rng.chance(0.7) ? static_cast<std::uint32_t>(rng.between(1, 4)) : 0;
  options.chunk_steps = rng.chance(0.5) ? 0 : rng.between(12, 64);
  trial.writers = rng.between(1, 2);
  trial.samplers = rng.between(1, 2);
  options.max_writers = trial.writers + rng.below(4);
  trial.batch = rng.between(1, std::max<std::size_t>(options.capacity_steps / 2, 1));
  trial.draws = static_cast<Draws>(rng.below(3));
  trial.episode = rng.between(1, 40);
  options.rate_limiter = random_limiter(rng, options, trial.batch);
  try {
    NumberedBuffer line(options);
    (void)as_lvalue(line.replay.sampler())
        .sample(trial.batch, {.draws = trial.draws, .timeout = 0ns});
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  return trial;
}

std::string describe_trial(const Trial& trial, std::uint64_t seed) {
  const Options& o = trial.options;
  return "seed " + std::to_string(seed) + ": capacity " + std::to_string(o.capacity_steps) +
         ", shards " + std::to_string(o.shards) + ", chunk_steps " + std::to_string(o.chunk_steps) +
         ", limit " + std::to_string(o.max_times_sampled) + ", window " +
         std::to_string(o.window.index()) + ", limiter " + std::to_string(o.rate_limiter.index()) +
         ", batch " + std::to_string(trial.batch) + ", draws " +
         std::to_string(static_cast<int>(trial.draws)) + ", writers " +
         std::to_string(trial.writers) + ", samplers " + std::to_string(trial.samplers);
}

/// The threads of a trial, whose calls have no timeouts, and the counts of their calls.
class TrialRun {
 public:
  explicit TrialRun(const Trial& trial) : trial_(trial), line_(trial.options) {
    start(threads_, trial.writers, [this] { write(); });
    start(threads_, trial.samplers, [this](std::size_t s) { sample(s); });
  }
  ~TrialRun() { line_.replay.close(); }
  TrialRun(const TrialRun&) = delete;
  TrialRun& operator=(const TrialRun&) = delete;

  /// Waits until writers have filled the buffer three times and samplers have drawn 20 batches, or
  /// 20 ms have passed and any call returns. Returns false if none does for three minutes.
  bool makes_progress() {
    const std::uint64_t steps = 3 * trial_.options.capacity_steps + 200;
    const auto deadline = Clock::now() + 20ms;
    while (commits_ < steps || batches() < 20) {
      if (Clock::now() >= deadline) {
        return anyone_progresses();
      }
      std::this_thread::sleep_for(100us);
    }
    return true;
  }
  /// Waits until every sampler has got a batch, whatever the other sampler draws (I12). Returns
  /// false after three minutes.
  bool samplers_get_batches() {
    const auto counts = std::span(batches_).first(trial_.samplers);
    return wait_for(
        [&] { return std::ranges::none_of(counts, [](const auto& n) { return n == 0; }); });
  }
  [[nodiscard]] std::string state() {
    const Stats stats = line_.replay.stats();
    return std::to_string(commits_) + " commits, " + std::to_string(batches_[0]) + " and " +
           std::to_string(batches_[1]) + " batches, " + std::to_string(stats.items) + " items of " +
           std::to_string(stats.resident_steps) +
           " steps; waiting: " + std::to_string(stats.writers_for_chunk.waiting_now) +
           " writers for chunks, " + std::to_string(stats.writers_for_limiter.waiting_now) +
           " for the limiter, " + std::to_string(stats.samplers_for_items.waiting_now) +
           " samplers for items, " + std::to_string(stats.samplers_for_limiter.waiting_now) +
           " for the limiter; " + stats.limiter;
  }

 private:
  [[nodiscard]] bool anyone_progresses() {
    const std::uint64_t before = commits_ + batches();
    return wait_for([this, before] { return commits_ + batches() != before; });
  }
  template <class Condition>
  [[nodiscard]] static bool wait_for(Condition condition) {
    const auto deadline = Clock::now() + 180s;
    while (!condition()) {
      if (Clock::now() >= deadline) {
        return false;
      }
      std::this_thread::sleep_for(100us);
    }
    return true;
  }
  void write() {
    Writer writer = line_.replay.writer();
    for (std::uint64_t number = 0;; ++number) {
      const End end =
          number % trial_.episode == trial_.episode - 1 ? End::Terminated : End::Continue;
      // The options may have selectors that need a priority for each item, such as heaps.
      const std::vector<float> priorities(items_completed(writer, number, end), 1.0F);
      if (line_.append(writer, number, end, priorities) != CommitStatus::Committed) {
        return;
      }
      commits_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// The number of items that the step completes. Begins an episode if there is none.
  std::size_t items_completed(Writer& writer, std::uint64_t number, End end) {
    if (!writer.in_episode()) {
      writer.begin_episode();
      writer.now(line_.id) = number;
    }
    return writer.completing(end);
  }
  [[nodiscard]] std::uint64_t batches() const { return batches_[0] + batches_[1]; }
  /// Draws batches until the buffer is closed. The batches of the second sampler are smaller.
  void sample(std::size_t number) {
    Sampler sampler =
        line_.replay.sampler({.seed = number, .parallel_gather_bytes = kNoParallelGather});
    const std::size_t n = number == 0 ? trial_.batch : (trial_.batch + 3) / 4;
    for (;;) {
      const SampleResult batch = sampler.sample(n, {.draws = trial_.draws});
      if (batch) {
        batches_[number].fetch_add(1, std::memory_order_relaxed);
      } else if (batch.status().code == SampleStatus::Code::Closed) {
        return;
      }
    }
  }

  const Trial& trial_;
  NumberedBuffer line_;
  std::atomic<std::uint64_t> commits_{0};
  std::array<std::atomic<std::uint64_t>, 2> batches_{};  ///< Batches of each sampler.
  std::vector<std::jthread> threads_;
};

/// Whether the buffer certainly holds enough items for a batch at some moment.
bool surely_feasible(const Trial& trial) {
  const Options& o = trial.options;
  if (!std::holds_alternative<Transitions>(o.window)) {
    return false;  // The number of sequences depends on the episodes.
  }
  // Each writer may have up to 4 steps whose windows are not complete.
  const std::size_t incomplete = trial.writers * 4;
  const std::size_t max_items =
      o.capacity_steps > 2 * incomplete ? o.capacity_steps - incomplete : 0;
  const auto* const min_size = std::get_if<MinSize>(&o.rate_limiter);
  const auto* const ratio = std::get_if<SampleToInsertRatio>(&o.rate_limiter);
  const auto* const queue = std::get_if<Queue>(&o.rate_limiter);
  const std::size_t needed =
      std::max<std::size_t>(trial.batch, min_size != nullptr ? min_size->items
                                         : ratio != nullptr  ? ratio->min_size
                                         : queue != nullptr  ? queue->size
                                                             : 0);
  return needed <= max_items;
}

struct ProgressOf : testing::TestWithParam<std::uint64_t> {
  static constexpr std::uint64_t kParts = 4;
};

INSTANTIATE_TEST_SUITE_P(Parts, ProgressOf, testing::Range(std::uint64_t{0}, ProgressOf::kParts));

TEST_P(ProgressOf, WritersAndSamplersNeverEnds) {
  const std::size_t trials = scaled(3'000 / kParts, 50);
  std::size_t run = 0;
  for (std::uint64_t seed = GetParam(); run < trials; seed += kParts) {
    const std::optional<Trial> trial = random_trial(seed);
    if (!trial) {
      continue;
    }
    ++run;
    SCOPED_TRACE(describe_trial(*trial, seed));
    TrialRun attempt(*trial);
    ASSERT_TRUE(attempt.makes_progress()) << attempt.state();
    if (surely_feasible(*trial)) {
      ASSERT_TRUE(attempt.samplers_get_batches()) << attempt.state();
    }
  }
}

TEST(Progress, ARatioAboveTheLimitOfDrawsIsRefused) {
  Options options = SmallOptions{.max_times_sampled = 3};
  options.rate_limiter =
      SampleToInsertRatio{.samples_per_insert = 3.5, .min_size = 1, .error_buffer = 64};
  expect_refusal([&] { NumberedBuffer line(options); },
                 {"SampleToInsertRatio::samples_per_insert", "3.5", "max_times_sampled = 3"});
  options.rate_limiter =
      SampleToInsertRatio{.samples_per_insert = 3, .min_size = 1, .error_buffer = 64};
  EXPECT_NO_THROW(NumberedBuffer line(options));
}

}  // namespace
}  // namespace reprise::test
