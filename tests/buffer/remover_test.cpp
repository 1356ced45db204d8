#include "testing/fixtures/removers.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// A chunk of 9 rows holds 8 steps of a long episode.
constexpr std::size_t kRows = 9;
constexpr std::size_t kSteps = 8;

Options options_of(const Remover& remover, std::size_t capacity, std::size_t chunk = kRows,
                   std::size_t shards = 1) {
  return SmallOptions{
      .capacity_steps = capacity, .remover = remover, .chunk_steps = chunk, .shards = shards};
}

class Removers : public testing::TestWithParam<NamedRemover> {};

INSTANTIATE_TEST_SUITE_P(All, Removers, testing::ValuesIn(all_removers()), name_of);

/// However badly a remover chooses: chunks that are partly evicted, left open by a destroyed writer
/// or passed to another writer must not use up the memory, or a writer would wait for ever.
TEST_P(Removers, LeaveRoomForWritersThatAreDestroyedAndReplaced) {
  for (std::uint64_t seed = 1; seed <= scaled(30, 4); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::size_t capacity = rng.between(1, 400);
    const std::size_t shards = rng.between(1, std::min<std::size_t>(4, capacity));
    NumberedBuffer line(options_of(GetParam().remover, capacity, rng.between(2, 24), shards));
    Sampler sampler = line.replay.sampler({.seed = seed});
    std::optional<Writer> writers[8];
    std::uint64_t committed = 0;
    for (int i = 0; i < 4000; ++i) {
      // Some writers append much, others hardly ever.
      std::optional<Writer>& writer = writers[rng.below(1 + rng.below(8))];
      if (rng.chance(0.02)) {
        writer.reset();
      } else {
        if (!writer) {
          writer.emplace(line.replay.writer());
        }
        const auto priority = static_cast<float>(rng.below(4));
        const End end = rng.chance(0.1) ? End::Truncated : End::Continue;
        ASSERT_EQ(line.append(*writer, committed++, end, std::span(&priority, 1)),
                  CommitStatus::Committed);
      }
      if (rng.chance(0.1)) {
        ASSERT_EQ(line.replay.size(), std::min<std::size_t>(committed, capacity));
        (void)sampler.sample(8, kNoWait);
        expect_steps_add_up(line.replay);
      }
    }
    ASSERT_EQ(line.replay.size(), std::min<std::size_t>(committed, capacity));
    EXPECT_EQ(line.numbers().size(), line.replay.size());
  }
}

std::vector<std::uint64_t> concatenated(std::vector<std::uint64_t> first,
                                        const std::vector<std::uint64_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(ARemoverOfTheUsers, DecidesWhichChunksAreEvicted) {
  NumberedBuffer line(options_of(YoungestFirst{}, 4 * kSteps));
  for (std::uint64_t number = 0; number < 64; ++number) {
    line.append(number);
    (void)line.replay.size();
  }
  EXPECT_EQ(line.numbers(), concatenated(number_range(0, 24), number_range(56, 64)));
  EXPECT_NE(line.replay.options().remover.target<YoungestFirst>(), nullptr);
}

/// A remover that records what the library tells it about the chunks of its shard.
struct RecordingRemover {
  struct Record {
    std::vector<std::uint32_t> steps;    ///< Number of steps of each chunk when it entered.
    std::vector<double> weights;         ///< Weights of these chunks in selector 0.
    std::vector<std::uint32_t> sampled;  ///< The chunk of each drawn item.
    std::size_t entered = 0;
    std::size_t left = 0;
    /// The sum of what the library says of a selector and a chunk that do not exist.
    double invalid_chunk_values = -1.0;
  };
  class Recorder final : public ShardRemover {
   public:
    Recorder(Record& seen, const ShardChunks& chunks)
        : seen_(seen), chunks_(chunks), filled_(chunks.chunks() + 1) {}
    void enters(std::uint32_t chunk) noexcept override {
      filled_[chunk] = true;
      ++seen_.entered;
      seen_.steps.push_back(chunks_.steps(chunk));
      seen_.weights.push_back(chunks_.weight(chunk, 0));
      seen_.invalid_chunk_values = chunks_.weight(chunk, 7) + chunks_.weight(chunks_.chunks(), 0) +
                                   chunks_.steps(chunks_.chunks());
    }
    void leaves(std::uint32_t chunk) noexcept override {
      filled_[chunk] = false;
      ++seen_.left;
    }
    /// Returns invalid answers: in turn each chunk that is not filled, and one that does not exist.
    [[nodiscard]] std::uint32_t victim() noexcept override {
      do {
        answer_ = (answer_ + 1) % filled_.size();
      } while (filled_[answer_]);
      return static_cast<std::uint32_t>(answer_);
    }
    [[nodiscard]] bool wants_samples() const noexcept override { return true; }
    void sampled(std::span<const std::uint32_t> chunks) noexcept override {
      seen_.sampled.insert(seen_.sampled.end(), chunks.begin(), chunks.end());
    }

   private:
    Record& seen_;
    const ShardChunks& chunks_;
    std::vector<bool> filled_;
    std::size_t answer_ = 0;
  };

  Record* seen;
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const {
    return std::make_unique<Recorder>(*seen, chunks);
  }
};

TEST(ARemoverOfTheUsers, SeesStepsWeightsAndDrawsOfFilledChunks) {
  RecordingRemover::Record seen;
  NumberedBuffer line(options_of(RecordingRemover{&seen}, 4 * kSteps));
  line.append_many(0, 20, [&](std::uint64_t number) { return static_cast<float>(number); });
  ASSERT_EQ(line.replay.size(), 20U);
  EXPECT_EQ(seen.steps, (std::vector<std::uint32_t>{8, 8}));
  EXPECT_EQ(seen.weights, (std::vector<double>{28.0, 92.0}));
  EXPECT_EQ(seen.invalid_chunk_values, 0.0) << "of a selector or chunk that does not exist";
  // Each of the 20 items is drawn exactly twice.
  ASSERT_TRUE(as_lvalue(line.replay.selector(1).sampler()).sample(40, kNoWait));
  EXPECT_EQ(std::ranges::count(seen.sampled, 0U), 16);
  EXPECT_EQ(std::ranges::count(seen.sampled, 1U), 16);
  EXPECT_EQ(seen.sampled.size(), 32U) << "draws from the open chunk are not reported";
}

TEST(ARemoverOfTheUsers, IsToldTheStepsAndWeightsOfLoadedChunks) {
  const ScratchDirectory directory;
  RecordingRemover::Record before;
  NumberedBuffer line(options_of(RecordingRemover{&before}, 4 * kSteps));
  line.append_many(0, 44, [&](std::uint64_t number) { return static_cast<float>(number); });
  ASSERT_EQ(line.numbers(), number_range(12, 44));
  line.replay.save(directory.path());
  RecordingRemover::Record seen;
  NumberedBuffer loaded(options_of(RecordingRemover{&seen}, 4 * kSteps));
  seen = {};
  loaded.replay.restore(directory.path());
  EXPECT_EQ(seen.steps, (std::vector<std::uint32_t>{4, 8, 8, 8}));
  EXPECT_EQ(seen.weights, (std::vector<double>{54.0, 156.0, 220.0, 284.0}));
}

TEST(ARemoverOfTheUsers, ThatNamesNoFilledChunkIsReplacedByFirstInFirstOut) {
  RecordingRemover::Record seen;
  NumberedBuffer line(options_of(RecordingRemover{&seen}, 4 * kSteps));
  line.append_many(0, 1000);
  EXPECT_EQ(line.numbers(), number_range(1000 - 4 * kSteps, 1000));
  EXPECT_EQ(seen.entered, 1000 / kSteps);
  EXPECT_EQ(seen.left, 1000 / kSteps - 4);
}

}  // namespace
}  // namespace reprise::test
