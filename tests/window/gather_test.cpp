#include "window/gather.hpp"

#include "hand_made_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace reprise::window {
namespace {

Transitions random_window(test::Rng& rng) {
  return {.n_step = static_cast<std::uint32_t>(rng.between(1, 5)),
          .discount = static_cast<float>(rng.unit()),
          .frame_stack = static_cast<std::uint32_t>(rng.between(1, 4)),
          .stack_start = rng.chance(0.5) ? StackStart::RepeatFirst : StackStart::Zeros};
}

/// The frames that a stack ending at a position shows, by position; empty for a zero frame.
std::vector<std::optional<std::uint64_t>> stacked(const Transitions& window,
                                                  std::uint64_t position) {
  std::vector<std::optional<std::uint64_t>> frames;
  for (std::uint64_t lag = window.frame_stack; lag-- != 0;) {
    if (lag <= position) {
      frames.emplace_back(position - lag);
    } else if (window.stack_start == StackStart::RepeatFirst) {
      frames.emplace_back(0U);
    } else {
      frames.emplace_back(std::nullopt);
    }
  }
  return frames;
}

void expect_stack(const HandMadeRows& rows, const Transitions& window, std::size_t field,
                  const RowItem& item, std::uint64_t position, const std::byte* gathered) {
  const std::size_t bytes = rows.schema().fields()[field].bytes;
  for (const std::optional<std::uint64_t>& frame : stacked(window, position)) {
    for (std::size_t b = 0; b < bytes; ++b, ++gathered) {
      const std::byte expected =
          frame ? rows.content(field, item.episode, *frame, b) : std::byte{0};
      ASSERT_EQ(*gathered, expected) << "field " << field << ", position " << position;
    }
  }
}

void expect_sums(const HandMadeRows& rows, const Transitions& window, const RowItem& item,
                 const GatheredBatch& batch, std::size_t place) {
  double product = 1.0;
  double first = 0.0;
  double second = 0.0;
  for (std::uint64_t k = 0; k < item.length; ++k) {
    const std::uint64_t step = item.position + k;
    first += product * static_cast<double>(rows.reward(0, item.episode, step));
    second += product * static_cast<double>(rows.reward(1, item.episode, step));
    product *= static_cast<double>(window.discount);
    if (rows.has_discount()) {
      product *= static_cast<double>(rows.discount(item.episode, step));
    }
  }
  EXPECT_NEAR(static_cast<double>(batch.returns(HandMadeRows::kReward0, place)), first, 1e-5);
  EXPECT_NEAR(static_cast<double>(batch.returns(HandMadeRows::kReward1, place)), second, 1e-5);
  EXPECT_NEAR(static_cast<double>(batch.view.discounts[place]), item.terminated ? 0.0 : product,
              1e-6);
}

void expect_item(const HandMadeRows& rows, const Transitions& window, const RowItem& item,
                 const GatheredBatch& batch, std::size_t place) {
  EXPECT_EQ(batch.view.episodes[place], item.episode);
  EXPECT_EQ(batch.view.positions[place], item.position);
  EXPECT_EQ(batch.view.lengths[place], item.length);
  for (std::size_t field = 0; field < rows.schema().fields().size(); ++field) {
    const FieldSpec& spec = rows.schema().fields()[field];
    if (spec.role == Role::Observation) {
      expect_stack(rows, window, field, item, item.position,
                   batch.at(detail::BatchView::kNow, field, place));
      expect_stack(rows, window, field, item, item.position + item.length,
                   batch.at(detail::BatchView::kNext, field, place));
    } else {
      const std::byte* const now = batch.at(detail::BatchView::kNow, field, place);
      for (std::size_t b = 0; b < spec.bytes; ++b) {
        ASSERT_EQ(now[b], rows.content(field, item.episode, item.position, b)) << field;
      }
    }
  }
  expect_sums(rows, window, item, batch, place);
}

TEST(Gather, CopiesWhatPlainLoopsOverTheEpisodesGive) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(seed);
    const Transitions window = random_window(rng);
    const HandMadeRows rows(rng, window, rng.chance(0.5));
    const Gather gather(rows.schema(), rows.layout(), WindowSpec(window));

    std::vector<RowItem> items(rng.between(1, 40));
    std::generate(items.begin(), items.end(),
                  [&] { return rows.items()[rng.below(rows.items().size())]; });
    const std::size_t offset = rng.below(4);
    const std::size_t behind = rng.below(3);
    GatheredBatch batch(rows.schema(), window.frame_stack, offset + items.size() + behind);
    std::vector<const std::byte*> addresses;
    for (const RowItem& item : items) {
      addresses.push_back(item.row);
    }
    gather.items(addresses, batch.view, offset);
    for (std::size_t i = 0; i < items.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(expect_item(rows, window, items[i], batch, offset + i));
    }
    EXPECT_TRUE(batch.untouched(0, offset));
    EXPECT_TRUE(batch.untouched(offset + items.size(), behind));
  }
}

TEST(Gather, NothingIsCopiedForNoItems) {
  test::Rng rng(1);
  const HandMadeRows rows(rng, Transitions{}, false);
  const Gather gather(rows.schema(), rows.layout(), WindowSpec(Transitions{}));
  GatheredBatch batch(rows.schema(), 1, 2);
  gather.items({}, batch.view, 0);
  EXPECT_TRUE(batch.untouched(0, 2));
}

TEST(Gather, SaysHowManyBytesAnItemTakes) {
  Schema schema;
  schema.observation<std::uint8_t>("frame", {10});
  schema.column<std::int32_t>("action");
  schema.reward("reward");
  const storage::RowLayout layout(schema);
  const Gather gather(schema, layout, WindowSpec(Transitions{.frame_stack = 3}));
  // Two stacks, the action, the reward and its return.
  EXPECT_EQ(gather.item_bytes(), 2U * 3 * 10 + 4 + 4 + 4);
}

TEST(Gather, DiscountsOfAStepThatIsAfterTheWindowAreNotRead) {
  Schema schema;
  schema.observation<std::uint8_t>("state");
  schema.reward("reward");
  schema.discount("discount");
  const storage::RowLayout layout(schema);
  const Transitions window{.n_step = 3, .discount = 0.5F};
  const Gather gather(schema, layout, WindowSpec(window));
  std::vector<std::byte> memory(4 * layout.stride());
  const auto set = [&](std::size_t row, std::size_t field, float value) {
    std::memcpy(memory.data() + row * layout.stride() + layout.fields()[field].offset, &value, 4);
  };
  const auto header = storage::ItemHeader::make(9, 0, 2, false);
  std::memcpy(memory.data(), &header, sizeof(header));
  set(0, 1, 8.0F);
  set(0, 2, 0.25F);
  set(1, 1, 32.0F);
  set(1, 2, 0.5F);
  set(2, 1, std::numeric_limits<float>::quiet_NaN());
  set(2, 2, std::numeric_limits<float>::quiet_NaN());
  GatheredBatch batch(schema, 1, 1);
  const std::byte* const row = memory.data();
  gather.items(std::span(&row, 1), batch.view, 0);
  EXPECT_EQ(batch.returns(1, 0), 8.0F + 0.5F * 0.25F * 32.0F);
  EXPECT_EQ(batch.view.discounts[0], 0.5F * 0.25F * 0.5F * 0.5F);
}

}  // namespace
}  // namespace reprise::window
