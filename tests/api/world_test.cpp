#include "testing/worlds/world.hpp"

#include "testing/test.hpp"
#include "testing/worlds/episodes.hpp"
#include "testing/worlds/item_check.hpp"

namespace reprise::test {
namespace {

/// The bytes of an item in each column of a batch that `World` checks, with the column's name.
std::vector<std::pair<std::string, std::span<std::byte>>> columns_of(const World& world,
                                                                     const Batch& batch,
                                                                     std::size_t item,
                                                                     bool with_returns) {
  std::vector<std::pair<std::string, std::span<std::byte>>> all;
  const auto add = [&](const std::string& name, std::span<std::byte> column) {
    const std::size_t item_bytes = column.size() / batch.size();
    all.emplace_back(name, column.subspan(item * item_bytes, item_bytes));
  };
  for (const AnyField field : world.fields()) {
    const std::string& name = world.schema().fields()[field.index()].name;
    if (field.role() != Role::Observation) {
      add(name, batch.now(field));
    } else if (batch.unique_frames()) {
      add("frames of " + name, batch.frames(field));
    } else {
      add(name, batch.now(field));
      add("next " + name, batch.next(field));
    }
    if (field.role() == Role::Reward && with_returns) {
      add("returns of " + name, batch.returns(field));
    }
  }
  add("discounts", std::as_writable_bytes(batch.discounts()));
  add("episode ids", std::as_writable_bytes(batch.episode_ids()));
  add("positions", std::as_writable_bytes(batch.positions()));
  return all;
}

class WorldOf : public testing::TestWithParam<Window> {};

INSTANTIATE_TEST_SUITE_P(
    Windows, WorldOf,
    testing::Values(Transitions{.n_step = 3, .frame_stack = 2},
                    Transitions{.frame_stack = 3, .stack_start = StackStart::Zeros},
                    Sequences{
                        .length = 3, .period = 2, .burn_in = 1, .n_step = 2, .frame_stack = 2},
                    Sequences{.length = 4, .period = 3}));

TEST_P(WorldOf, NoticesAChangeOfAnyByteOfAnItem) {
  const bool sequences = std::holds_alternative<Sequences>(GetParam());
  const World world(
      {.discount = true, .states = sequences, .compressed = true, .mutable_columns = true});
  ReplayBuffer replay(world.schema(), {.capacity_steps = 64,
                                       .window = GetParam(),
                                       .selectors = {Uniform{}},
                                       .episode_index = true});
  Writer writer = replay.writer();
  world.begin(writer);
  const std::uint64_t episode = writer.episode_id();
  for (int step = 1; step <= 7; ++step) {
    world.write_step(writer);
    if (sequences) {
      world.write_states(writer);
    }
    writer.commit(step == 7 ? End::Terminated : End::Continue);
  }
  const bool with_returns = !sequences || std::get<Sequences>(GetParam()).n_step != 0;
  for (const bool unique : {false, true}) {
    Batch batch = replay.make_batch(7, nullptr, unique);
    replay.episodes().gather(episode, 0, 7, batch);
    for (std::size_t item = 0; item < 7; ++item) {
      if (batch.lengths()[item] == 0) {
        continue;
      }
      const bool terminated = batch.positions()[item] + batch.lengths()[item] == 7;
      ASSERT_EQ(world.mismatch(batch, item, GetParam(), terminated), "");
      for (const auto& [name, bytes] : columns_of(world, batch, item, with_returns)) {
        // Computed floats may be rounded, so the test changes only the byte of their exponent.
        const bool computed = name.starts_with("returns") || name == "discounts";
        for (std::size_t b = computed ? 3 : 0; b < bytes.size(); b += computed ? 4 : 1) {
          std::byte& byte = bytes[b];
          byte ^= std::byte{0x41};
          EXPECT_NE(world.mismatch(batch, item, GetParam(), terminated), "")
              << name << ", byte " << b << " of item " << item;
          byte ^= std::byte{0x41};
        }
      }
      if (!sequences && !terminated && batch.discounts()[item] != 0.0F) {
        EXPECT_NE(world.mismatch(batch, item, GetParam(), true), "")
            << "a termination would have discount 0";
      }
    }
  }
}

TEST(ItemCheck, NoticesItemsAndEndsThatTheirEpisodeDoesNotHave) {
  World world;
  const Episodes episodes(1, /*faulty=*/true, 0);
  const WindowRule rule(Transitions{.n_step = 2});
  ReplayBuffer replay(world.schema(), {.capacity_steps = 64, .window = rule.window()});
  Writer writer = replay.writer();
  // The number of an episode of one step, whose last commit ends it.
  std::uint32_t number = 0;
  while (episodes.episode(5, number).length != 1 || !episodes.episode(5, number).ends_by_commit()) {
    ++number;
  }
  const Episode episode = episodes.episode(5, number);
  // Appends the step of this name, and another one if `end` is Continue. Checks the first item.
  const auto mismatch_of = [&](StepName name, End end, bool cut_off) {
    name = world.begin(writer, name);
    world.write_step(writer, name);
    writer.commit(end);
    if (end == End::Continue) {
      world.write_step(writer, name.after(1));
      writer.commit(End::Truncated);
    }
    Sampler sampler = replay.sampler();
    const SampleResult batch = sampler.sample(1, {.draws = Draws::WithoutReplacement});
    CheckedItem checked;
    const std::string mismatch =
        ItemCheck(world, episodes, rule).mismatch(*batch, 0, checked, cut_off);
    EXPECT_EQ(checked.correct, mismatch.empty());
    replay.clear();
    return mismatch;
  };
  EXPECT_EQ(mismatch_of({5, number}, episode.end_of(1), false), "");
  EXPECT_NE(mismatch_of({5, number, 0, 1}, episode.end_of(1), false), "")
      << "a step of another round";
  EXPECT_NE(mismatch_of({5, number, 3}, episode.end_of(1), false), "")
      << "a step behind the end of its episode";
  EXPECT_NE(mismatch_of({5, number}, End::Continue, false), "") << "an episode that is too long";
  std::uint32_t longer = 0;
  while (episodes.episode(5, longer).length < 3) {
    ++longer;
  }
  EXPECT_NE(mismatch_of({5, longer}, End::Truncated, false), "") << "an episode that is too short";
  EXPECT_EQ(mismatch_of({5, longer}, End::Truncated, true), "") << "an episode that may be cut off";
}

}  // namespace
}  // namespace reprise::test
