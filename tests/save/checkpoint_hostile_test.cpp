#include "../checkpoint/copied_checkpoint.hpp"
#include "../record/memory_file_system.hpp"
#include "save/save.hpp"
#include "save/stored_buffer.hpp"
#include "save/stored_options.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/recurrent_line.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"

#include <sys/resource.h>

/// Checkpoints with correct checksums and wrong contents. No fault of a disk makes such files, but
/// a person may.
namespace reprise::test {
namespace {

using Contents = CopiedCheckpoint::Contents;

Options options() {
  return SmallOptions{.capacity_steps = 100,
                      .window = Transitions{.n_step = 3, .frame_stack = 2},
                      .selectors = {kRawProportional, Fifo{}},
                      .max_times_sampled = 5,
                      .max_writers = 3,
                      .chunk_steps = 16,
                      .shards = 2};
}

template <class AnyLine>
CopiedCheckpoint checkpoint_of(AnyLine& line, std::span<const base::Random::State> samplers = {}) {
  MemoryFileSystem files;
  save::save(*core_of(line.replay), files, kDirectory, {}, samplers);
  return {files, kDirectory};
}

void expect_refused(const CopiedCheckpoint& bad, std::initializer_list<std::string_view> words) {
  MemoryFileSystem files;
  bad.write(files, kDirectory);
  expect_refusal<CheckpointError>([&] { (void)save::load(files, kDirectory, {}, nullptr); }, words);
}

/// Changes a few bytes, often to the limit of a number.
void damage(Contents& contents, Rng& rng) {
  if (contents.empty()) {
    return;
  }
  constexpr std::array kNumbers{0U,          1U,          2U,          16U,
                                17U,         0x7f800000U, 0x7fc00000U, 0x7fffffffU,
                                0x80000000U, 0xffffffffU, 0xbf800000U, 0xc0000000U};
  const std::size_t at = rng.below(contents.size());
  switch (rng.below(4)) {
    case 0:
      contents[at] ^= static_cast<std::byte>(1U << rng.below(8));
      return;
    case 1:
      contents.resize(at);
      return;
    case 2:
      contents.insert(contents.end(), contents.begin(), contents.begin() + 4);
      return;
    default:
      const std::uint32_t number = kNumbers[rng.below(kNumbers.size())];
      const std::size_t word = at / 4 * 4;
      if (word + 4 <= contents.size()) {
        std::memcpy(contents.data() + word, &number, sizeof(number));
      }
  }
}

/// Uses the loaded buffer: draws, updates and appends.
void use_buffer(ReplayBuffer& replay) {
  const auto* const queue = std::get_if<Queue>(&replay.options().rate_limiter);
  if (queue != nullptr && queue->size < 20) {
    return;  // A batch of 20 items could never be drawn.
  }
  Sampler sampler = replay.sampler({.resume = std::nullopt});
  for (int i = 0; i < 3; ++i) {
    if (const SampleResult batch = sampler.sample(20, kNoWait)) {
      replay.update_priorities(batch->keys(), std::vector<float>(20, 1.0F));
    }
  }
  (void)replay.stats();
  (void)replay.size();
}

TEST(HostileCheckpoint, IsRefusedOrHarmless) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "a load uses oneTBB if the checkpoint claims to be large";
  }
  const std::uint64_t seed = 20;
  Rng rng(seed);
  const CopiedCheckpoint good = [] {
    NumberedBuffer line(options());
    Writer first = line.replay.writer();
    Writer second = line.replay.writer();
    line.append_many(first, 0, 150);
    line.append_many(second, 1000, 30);
    (void)line.replay.size();
    return checkpoint_of(line, std::vector{base::Random(1).state()});
  }();
  const std::vector<std::string> names{"buffer", "options", "schema", "shard-0", "shard-1"};
  std::size_t refused = 0;
  const std::size_t rounds = scaled(6000, 300);
  for (std::size_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    CopiedCheckpoint bad = good;
    const std::size_t what = rng.below(names.size() + 1);
    damage(what < names.size() ? bad.states.at(names[what])
                               : bad.chunks[rng.below(bad.chunks.size())].second,
           rng);
    MemoryFileSystem target;
    bad.write(target, kDirectory);
    try {
      NumberedBuffer loaded;
      core_of(loaded.replay) = save::load(target, kDirectory, {}, nullptr).core;
      use_buffer(loaded.replay);
    } catch (const CheckpointError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 10);
}

/// The same checkpoint, with another state in place of the one of this name.
template <class State>
MemoryFiles with_state(CopiedCheckpoint checkpoint, const char* name, std::uint32_t version,
                       const State& state) {
  record::Encoder to;
  to.u32(version);
  save::encode(to, state);
  checkpoint.states[name] = std::move(to).take();
  MemoryFileSystem files;
  checkpoint.write(files, kDirectory);
  return files.files();
}
MemoryFiles with_options(const CopiedCheckpoint& good, const Options& options) {
  return with_state(good, "options", save::kOptionsVersion, options);
}

/// In an older version, `Queue` needed no draw limit, so items never left the queue.
TEST(HostileCheckpoint, AQueueWithoutALimitIsRestoredIntoABufferWithAnotherLimiter) {
  Options old = options();
  old.max_times_sampled = 0;
  NumberedBuffer line(old);
  line.append_many(0, 50);
  Options stored = old;
  stored.selectors.emplace_back(Uniform{});  // `NumberedBuffer` adds it.
  stored.rate_limiter = Queue{60};
  MemoryFileSystem files(with_options(checkpoint_of(line), stored));
  const CheckpointError error =
      checkpoint_error_of([&] { (void)save::load(files, kDirectory, {}, nullptr); });
  EXPECT_EQ(error.kind(), CheckpointError::Kind::Mismatch);
  EXPECT_NE(std::string(error.what()).find("a Queue without max_times_sampled"), std::string::npos)
      << error.what();
  NumberedBuffer other(old);
  core_of(other.replay) = save::load(files, kDirectory, {}, core_of(other.replay).get()).core;
  EXPECT_GT(other.replay.size(), 40U);
}

TEST(HostileCheckpoint, ARatioThatTheLimiterCannotHoldIsRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::size_t selectors = options().selectors.size() + 1;  // `NumberedBuffer` adds one.
  for (const RateLimiter& limiter :
       {RateLimiter(MinSize{}),
        RateLimiter(SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 8.0})}) {
    for (const limiter::RatioTerms& terms : std::initializer_list<limiter::RatioTerms>{
             {0.0, 0.0}, {9.0, 0.0}, {kInfinity, 0.0}, {1.0, kInfinity}, {2.0, 1.0}}) {
      Options with = options();
      with.max_times_sampled = 0;
      with.rate_limiter = limiter;
      NumberedBuffer line(with);
      line.append_many(0, 5);
      CopiedCheckpoint good = checkpoint_of(line);
      record::Decoder from(good.states["buffer"], "buffer");
      EXPECT_EQ(from.u32(), save::kStateVersion);
      save::StoredBuffer stored = save::decode_buffer(from, save::kStateVersion, selectors);
      stored.ratio = terms;
      MemoryFileSystem files(with_state(good, "buffer", save::kStateVersionRatio, stored));
      const auto load = [&] { return save::load(files, kDirectory, {}, nullptr).core; };
      if (limiter.index() != 0 && terms.samples_per_insert == 2.0) {
        EXPECT_EQ(load()->limiter().terms().offset, 1.0);
      } else {
        const CheckpointError error = checkpoint_error_of([&] { (void)load(); });
        EXPECT_EQ(error.kind(), CheckpointError::Kind::Damaged);
        EXPECT_EQ(std::string(error.what()).find("set_samples_per_insert"), std::string::npos)
            << error.what();
      }
    }
  }
}

/// How much memory a load of a small checkpoint may take, far above what its files contain. Freed
/// memory counts, of which AddressSanitizer keeps 256 MiB.
constexpr std::int64_t kMaxGrowthMib = kAddressSanitizer ? 200 + 256 : 200;

/// The peak memory of this process, in MiB.
std::int64_t peak_mib() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss / 1024;
}

bool same_size(const Options& a, const Options& b) {
  return a.capacity_steps == b.capacity_steps && a.max_writers == b.max_writers &&
         a.chunk_steps == b.chunk_steps && a.shards == b.shards;
}

/// Sets sizes in the options to extreme numbers. A load must not take memory for more than the
/// files contain.
TEST(HostileCheckpoint, SizesAreNotBelieved) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "oneTBB is not instrumented";
  }
  NumberedBuffer line(options());
  line.append_many(0, 150);
  const CopiedCheckpoint good = checkpoint_of(line);
  Options stored = options();
  stored.selectors.emplace_back(Uniform{});  // `NumberedBuffer` adds it.
  const std::array<std::size_t Options::*, 4> members{
      &Options::capacity_steps, &Options::max_writers, &Options::chunk_steps, &Options::shards};
  constexpr std::array<std::size_t, 9> kNumbers{1,
                                                2,
                                                256,
                                                65536,
                                                std::size_t{1} << 20U,
                                                std::size_t{1} << 31U,
                                                (std::size_t{1} << 32U) - 1,
                                                std::size_t{1} << 60U,
                                                std::numeric_limits<std::size_t>::max()};
  const std::int64_t before = peak_mib();
  for (const auto first : members) {
    for (const auto second : members) {
      for (const std::size_t a : kNumbers) {
        for (const std::size_t b : kNumbers) {
          Options hostile = stored;
          hostile.*first = a;
          hostile.*second = b;
          if (same_size(hostile, stored)) {
            continue;
          }
          SCOPED_TRACE(testing::Message()
                       << hostile.capacity_steps << " steps, " << hostile.max_writers
                       << " writers, chunks of " << hostile.chunk_steps << ", " << hostile.shards
                       << " shards");
          MemoryFileSystem files(with_options(good, hostile));
          EXPECT_THROW((void)save::load(files, kDirectory, {}, nullptr), CheckpointError);
        }
      }
    }
  }
  EXPECT_LE(peak_mib(), before + kMaxGrowthMib);
}

/// An item of a chunk, in the parts that the chunk stores.
struct StoredItem {
  storage::ItemHeader header;
  float priority = 0.0F;
  std::uint64_t order = 0;
};

/// The item's window reads rows outside of its chunk, or the item is impossible.
TEST(HostileCheckpoint, AWindowThatLeavesItsChunkIsRefused) {
  NumberedBuffer line(options());
  line.append_many(0, 7);
  line.append(7, End::Terminated);
  const CopiedCheckpoint good = checkpoint_of(line);
  ASSERT_EQ(good.chunks.size(), 1U);
  const std::size_t stride = core_of(line.replay)->store().row_stride();
  const std::size_t rows = good.chunks[0].first.rows;
  ASSERT_EQ(rows, 9U);  // The last row is the final observation.
  const std::size_t ingested =
      (good.chunks[0].second.size() - rows * stride) / (sizeof(float) + sizeof(std::uint64_t));
  const auto refused = [&](std::size_t row, const std::string& why, const auto& change) {
    CopiedCheckpoint bad = good;
    std::byte* const bytes = bad.chunks[0].second.data();
    std::byte* const priority = bytes + rows * stride + row * sizeof(float);
    std::byte* const order =
        bytes + rows * stride + ingested * sizeof(float) + row * sizeof(std::uint64_t);
    StoredItem item;
    std::memcpy(&item.header, bytes + row * stride, sizeof(item.header));
    std::memcpy(&item.priority, priority, sizeof(item.priority));
    std::memcpy(&item.order, order, sizeof(item.order));
    ASSERT_TRUE(item.header.position() == row && item.order == row);
    change(item);
    std::memcpy(bytes + row * stride, &item.header, sizeof(item.header));
    std::memcpy(priority, &item.priority, sizeof(item.priority));
    std::memcpy(order, &item.order, sizeof(item.order));
    expect_refused(bad, {"chunk 0", why});
  };
  const auto window = [](std::uint64_t position, std::uint32_t length) {
    return [=](StoredItem& item) {
      item.header = storage::ItemHeader::make(item.header.episode, position, length);
    };
  };
  // The frame stack would read a row before the first one.
  refused(0, "a window of 3 steps", window(1, 3));
  refused(0, "a window of 3 steps", window(storage::ItemHeader::kMaxPosition, 3));
  refused(3, "a window of 0 steps", window(3, 0));
  refused(3, "a window of 4 steps", window(3, 4));
  refused(7, "a window of 2 steps", window(7, 2));
  refused(2, "a window of 3 steps", [](StoredItem& item) { item.order = 8; });
  // The selectors have values for 8 items.
  refused(2, "7 items, not 8", [](StoredItem& item) { item.priority = storage::kStepWithoutItem; });
  refused(2, "priority inf", [](StoredItem& item) { item.priority = INFINITY; });
  refused(2, "priority nan", [](StoredItem& item) { item.priority = NAN; });
  refused(2, "priority -5", [](StoredItem& item) { item.priority = -5.0F; });
}

/// The item refers to a recurrent state of another chunk, or to none.
TEST(HostileCheckpoint, AnItemWithAnotherRecurrentStateIsRefused) {
  RecurrentNumberedBuffer line({.capacity_steps = 100,
                                .window = Sequences{.length = 3, .period = 1},
                                .selectors = {Uniform{}},
                                .max_writers = 2,
                                .chunk_steps = 32,
                                .shards = 1});
  Writer writer = line.replay.writer();
  for (std::uint64_t i = 0; i < 20; ++i) {
    line.append(writer, i);
  }
  const CopiedCheckpoint good = checkpoint_of(line);
  for (const storage::StateNumber number : {1U, 32U, ~0U}) {
    CopiedCheckpoint bad = good;
    std::memcpy(bad.chunks[0].second.data() + storage::kStateNumberOffset, &number, sizeof(number));
    expect_refused(bad, {"row 0: recurrent state " + std::to_string(number)});
  }
}

/// A gather would read rows after those of the item.
TEST(HostileCheckpoint, AStreamWithOtherRowsThanItsItemsIsRefused) {
  NumberedBuffer line(
      SmallOptions{.window = Sequences{.length = 3, .period = 1, .end = SequenceEnd::Continue}});
  line.append(0, End::Terminated);
  line.append_many(10, 2);
  const CopiedCheckpoint good = checkpoint_of(line);
  const storage::RowLayout& layout = core_of(line.replay)->chunk_layout();
  using storage::StreamRow;
  const std::pair<std::size_t, StreamRow> changes[] = {
      {0, StreamRow::Final},      {0, static_cast<StreamRow>(4)}, {1, StreamRow::Continue},
      {2, StreamRow::Terminated}, {3, StreamRow::Final},          {3, static_cast<StreamRow>(255)}};
  for (const auto& [row, kind] : changes) {
    CopiedCheckpoint bad = good;
    layout.stream_rows().put(bad.chunks[0].second.data() + row * layout.stride(), kind);
    expect_refused(bad, {"row 0: a window of 4 steps"});
  }
}

/// Expects that a checkpoint is refused with the words `why` after a change to one state.
void expect_state_refused(const CopiedCheckpoint& good, const std::string& name,
                          const std::string& why, const std::function<void(Contents&)>& change) {
  CopiedCheckpoint bad = good;
  change(bad.states.at(name));
  expect_refused(bad, {why});
}

/// Makes a change that puts `value` at byte `at`, counted from the end if negative.
template <class T>
std::function<void(Contents&)> put_at(std::ptrdiff_t at, T value) {
  return [=](Contents& contents) {
    const std::size_t from =
        at < 0 ? contents.size() - static_cast<std::size_t>(-at) : static_cast<std::size_t>(at);
    std::memcpy(contents.data() + from, &value, sizeof(value));
  };
}

TEST(HostileCheckpoint, AnImpossibleStateIsRefused) {
  NumberedBuffer line;
  line.append_many(0, 20);
  const CopiedCheckpoint good = checkpoint_of(line, std::vector{base::Random(1).state()});
  // After the version and the number of evicted steps comes the number of chunks ever used.
  expect_state_refused(good, "shard-0", "untouched", put_at(12, std::uint32_t{1}));
  expect_state_refused(good, "shard-0", "chunks touched", put_at(12, ~std::uint32_t{0}));
  expect_state_refused(good, "shard-0", "steps evicted", put_at(4, (std::uint64_t{1} << 47U) + 1));
  // Changes the last value of the last selector.
  for (const float value : {-1.0F, INFINITY, NAN}) {
    expect_state_refused(good, "shard-0", "item 19 has a value", put_at(-4, value));
  }
  // After the version and six counts comes the number of items ever decided.
  expect_state_refused(good, "buffer", "items decided", put_at(52, ~std::uint64_t{0}));
  expect_state_refused(good, "buffer", "random numbers have no state",
                       put_at(-32, base::Random::State{}));
}

/// The state of the shard has the image and the values of its only chunk twice.
TEST(HostileCheckpoint, AChunkThatIsThereTwiceIsRefused) {
  constexpr std::ptrdiff_t kItems = 5;
  NumberedBuffer line;
  line.append_many(0, kItems);
  const CopiedCheckpoint good = checkpoint_of(line);
  // The state ends with the number of chunks; the image of each, which is 8 numbers, a byte and a
  // turn; and for each of the two selectors a value of each item.
  constexpr std::ptrdiff_t kValues = kItems * std::ptrdiff_t{sizeof(float)};
  constexpr std::ptrdiff_t kChunk = 8 * std::ptrdiff_t{sizeof(std::uint32_t)} + 1 + 8;
  ASSERT_EQ(line.replay.options().selectors.size(), 2U);
  expect_state_refused(good, "shard-0", " twice", [](Contents& state) {
    const Contents once = state;
    const auto values = once.end() - 2 * kValues;
    state.insert(state.end() - 2 * kValues, values - kChunk, values);
    state.insert(state.end() - kValues, values, values + kValues);
    state.insert(state.end(), once.end() - kValues, once.end());
    const std::uint32_t chunks = 2;
    std::memcpy(&*(state.end() - 4 * kValues - 2 * kChunk) - sizeof(chunks), &chunks,
                sizeof(chunks));
  });
}

/// The large capacity is correct, so the checkpoint is accepted.
TEST(HostileCheckpoint, ALargeCapacityTakesMemoryOnlyForItsSteps) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "ThreadSanitizer takes memory for reserved addresses";
  }
  Options large = options();
  large.capacity_steps = 200'000'000;
  large.chunk_steps = 1'000'000;
  MemoryFileSystem files;
  {
    NumberedBuffer line(large);
    line.append_many(0, 150);
    save::save(*core_of(line.replay), files, kDirectory, {}, {});
  }
  const std::int64_t before = peak_mib();
  NumberedBuffer loaded;
  core_of(loaded.replay) = save::load(files, kDirectory, {}, nullptr).core;
  EXPECT_EQ(loaded.replay.size(), 150U);
  EXPECT_LE(peak_mib(), before + kMaxGrowthMib);
}

}  // namespace
}  // namespace reprise::test
