#include "window/gather.hpp"

#include "testing/test.hpp"
#include "window/batch_store.hpp"

#include <memory_resource>

namespace reprise::window {
namespace {

TEST(Gather, SaysHowManyBytesAnItemTakes) {
  Schema schema;
  schema.observation<std::uint8_t>("frame", {10});
  schema.column<std::int32_t>("action");
  schema.reward("reward");
  const storage::RowLayout layout(schema);
  storage::ChunkStore store(1, 4, layout.stride());
  const auto gather = WindowSpec(Transitions{.frame_stack = 3}).make_gather(schema, layout, store);
  // An item has two stacks, the action, the reward and its return.
  EXPECT_EQ(gather->item_bytes(), 2U * 3 * 10 + 4 + 4 + 4);
}

TEST(Gather, ReadsNoRewardOrDiscountBehindTheWindow) {
  Schema schema;
  schema.observation<std::uint8_t>("state");
  schema.reward("reward");
  schema.discount("discount");
  const storage::RowLayout layout(schema);
  const Transitions window{.n_step = 3, .discount = 0.5F};
  storage::ChunkStore store(1, 4, layout.stride());
  const auto gather = WindowSpec(window).make_gather(schema, layout, store);
  std::vector<std::byte> memory(4 * layout.stride());
  constexpr std::size_t kReward = 1;
  constexpr std::size_t kDiscount = 2;
  const auto set = [&](std::size_t row, std::size_t field, float value) {
    std::memcpy(memory.data() + row * layout.stride() + layout.fields()[field].offset, &value, 4);
  };
  const auto header = storage::ItemHeader::make(9, 0, /*length=*/2);
  std::memcpy(memory.data(), &header, sizeof(header));
  set(0, kReward, 8.0F);
  set(0, kDiscount, 0.25F);
  set(1, kReward, 32.0F);
  set(1, kDiscount, 0.5F);
  set(2, kReward, std::numeric_limits<float>::quiet_NaN());
  set(2, kDiscount, std::numeric_limits<float>::quiet_NaN());
  BatchStore batch(schema, WindowSpec(window), std::pmr::new_delete_resource());
  batch.reserve(1);
  const std::byte* const row = memory.data();
  gather->items(std::span(&row, 1), WindowSpec(window).targets(), batch, 0);
  float returns = 0.0F;
  std::memcpy(&returns, batch.columns[1].data[detail::BatchView::kReturns], sizeof(returns));
  EXPECT_EQ(returns, 8.0F + 0.5F * 0.25F * 32.0F);
  EXPECT_EQ(batch.discounts[0], (0.5F * 0.25F) * (0.5F * 0.5F));
}

}  // namespace
}  // namespace reprise::window
