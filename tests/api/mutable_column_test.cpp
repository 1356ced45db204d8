#include <reprise/remote.hpp>

#include "api/latents.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

TEST(MutableColumn, TakesMoreKeysThanItSortsByShardAtATime) {
  LatentBuffer world(options_of(Transitions{}));
  Writer writer = world.replay->writer();
  for (std::uint64_t step = 1; step <= 50; ++step) {
    world.append(writer, step);
  }
  const Batch batch = world.draw_all();
  std::vector<ItemKey> keys;
  std::vector<std::uint16_t> values;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::size_t item = i % batch.size();
    keys.push_back(batch.keys()[item]);
    const Latent latent = latent_of(batch.now(world.id)[item], 1 + i);
    values.insert(values.end(), latent.begin(), latent.end());
  }
  EXPECT_EQ(world.replay->update(keys, world.latent, values).applied, 5000U);
  const Batch after = world.replay->gather(batch.keys());
  for (std::size_t item = 0; item < after.size(); ++item) {
    const std::uint64_t last = 4999 - (4999 - item) % batch.size();
    EXPECT_EQ(world.shown_writes(after, item), std::vector<std::uint64_t>{1 + last});
  }
  EXPECT_EQ(world.replay->stats().retired_pinned, 0U);
}

TEST(MutableColumn, RefusesFieldsValuesAndCallsThatDoNotFit) {
  LatentBuffer world(options_of(Transitions{}));
  Writer writer = world.replay->writer();
  world.append(writer, 1);
  const std::vector<ItemKey> keys(1, world.draw_all().keys()[0]);
  const std::vector<std::byte> bytes(14);
  ReplayBuffer& replay = *world.replay;
  const auto refused = [&](std::initializer_list<std::string_view> words, auto&& call) {
    expect_refusal<std::invalid_argument>(call, words);
  };
  refused({"update", "'fixed' is a column", "allowed: mutable columns"},
          [&] { replay.update(keys, AnyField(world.fixed), bytes); });
  refused({"update", "'frame' is a observation"},
          [&] { replay.update(keys, AnyField(world.frame), bytes); });
  refused({"1 keys and 13 bytes", "allowed: one value for each key"},
          [&] { replay.update(keys, AnyField(world.latent), std::span(bytes).first(13)); });
  Schema other_schema;
  const auto foreign = other_schema.mutable_column<float>("foreign", {7});
  refused({"is of another schema"}, [&] { replay.update(keys, foreign, std::vector<float>(7)); });
  const ItemKey key = keys[0];
  const std::vector<ItemKey> foreign_keys{
      ItemKey::make(key.slot(), key.generation(), key.tag() + 1)};
  refused({"update: keys[0] has tag", "allowed: keys of this buffer"},
          [&] { replay.update(foreign_keys, AnyField(world.latent), bytes); });
  refused({"'latent' is a mutable column", "allowed: observations"},
          [&] { world.schema.compress(AnyField(world.latent)); });
  refused({"'latent' is a mutable column", "allowed: observations"},
          [&] { static_cast<void>(replay.hindsight(AnyField(world.latent))); });
  refused({"'other' is a mutable column", "allowed: columns that do not change"},
          [&] { const ReplayShard shard(replay, 1); });
  EXPECT_EQ(world.shown_writes(world.draw_all(), 0), std::vector<std::uint64_t>{0});
  // A call with no keys and no values is allowed.
  EXPECT_EQ(replay.update({}, world.latent, {}).applied, 0U);
}

/// Each row has a version of 4 bytes if there are mutable columns.
TEST(MutableColumn, TakesMemoryOnlyIfTheSchemaHasOne) {
  const auto reserved = [](Role role) {
    Schema schema;
    schema.declare("value", role, DType::F64);
    return ReplayBuffer(schema, SmallOptions{}).stats().reserved_bytes;
  };
  const ReplayBuffer fixed(NumberedBuffer().schema, SmallOptions{});
  const std::size_t rows = fixed.stats().chunks * SmallOptions{}.chunk_steps;
  EXPECT_EQ(reserved(Role::MutableColumn), reserved(Role::Column) + 4 * rows);
}

/// A model of the values: one for each row, which the slot of its key names. A row that repeats a
/// step at the beginning of a chunk may have any value that the step has had.
class Model {
 public:
  /// Expects a row to have the value of write number `write`, which a batch has shown for its step.
  void expect_value(std::uint32_t slot, std::uint64_t step, std::uint64_t write) {
    const auto [entry, added] = rows_.try_emplace({slot, step}, write);
    if (!added) {
      EXPECT_EQ(entry->second, write) << "step " << step << ", slot " << slot;
      return;
    }
    EXPECT_TRUE(write == 0 || past_writes_[step].contains(write)) << "step " << step;
  }
  void write(std::uint32_t slot, std::uint64_t step, std::uint64_t write) {
    rows_[{slot, step}] = write;
    past_writes_[step].insert(write);
  }

 private:
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> rows_;
  std::map<std::uint64_t, std::set<std::uint64_t>> past_writes_;
};

/// The parameters are the window and whether frames are compressed.
class Windows : public testing::TestWithParam<std::tuple<Window, bool>> {};

INSTANTIATE_TEST_SUITE_P(
    MutableColumn, Windows,
    testing::Combine(
        testing::Values(Window(Transitions{}), Window(Transitions{.n_step = 3, .frame_stack = 1}),
                        Window(Sequences{.length = 4, .period = 1}),
                        Window(Sequences{.length = 3, .period = 2, .burn_in = 1}),
                        Window(Sequences{.length = 4, .period = 3, .end = SequenceEnd::Overlap})),
        testing::Bool()));

/// Random calls to a buffer, beside the model.
class BufferAndModel {
 public:
  BufferAndModel(const Window& window, bool compressed, std::uint64_t seed)
      : world(options_of(window), compressed), rng_(seed) {
    for (std::size_t w = 0; w < next_.size(); ++w) {
      writers_.push_back(world.replay->writer());
    }
  }

  void append() {
    const std::size_t w = rng_.below(writers_.size());
    for (std::size_t i = rng_.between(1, 5); i-- > 0;) {
      const End end = rng_.chance(0.1) ? End::Truncated : End::Continue;
      ASSERT_EQ(world.append(writers_[w], next_[w]++, end), CommitStatus::Committed);
      next_[w] += end == End::Continue ? 0 : 1;
    }
    static_cast<void>(world.replay->size());
  }
  /// Compares the values of a batch of all items.
  void compare(const Batch& batch) {
    const std::span<const std::uint64_t> ids = batch.now(world.id);
    const std::size_t steps = ids.size() / batch.size();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::vector<std::uint64_t> shown = world.shown_writes(batch, i);
      for (std::uint32_t k = 0; k < shown.size(); ++k) {
        model_.expect_value(batch.keys()[i].slot() + k, ids[i * steps + k], shown[k]);
      }
      every_key_.insert(batch.keys()[i].bits);
    }
  }
  /// Updates some of the items, one of them twice, and a key that may be stale: all steps of their
  /// windows, or only the first.
  void update(const Batch& batch) {
    keys_.clear();
    values_.clear();
    const std::size_t steps = batch.now(world.id).size() / batch.size();
    const std::size_t given = rng_.chance(0.5) ? steps : 1;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (rng_.chance(0.3)) {
        add(batch, i, given);
      }
    }
    add(batch, rng_.below(batch.size()), given);
    const ItemKey old{
        *std::next(every_key_.begin(), static_cast<std::ptrdiff_t>(rng_.below(every_key_.size())))};
    const bool gone =
        std::ranges::find(batch.keys(), old.bits, &ItemKey::bits) == std::ranges::end(batch.keys());
    if (gone) {
      keys_.push_back(old);
      values_.resize(values_.size() + 7 * given, 0xEEEE);
    }
    const UpdateResult result = world.replay->update(keys_, world.latent, values_);
    ASSERT_EQ(result.stale, gone ? 1U : 0U);
    ASSERT_EQ(result.applied + result.stale, keys_.size());
  }

  LatentBuffer world;

 private:
  /// Adds an item, with values of its first `given` steps, to the update.
  void add(const Batch& batch, std::size_t item, std::size_t given) {
    const std::span<const std::uint64_t> ids = batch.now(world.id);
    const std::size_t steps = ids.size() / batch.size();
    keys_.push_back(batch.keys()[item]);
    for (std::uint32_t k = 0; k < given; ++k) {
      const std::uint64_t step = ids[item * steps + k];
      const std::uint64_t write = ++writes_ % 60'000 + 1;
      const Latent latent = latent_of(step, write);
      values_.insert(values_.end(), latent.begin(), latent.end());
      if (k < batch.lengths()[item] || steps == 1) {
        model_.write(batch.keys()[item].slot() + k, step, write);
      }
    }
  }

  Model model_;
  Rng rng_;
  std::vector<Writer> writers_;
  std::array<std::uint64_t, 2> next_{1, std::uint64_t{1} << 16U};  ///< Each writer's next step.
  std::uint64_t writes_ = 0;
  std::set<std::uint64_t> every_key_;
  // Of an update.
  std::vector<ItemKey> keys_;
  std::vector<std::uint16_t> values_;
};

TEST_P(Windows, ShowTheValuesOfAModelAfterRandomUpdates) {
  const auto& [window, compressed] = GetParam();
  for (std::uint64_t seed = 1; seed <= scaled(4); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    BufferAndModel both(window, compressed, seed);
    for (std::size_t call = 0; call < 400 && !HasFailure(); ++call) {
      ASSERT_NO_FATAL_FAILURE(both.append());
      if (both.world.replay->stats().items != 0) {
        const Batch batch = both.world.draw_all();
        both.compare(batch);
        ASSERT_NO_FATAL_FAILURE(both.update(batch));
      }
    }
    EXPECT_GT(both.world.replay->stats().evicted_steps, 100U);
  }
}

/// A writer that goes on in another chunk repeats steps there with their present values.
TEST(MutableColumn, IsRepeatedWithItsPresentValueInTheNextChunk) {
  for (const bool compressed : {false, true}) {
    SCOPED_TRACE(compressed);
    Options options = options_of(Sequences{.length = 3, .period = 1});
    options.capacity_steps = 64;
    options.chunk_steps = 8;
    LatentBuffer world(options, compressed);
    Writer writer = world.replay->writer();
    for (std::uint64_t step = 1; step <= 6; ++step) {
      world.append(writer, step);
    }
    const Batch batch = world.draw_all();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      std::vector<std::uint16_t> values;
      for (std::uint64_t step = batch.now(world.id)[3 * i], k = 0; k < 3; ++k) {
        const Latent latent = latent_of(step + k, 3);
        values.insert(values.end(), latent.begin(), latent.end());
      }
      world.replay->update(batch.keys().subspan(i, 1), world.latent, values);
    }
    for (std::uint64_t step = 7; step <= 16; ++step) {
      world.append(writer, step);
    }
    const Batch later = world.draw_all();
    std::set<std::uint32_t> chunks;
    for (std::size_t i = 0; i < later.size(); ++i) {
      chunks.insert(later.keys()[i].slot() / 8);
      const std::vector<std::uint64_t> shown = world.shown_writes(later, i);
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(shown[k], later.now(world.id)[3 * i + k] <= 6 ? 3U : 0U);
      }
    }
    EXPECT_GT(chunks.size(), 2U);
  }
}

}  // namespace
}  // namespace reprise::test
