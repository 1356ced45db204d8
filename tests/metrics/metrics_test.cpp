#include <reprise/metrics.hpp>

#include "metrics/served.hpp"
#include "testing/test.hpp"

#include <fstream>
#include <sstream>

namespace reprise::metrics {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Not;

Options newest_first() {
  return test::SmallOptions{.selectors = {Lifo{}}};
}

/// The names of the members of `Stats` whose type is one of `types`.
std::set<std::string> members(const std::set<std::string>& types) {
  std::ifstream in(std::string(REPRISE_HEADERS) + "/options.hpp");
  std::set<std::string> names;
  std::string line;
  while (std::getline(in, line) && line != "struct Stats {") {
  }
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string type;
    std::string name;
    if (words >> type >> name && types.contains(type)) {
      names.insert(name.substr(0, name.find(';')));
    }
  }
  return names;
}

/// The names of the members of `Stats` that are whole numbers.
std::set<std::string> numbers_of_stats() {
  return members({"std::uint64_t", "std::size_t"});
}

TEST(Metrics, HaveTheValuesOfStats) {
  MeasuredBuffer measured;
  auto& [served, line, meter, writer, sampler] = measured;
  measured.append_many(0, 100);
  EXPECT_TRUE(meter.sample(sampler, 3));
  const SampleResult batch = meter.sample(sampler, 8);
  const std::vector<float> priorities(8, 2.0F);
  meter.update_priorities(batch->keys(), priorities);
  measured.append_many(100, 100);
  meter.update_priorities(batch->keys().first(5), std::span(priorities).first(5));
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.stale_updates, 5U);
  const std::map<std::string, std::uint64_t> expected{
      {"committed_steps_total", stats.committed_steps},
      {"evicted_steps_total", stats.evicted_steps},
      {"sampled_items_total", stats.sampled_items},
      {"sampled_batches_total", stats.sampled_batches},
      {"applied_updates_total", stats.applied_updates},
      {"stale_updates_total", stats.stale_updates},
      {"dead_guest_steps_total", stats.dead_guest_steps},
      {"cut_episodes_total", stats.cut_episodes},
      {"ever_outdated_items_total", stats.ever_outdated_items},
      {"resident_steps", stats.resident_steps},
      {"excess_steps", stats.excess_steps},
      {"items", stats.items},
      {"pending_steps", stats.pending_steps},
      {"outdated_items", stats.outdated_items},
      {"version", stats.version},
      {"writers", stats.writers},
      {"queued_chunks", stats.queued_chunks},
      {"retired_pinned", stats.retired_pinned},
      {"chunks", stats.chunks},
      {"chunks_touched", stats.chunks_touched},
      {"chunk_bytes", stats.chunk_bytes},
      {"reserved_bytes", stats.reserved_bytes},
      {"touched_bytes", stats.touched_bytes},
      {"compressed_bytes", stats.compressed_bytes},
      {"uncompressed_bytes", stats.uncompressed_bytes},
      {"file_bytes", stats.file_bytes},
      {"closed_chunks", stats.closed_chunks},
      {"writer_ingests", stats.writer_ingests},
      {"guests", stats.guests},
      {"unsaved_steps", stats.unsaved_steps},
  };
  EXPECT_EQ(expected.size(), numbers_of_stats().size()) << "the list above lacks a number";
  const std::map<std::string, double> values = served.values();
  for (const auto& [name, number] : expected) {
    EXPECT_EQ(values.at("reprise_" + name + "{buffer=\"replay\"}"), static_cast<double>(number))
        << name;
  }
  EXPECT_EQ(values.at("reprise_samples_per_insert{buffer=\"replay\"}"), 11.0 / 200.0);
}

TEST(Metrics, HaveEachNumberOfStats) {
  ServedMetrics served;
  test::NumberedBuffer line;
  const Meter meter = served.metrics.watch(line.replay);
  const std::string text = served.text();
  const std::set<std::string> waits = members({"WaitStats"});
  std::set<std::string> numbers = numbers_of_stats();
  constexpr std::size_t kOthers = sizeof(Stats::samples_per_insert) + sizeof(Stats::limiter);
  EXPECT_EQ(numbers.size() * sizeof(std::uint64_t) + waits.size() * sizeof(WaitStats),
            sizeof(Stats) - kOthers);
  numbers.insert("samples_per_insert");
  for (const std::string& name : numbers) {
    EXPECT_TRUE(text.find("reprise_" + name + "{") != std::string::npos ||
                text.find("reprise_" + name + "_total{") != std::string::npos)
        << name;
  }
  for (const std::string& what : waits) {
    EXPECT_THAT(text, HasSubstr("reprise_waits_total{buffer=\"replay\",what=\"" + what + "\"}"));
  }
}

TEST(Metrics, HaveEachFamilyOnceForAnyNumberOfBuffers) {
  ServedMetrics served;
  test::NumberedBuffer one;
  test::NumberedBuffer two;
  const Meter first = served.metrics.watch(one.replay, "one");
  std::optional<Meter> second(served.metrics.watch(two.replay, "two"));
  one.replay.close();
  const std::string text = served.text();
  std::map<std::string, int> types;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE reprise_")) {
      ++types[line];
    }
  }
  EXPECT_GT(types.size(), 25U);
  for (const auto& [type, times] : types) {
    EXPECT_EQ(times, 1) << type;
    EXPECT_EQ(type.ends_with("_total counter"), type.ends_with(" counter")) << type;
    EXPECT_EQ(type.ends_with("_total counter"), type.find("_total ") != std::string::npos) << type;
  }
  EXPECT_TRUE(types.contains("# TYPE reprise_items gauge"));
  EXPECT_TRUE(types.contains("# TYPE reprise_wait_seconds_total counter"));
  EXPECT_TRUE(types.contains("# TYPE reprise_call_seconds histogram"));
  EXPECT_THAT(text, HasSubstr("reprise_items{buffer=\"one\"}"));
  EXPECT_THAT(text, HasSubstr("reprise_items{buffer=\"two\"}"));
  second.reset();
  EXPECT_THAT(served.text(), HasSubstr("reprise_items{buffer=\"one\"}"));
  EXPECT_THAT(served.text(), Not(HasSubstr("buffer=\"two\"")));
}

TEST(Metrics, RefuseANameThatAnotherBufferHas) {
  ServedMetrics served;
  test::NumberedBuffer one;
  test::NumberedBuffer two;
  {
    const Meter meter = served.metrics.watch(one.replay, "online");
    EXPECT_THROW(static_cast<void>(served.metrics.watch(two.replay, "online")),
                 std::invalid_argument);
    EXPECT_THAT(served.text(), HasSubstr("buffer=\"online\""));
  }
  EXPECT_NO_THROW(static_cast<void>(served.metrics.watch(two.replay, "online")));
}

TEST(Metrics, HaveTheValuesOfStatsForEachKindOfWait) {
  MeasuredBuffer measured(
      test::SmallOptions{.rate_limiter = SampleToInsertRatio{
                             .samples_per_insert = 1.0, .min_size = 8, .error_buffer = 8.0}});
  auto& [served, line, meter, writer, sampler] = measured;
  const SampleOptions brief{.timeout = std::chrono::milliseconds(1)};
  // Each kind of wait times out a different number of times, so that no two are confused.
  EXPECT_FALSE(meter.sample(sampler, 4, brief));
  writer.set_timeout(brief.timeout);
  for (int timeouts = 0; timeouts < 2;) {
    timeouts += line.append(writer, 0) == CommitStatus::Committed ? 0 : 1;
  }
  for (int timeouts = 0; timeouts < 3;) {
    timeouts += meter.sample(sampler, 4, brief) ? 0 : 1;
  }
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(meter.sample(sampler, 4, {.stop = stopped.get_token()}));
  const std::jthread waiting([&] {
    Sampler held = line.replay.sampler();
    EXPECT_EQ(meter.sample(held, 4).status().code, SampleStatus::Code::Closed);
  });
  test::yield_while([&] { return line.replay.stats().samplers_for_limiter.waiting_now == 0; });
  const auto series = [](const std::string& metric, const std::string& what) {
    return "reprise_" + metric + "{buffer=\"replay\",what=\"" + what + "\"}";
  };
  // The time of a wait is also part of the latency of its call: four samples timed out after 1 ms.
  EXPECT_GE(served.value("reprise_call_seconds_sum{buffer=\"replay\",call=\"sample\"}"), 0.004);
  EXPECT_EQ(served.value(series("waiting_now", "samplers_for_limiter")), 1.0);
  EXPECT_GT(served.value(series("waiting_for_seconds", "samplers_for_limiter")), 0.0);
  EXPECT_EQ(served.value(series("waiting_now", "samplers_for_items")), 0.0);
  EXPECT_EQ(served.value(series("waiting_for_seconds", "samplers_for_items")), 0.0);
  const std::map<std::string, double> values = served.values();
  const Stats stats = line.replay.stats();
  line.replay.close();
  EXPECT_EQ(stats.samplers_for_items.timeouts, 1U);
  EXPECT_EQ(stats.writers_for_limiter.timeouts, 2U);
  EXPECT_EQ(stats.samplers_for_limiter.timeouts, 3U);
  EXPECT_EQ(stats.samplers_for_limiter.stops, 1U);
  const std::map<std::string, WaitStats> kinds{
      {"writers_for_chunk", stats.writers_for_chunk},
      {"writers_for_limiter", stats.writers_for_limiter},
      {"samplers_for_items", stats.samplers_for_items},
      {"samplers_for_limiter", stats.samplers_for_limiter},
  };
  for (const auto& [what, wait] : kinds) {
    const auto seconds = [](std::chrono::nanoseconds time) {
      return std::chrono::duration<double>(time).count();
    };
    EXPECT_EQ(values.at(series("waits_total", what)), static_cast<double>(wait.waits)) << what;
    EXPECT_EQ(values.at(series("wait_timeouts_total", what)), static_cast<double>(wait.timeouts));
    EXPECT_EQ(values.at(series("wait_stops_total", what)), static_cast<double>(wait.stops));
    EXPECT_DOUBLE_EQ(values.at(series("wait_seconds_total", what)), seconds(wait.total));
    EXPECT_DOUBLE_EQ(values.at(series("wait_longest_seconds", what)), seconds(wait.longest));
  }
}

TEST(Meter, PassesOnArgumentsResultsAndErrors) {
  MeasuredBuffer measured(
      test::SmallOptions{.selectors = {test::kRawProportional, test::kRawProportional}});
  auto& [served, line, meter, writer, sampler] = measured;
  const auto append = [&](End end, float priority) {
    return measured.append(0, end, std::span(&priority, 1));
  };
  const auto raw = [&](std::span<const ItemKey> keys, std::size_t selector) {
    std::vector<float> priorities(keys.size());
    line.replay.selector(selector).priorities(keys, priorities);
    return priorities;
  };
  EXPECT_EQ(append(End::Terminated, 3.0F), CommitStatus::Committed);
  EXPECT_FALSE(writer.in_episode());
  const SampleResult batch = test::require_batch(meter.sample(sampler, 1));
  EXPECT_THAT(raw(batch->keys(), 0), ElementsAre(FloatEq(3.0F)));
  EXPECT_EQ(meter.update_priorities(batch->keys(), std::vector{5.0F}, 1).applied, 1U);
  EXPECT_THAT(raw(batch->keys(), 0), ElementsAre(FloatEq(3.0F)));
  EXPECT_THAT(raw(batch->keys(), 1), ElementsAre(FloatEq(5.0F)));
  EXPECT_THROW(append(End::Continue, -1.0F), std::invalid_argument);
  line.replay.close();
  EXPECT_EQ(append(End::Continue, 1.0F), CommitStatus::Closed);
  EXPECT_EQ(meter.sample(sampler, 1).status().code, SampleStatus::Code::Closed);
}

TEST(Meter, CountsNoRefusedStepsInTheAges) {
  MeasuredBuffer measured(test::SmallOptions{
      .selectors = {Lifo{}}, .max_times_sampled = 1, .rate_limiter = Queue{.size = 24}});
  auto& [served, line, meter, writer, sampler] = measured;
  writer.set_timeout(std::chrono::nanoseconds(0));
  const auto append = [&](std::uint64_t step) {
    return measured.append(step, step % 3 == 2 ? End::Terminated : End::Continue);
  };
  std::uint64_t step = 0;
  while (append(step) == CommitStatus::Committed) {
    ++step;
  }
  EXPECT_EQ(append(step), CommitStatus::TimedOut);
  static_cast<void>(meter.sample(sampler, 20));
  // The drawn items have the ages 0 to 19.
  EXPECT_EQ(buckets(served, "reprise_sample_age_steps", kReplay),
            (Buckets{{1.0, 2.0}, {4.0, 3.0}, {16.0, 12.0}, {64.0, 3.0}}));
  EXPECT_EQ(served.value("reprise_sample_age_steps_sum{buffer=\"replay\"}"), 190.0);
}

TEST(Meter, CountsAndTimesEachKindOfCall) {
  MeasuredBuffer measured;
  auto& [served, line, meter, writer, sampler] = measured;
  measured.append_many(0, 30);
  for (int i = 0; i < 5; ++i) {
    const SampleResult batch = meter.sample(sampler, 2);
    meter.update_priorities(batch->keys(), std::vector{1.0F, 2.0F});
  }
  meter.update_priorities({}, {});
  EXPECT_EQ(meter.time(Call::Append, [] { return 7; }), 7);
  meter.time(Call::Append, [] {});
  EXPECT_THROW(meter.time(Call::Append, [] { throw std::runtime_error("no"); }),
               std::runtime_error);
  const auto count = [&](const std::string& call) {
    return served.value("reprise_call_seconds_count{buffer=\"replay\",call=\"" + call + "\"}");
  };
  EXPECT_EQ(count("append"), 32.0);
  EXPECT_EQ(count("sample"), 5.0);
  EXPECT_EQ(count("update"), 6.0);
}

TEST(Meter, ObservesAgesInSteps) {
  MeasuredBuffer measured(newest_first());
  auto& [served, line, meter, writer, sampler] = measured;
  measured.append_many(0, 40);
  // Draws the newest 20 items, each once. The newest item is the last step whose n-step window is
  // complete.
  const SampleResult batch = test::require_batch(meter.sample(sampler, 20));
  Buckets expected;
  for (const std::uint64_t position : batch->positions()) {
    const double age = 39.0 - static_cast<double>(position);
    // The bounds of the histogram's buckets are powers of 4.
    expected[age <= 1.0 ? 1.0 : std::pow(4.0, std::ceil(std::log(age) / std::log(4.0) - 1e-9))] +=
        1.0;
  }
  EXPECT_EQ(buckets(served, "reprise_sample_age_steps", kReplay), expected);
  EXPECT_GE(expected.size(), 3U);

  // Steps that were not appended through the meter have no age, and do not make other steps older.
  Writer other = line.replay.writer();
  line.append_many(other, 100, 5);
  static_cast<void>(meter.sample(sampler, 5));
  EXPECT_EQ(served.value("reprise_sample_age_steps_count{buffer=\"replay\"}"), 20.0);
  static_cast<void>(meter.sample(sampler, 6));
  ++expected[1.0];
  EXPECT_EQ(buckets(served, "reprise_sample_age_steps", kReplay), expected);
}

TEST(Meter, ObservesHowOftenItemsAreReused) {
  MeasuredBuffer measured(newest_first());
  auto& [served, line, meter, writer, sampler] = measured;
  measured.append_many(0, 40);
  for (int i = 0; i < 5; ++i) {
    static_cast<void>(meter.sample(sampler, 3));  // The buffer has only three items.
  }
  // Each item is drawn five times; the histogram's bounds are 1, 2, 4 and 8 draws.
  EXPECT_EQ(buckets(served, "reprise_sample_reuse", kReplay),
            (Buckets{{1.0, 3.0}, {2.0, 3.0}, {4.0, 6.0}, {8.0, 3.0}}));
  EXPECT_EQ(served.value("reprise_sample_reuse_sum{buffer=\"replay\"}"), 45.0);

  // New items in the same slots begin with no draws.
  measured.append_many(40, 1'000);
  static_cast<void>(meter.sample(sampler, 3));
  EXPECT_EQ(buckets(served, "reprise_sample_reuse", kReplay).at(1.0), 6.0);
  EXPECT_EQ(served.value("reprise_sample_reuse_sum{buffer=\"replay\"}"), 48.0);
}

TEST(Meter, DoesNotCountReuseOfStaleKeysAndOfDrawsWithoutRows) {
  MeasuredBuffer measured;
  auto& [served, line, meter, writer, sampler] = measured;
  measured.append_many(0, 40);
  const std::map<std::uint64_t, ItemKey> before = line.keys();
  const ItemKey stale = before.begin()->second;
  line.replay.clear();
  measured.append_many(40, 20);
  const ItemKey resident = line.keys().begin()->second;
  meter.observe(line.replay.gather(std::vector{stale, resident}));
  EXPECT_EQ(served.value("reprise_sample_reuse_count{buffer=\"replay\"}"), 1.0);
  static_cast<void>(meter.sample(sampler, 4, {.gather = false}));
  EXPECT_EQ(served.value("reprise_sample_reuse_count{buffer=\"replay\"}"), 1.0);
  EXPECT_EQ(served.value("reprise_call_seconds_count{buffer=\"replay\",call=\"sample\"}"), 1.0);
}

TEST(Metrics, AreServedWhileThreadsAppendAndDrawAndBuffersAreMadeAndDestroyed) {
  ServedMetrics served;
  test::NumberedBuffer line(test::SmallOptions{.capacity_steps = 4'000, .max_writers = 3});
  Meter meter = served.metrics.watch(line.replay);
  constexpr std::uint64_t kSteps = 2'000;
  std::vector<std::jthread> threads;
  test::start(threads, 3, [&](std::uint64_t i) {
    Writer writer = line.replay.writer();
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(append(line, meter, writer, i * 10'000 + step), CommitStatus::Committed);
    }
  });
  threads.emplace_back([&] {
    Sampler sampler = line.replay.sampler();
    for (int i = 0; i < 200; ++i) {
      const SampleResult batch = meter.sample(sampler, 8);
      meter.update_priorities(batch->keys(), std::vector<float>(8, 1.0F));
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 50; ++i) {
      test::NumberedBuffer other;
      const Meter short_lived = served.metrics.watch(other.replay, "other");
    }
  });
  double steps = 0.0;
  while (steps < 3.0 * kSteps) {
    const double committed = served.value("reprise_committed_steps_total{buffer=\"replay\"}");
    ASSERT_GE(committed, steps);
    steps = committed;
  }
  threads.clear();
  EXPECT_EQ(served.value("reprise_call_seconds_count{buffer=\"replay\",call=\"append\"}"),
            3.0 * kSteps);
  EXPECT_EQ(served.value("reprise_call_seconds_count{buffer=\"replay\",call=\"sample\"}"), 200.0);
  EXPECT_EQ(served.value("reprise_sample_reuse_count{buffer=\"replay\"}"), 1'600.0);
}

}  // namespace
}  // namespace reprise::metrics
