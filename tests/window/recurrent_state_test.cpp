#include "sampler/sampler_core.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/recurrent_line.hpp"
#include "testing/test.hpp"
#include "writer/writer_core.hpp"

#include <unistd.h>

#include <fstream>

namespace reprise::test {
namespace {

using FirstNumbers = std::set<std::uint64_t>;

Options recurrent_options(const Sequences& window) {
  return SmallOptions{.window = window, .selectors = {Uniform{}}, .chunk_steps = 0};
}

/// The numbers of the first steps of a batch's items. Checks the recurrent states of each item.
FirstNumbers checked_items(const RecurrentNumberedBuffer& line, const Batch& batch) {
  FirstNumbers numbers;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    numbers.insert(line.expect_states(batch, i));
  }
  return numbers;
}

TEST(RecurrentState, IsAskedForWhereAnItemMayBeginAndNowhereElse) {
  for (const SequenceEnd end : {SequenceEnd::ZeroPad, SequenceEnd::Drop, SequenceEnd::Overlap}) {
    const Sequences window{.length = 4, .period = 3, .end = end};
    RecurrentNumberedBuffer line(recurrent_options(window));
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; i < 10; ++i) {
      SCOPED_TRACE(testing::Message() << "step " << i << ", end " << static_cast<int>(end));
      if (may_begin(window, i)) {
        expect_refusal<std::logic_error>(
            [&] { line.append(writer, i, End::Continue, /*with_states=*/false); },
            {"field 'lstm'", "current step", "unwritten"});
        line.write_states(writer, i);
      }
      EXPECT_EQ(
          line.append(writer, i, i == 9 ? End::Terminated : End::Continue, /*with_states=*/false),
          CommitStatus::Committed);
    }
    Sampler sampler = line.replay.sampler();
    const SampleResult batch = require_batch(sampler.sample(64, kNoWait));
    EXPECT_TRUE(checked_items(line, *batch).contains(3));
  }
}

TEST(RecurrentState, LeftOutWhereItMayBeIsNotWhatAnErrorNames) {
  RecurrentNumberedBuffer line(recurrent_options({.length = 2, .period = 2}));
  Writer writer = line.replay.writer();
  line.append(writer, 0);
  writer.now(line.action) = 1;
  expect_refusal<std::logic_error>([&] { writer.commit(); }, {"field 'id'", "next step"});
}

TEST(RecurrentState, IsRefusedWithTransitions) {
  Options options = SmallOptions{};
  expect_refusal(
      [&] { RecurrentNumberedBuffer line(options); },
      {"field 'lstm'", "recurrent state", "window is Transitions", "Sequences", "a column"});
}

TEST(RecurrentState, OfAnotherSchemaIsRefused) {
  RecurrentNumberedBuffer line(recurrent_options({.length = 2}));
  Schema other;
  const auto column = other.column<float>("column", {2, 3});
  Writer writer = line.replay.writer();
  writer.begin_episode();
  expect_refusal([&] { (void)writer.now(column); },
                 {"'lstm' is a shaped f32 recurrent state", "f32 column"});
}

TEST(RecurrentState, IsWrittenByLooseTransitionsWhichHaveToNameIt) {
  RecurrentNumberedBuffer line(recurrent_options({.length = 2, .period = 2}));
  Writer writer = line.replay.writer();
  std::vector<float> lstm(kLstmElements);
  std::vector<std::uint8_t> gates(kGateElements);
  for (std::uint64_t i = 20; i < 26; ++i) {
    for (std::size_t k = 0; k < kLstmElements; ++k) {
      lstm[k] = lstm_of(i, k);
    }
    for (std::size_t k = 0; k < kGateElements; ++k) {
      gates[k] = gate_of(i, k);
    }
    EXPECT_EQ(
        writer.add_transition(End::Continue, now(line.id, i), next(line.id, i + 1),
                              now(line.action, 1), now(line.lstm, lstm), now(line.gate, gates)),
        CommitStatus::Committed);
  }
  expect_refusal(
      [&] {
        writer.add_transition(End::Continue, now(line.id, 26), next(line.id, 27),
                              now(line.action, 1), now(line.lstm, lstm));
      },
      {"field 'gate' is missing as now"});
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(12, kNoWait));
  EXPECT_EQ(checked_items(line, *batch), (FirstNumbers{20, 22, 24}));
}

TEST(RecurrentState, IsWrittenForEveryEnvironmentOfAVectorWriter) {
  RecurrentNumberedBuffer line(recurrent_options({.length = 2, .period = 2}));
  constexpr std::size_t kEnvironments = 3;
  VectorWriter writers(line.replay, kEnvironments);
  const auto number = [](std::size_t e, std::uint64_t t) { return 100 * e + t; };
  std::vector<std::uint64_t> ids(kEnvironments);
  std::vector<std::uint16_t> actions(kEnvironments);
  std::vector<float> lstm(kLstmElements * kEnvironments);
  std::vector<std::uint8_t> gates(kGateElements * kEnvironments);
  for (std::uint64_t t = 0; t < 4; ++t) {
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      ids[e] = number(e, t);
      for (std::size_t k = 0; k < kLstmElements; ++k) {
        lstm[kLstmElements * e + k] = lstm_of(ids[e], k);
      }
      for (std::size_t k = 0; k < kGateElements; ++k) {
        gates[kGateElements * e + k] = gate_of(ids[e], k);
      }
    }
    writers.now(line.id, ids);
    writers.now(line.action, actions);
    writers.now(line.lstm, lstm);
    writers.now(line.gate, gates);
    for (std::uint64_t& id : ids) {
      ++id;
    }
    writers.next(line.id, ids);
    const std::vector<End> ends(kEnvironments, End::Continue);
    EXPECT_EQ(writers.completing(ends), t % 2 == 1 ? kEnvironments : 0U);
    EXPECT_EQ(writers.commit(ends), CommitStatus::Committed);
  }
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(32, kNoWait));
  EXPECT_EQ(checked_items(line, *batch), (FirstNumbers{0, 2, 100, 102, 200, 202}));
}

/// Bytes of the process that are in memory; 0 if the system does not report them.
std::size_t resident_bytes() {
  std::ifstream pages("/proc/self/statm");
  std::size_t mapped = 0;
  std::size_t resident = 0;
  pages >> mapped >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

struct MemoryUse {
  std::size_t touched;   ///< `Stats::touched_bytes`.
  std::size_t resident;  ///< Growth of the process's memory, in bytes.
};

/// Measures the memory of a full buffer whose steps have a large recurrent state or column.
MemoryUse measure_memory(Schema schema, const auto& state, const Sequences& window) {
  const auto id = schema.observation<std::uint64_t>("id");
  Options options = recurrent_options(window);
  options.capacity_steps = 4000;
  options.max_writers = 1;
  const std::size_t before = resident_bytes();
  ReplayBuffer replay(schema, options);
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(id) = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    std::ranges::fill(writer.now(state), static_cast<float>(i));
    writer.next(id) = i;
    writer.commit();
    (void)(i % 100 == 0 ? replay.size() : 0);
  }
  const Stats stats = replay.stats();
  EXPECT_EQ(stats.resident_steps, 4000U);
  EXPECT_GE(stats.reserved_bytes, stats.touched_bytes);
  return {stats.touched_bytes, resident_bytes() - before};
}

TEST(RecurrentState, TakesTheMemoryOfItemsAndNotOfSteps) {
  constexpr std::size_t kBytes = 4096;
  const Sequences window{.length = 40, .period = 40};
  Schema with_column;
  const auto column = with_column.column<float>("lstm", {2, kBytes / sizeof(float) / 2});
  Schema with_state;
  const auto state = with_state.recurrent_state<float>("lstm", {2, kBytes / sizeof(float) / 2});
  const MemoryUse in_rows = measure_memory(with_column, column, window);
  const MemoryUse in_items = measure_memory(with_state, state, window);
  EXPECT_GE(in_rows.touched, 4000 * kBytes);
  EXPECT_GE(in_items.touched, 4000 / 40 * kBytes) << "stored states count";
  EXPECT_LE(in_items.touched, in_rows.touched / 20) << "40 steps have one state";
  // Rows may lie on huge pages that are filled only in part, so this bound is loose.
  EXPECT_LE(in_items.resident, in_rows.resident / 3);
}

TEST(RecurrentState, OfOpenStepsAreAllInPlacesOfTheirOwnWhereAnItemMayBegin) {
  Schema schema;
  schema.recurrent_state<double>("lstm", {3});
  const storage::RowLayout layout(schema);
  for (std::uint32_t length = 1; length < 9; ++length) {
    for (std::uint32_t period = 1; period < 12; ++period) {
      for (const SequenceEnd end : {SequenceEnd::Drop, SequenceEnd::Overlap}) {
        const Sequences window{.length = length, .period = period, .end = end};
        const writer::OpenStates states(layout, window::WindowSpec(window));
        for (std::uint64_t first = 0; first < 40; ++first) {
          std::set<const std::byte*> places;
          const std::byte* shared = nullptr;
          std::size_t kept = 0;
          for (std::uint64_t position = first; position < first + length; ++position) {
            ASSERT_EQ(states.kept(position), may_begin(window, position));
            if (states.kept(position)) {
              places.insert(states.at(position));
              ++kept;
            } else {
              shared = states.at(position);
            }
          }
          ASSERT_EQ(places.size(), kept) << length << ", " << period << ", from " << first;
          ASSERT_FALSE(places.contains(shared));
        }
      }
    }
  }
}

/// While a writer has no chunk, its tail has the rows that it repeats in its next chunk.
TEST(RecurrentState, WrittenWhileThereIsNoChunkComesWithTheTail) {
  using detail::RowView;
  Schema schema;
  const auto id = schema.observation<std::uint64_t>("id");
  const auto lstm = schema.recurrent_state<float>("lstm", {2});
  Options options = recurrent_options({.length = 3, .period = 1});
  options.capacity_steps = 10;
  options.max_writers = 2;
  options.chunk_steps = 6;
  const auto core = std::make_shared<buffer::BufferCore>(schema, options);
  writer::WriterCore writer(core, core->slots().take().value_or(0), {.timeout = 0ns});
  writer.begin_episode();
  writer.access<RowView::kNow>(id) = 0;
  const auto append = [&](std::uint64_t number) {
    writer.access<RowView::kNow>(lstm)[0] = lstm_of(number, 0);
    writer.access<RowView::kNow>(lstm)[1] = lstm_of(number, 1);
    writer.access<RowView::kNext>(id) = number + 1;
    writer.check_commit(End::Continue, {});
    return writer.commit(End::Continue, {});
  };
  std::uint64_t number = 0;
  {
    LockHolder holder(core->shards()[0].mutex);
    while (append(number) == CommitStatus::Committed) {
      ++number;
    }
    EXPECT_EQ(append(number), CommitStatus::TimedOut);
  }
  EXPECT_EQ(writer.commit(End::Continue, {}), CommitStatus::Committed);
  EXPECT_EQ(append(++number), CommitStatus::Committed);
  EXPECT_EQ(append(++number), CommitStatus::Committed);
  core->shards().drain();
  sampler::SamplerCore sampler(core, {});
  sampler.own().reserve(64);
  ASSERT_EQ(sampler.sample(sampler.own(), 0, 64, kNoWait).code, SampleStatus::Code::Ok);
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint64_t first = sampler.batch().now(id)[3 * i];
    seen.insert(first);
    EXPECT_EQ(sampler.batch().now(lstm)[2 * i], lstm_of(first, 0));
    EXPECT_EQ(sampler.batch().now(lstm)[2 * i + 1], lstm_of(first, 1));
  }
  EXPECT_TRUE(seen.contains(number - 2)) << "decided in the chunk that the tail moved into";
}

}  // namespace
}  // namespace reprise::test
