#include "storage/row_layout.hpp"

#include "testing/test.hpp"

namespace reprise::storage {
namespace {

TEST(ItemHeader, KeepsEveryPartAtItsExtremes) {
  constexpr std::uint64_t kEpisode = ~std::uint64_t{0};
  for (const std::uint64_t position : {std::uint64_t{0}, ItemHeader::kMaxPosition}) {
    for (const std::uint32_t length : {1U, 65535U}) {
      for (const bool terminated : {false, true}) {
        const ItemHeader header = ItemHeader::make(kEpisode, position, length, terminated);
        EXPECT_EQ(header.episode, kEpisode);
        EXPECT_EQ(header.position(), position);
        EXPECT_EQ(header.length(), length);
        EXPECT_EQ(header.terminated(), terminated);
      }
    }
  }
}

TEST(RowLayout, PutsTheHeaderThenObservationsThenColumns) {
  Schema schema;
  schema.column<std::uint8_t>("action");
  schema.observation<float>("state", {3});
  schema.reward("reward");
  schema.observation<std::uint8_t>("lives");
  const RowLayout layout(schema);
  // The header has 16 bytes, state 12, lives 1 and action 1; the reward is at the next multiple of
  // 4.
  EXPECT_EQ(layout.fields()[1].offset, 16U);
  EXPECT_EQ(layout.fields()[3].offset, 28U);
  EXPECT_EQ(layout.fields()[0].offset, 29U);
  EXPECT_EQ(layout.fields()[2].offset, 32U);
  EXPECT_EQ(layout.stride(), 40U);
  EXPECT_EQ(layout.observation_mask(), 0b1010U);
  EXPECT_EQ(layout.field_mask(), 0b1111U);
  EXPECT_EQ(layout.fields()[1].elements, 3U);
  EXPECT_EQ(layout.fields()[1].signature, (detail::signature(DType::F32, Role::Observation, true)));
  EXPECT_EQ(layout.fields()[3].signature, detail::signature(DType::U8, Role::Observation, false));
}

TEST(RowLayout, PutsRecurrentStatesBesideTheRowsWhichHoldTheirNumber) {
  Schema schema;
  schema.recurrent_state<std::uint8_t>("gate", {3});
  schema.observation<float>("state", {3});
  schema.recurrent_state<double>("lstm", {2, 4});
  schema.reward("reward");
  const RowLayout layout(schema);
  EXPECT_EQ(layout.fields()[0].offset, 0U);
  EXPECT_EQ(layout.fields()[2].offset, 8U);
  EXPECT_EQ(layout.state_stride(), 72U);
  // The header has 16 bytes, the number of the states 4, the observation 12 and the reward 4.
  EXPECT_EQ(layout.fields()[1].offset, 20U);
  EXPECT_EQ(layout.fields()[3].offset, 32U);
  EXPECT_EQ(layout.stride(), 40U);
  EXPECT_EQ(layout.state_mask(), 0b0101U);
  EXPECT_EQ(layout.observation_mask(), 0b0010U);
  EXPECT_EQ(layout.field_mask(), 0b1111U);
  EXPECT_EQ(RowLayout(Schema()).state_stride(), 0U);
}

TEST(RowLayout, HasBitsForSixtyFourFields) {
  Schema schema;
  for (int i = 0; i < 64; ++i) {
    schema.observation<std::uint8_t>(std::to_string(i));
  }
  const RowLayout layout(schema);
  EXPECT_EQ(layout.field_mask(), ~std::uint64_t{0});
  EXPECT_EQ(layout.observation_mask(), ~std::uint64_t{0});
}

TEST(RowLayout, LargeRowsTakeWholeCacheLines) {
  Schema schema;
  schema.observation<std::uint8_t>("frame", {1001});
  EXPECT_EQ(RowLayout(schema).stride(), 1024U);
  schema.column<std::uint8_t>("action", {24});
  EXPECT_EQ(RowLayout(schema).stride(), 1088U);
}

void add_random_field(Schema& schema, test::Rng& rng) {
  const std::string name = "field " + std::to_string(schema.fields().size());
  const std::size_t shape[] = {rng.between(1, 5), rng.between(1, 40)};
  switch (rng.below(6)) {
    case 0:
      schema.observation<std::uint8_t>(name, std::span(shape));
      return;
    case 1:
      schema.observation<double>(name);
      return;
    case 2:
      schema.observation<std::uint16_t>(name, std::span(shape).first(1));
      return;
    case 3:
      schema.column<bool>(name);
      return;
    case 4:
      schema.column<std::int64_t>(name, std::span(shape).first(1));
      return;
    default:
      schema.reward(name);
  }
}

TEST(RowLayout, FieldsAreAlignedDisjointAndInsideTheRowWhateverTheSchema) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(seed);
    Schema schema;
    for (std::size_t i = rng.between(1, 12); i != 0; --i) {
      add_random_field(schema, rng);
    }
    const RowLayout layout(schema);
    std::vector<std::pair<std::size_t, std::size_t>> ranges{{0, sizeof(ItemHeader)}};
    std::size_t observations_end = 0;
    std::size_t columns_begin = layout.stride();
    for (std::size_t i = 0; i < schema.fields().size(); ++i) {
      const FieldSpec& spec = schema.fields()[i];
      const std::size_t offset = layout.fields()[i].offset;
      const std::size_t end = offset + spec.bytes;
      ASSERT_EQ(offset % (spec.bytes / spec.elements), 0U);
      ranges.emplace_back(offset, end);
      if (spec.role == Role::Observation) {
        observations_end = std::max(observations_end, end);
      } else {
        columns_begin = std::min(columns_begin, offset);
      }
      ASSERT_EQ((layout.observation_mask() >> i & 1U) != 0, spec.role == Role::Observation);
    }
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      ASSERT_LE(ranges[i - 1].second, ranges[i].first);
    }
    ASSERT_LE(ranges.back().second, layout.stride());
    ASSERT_LE(observations_end, columns_begin);
    ASSERT_EQ(layout.stride() % alignof(ItemHeader), 0U);
  }
}

}  // namespace
}  // namespace reprise::storage
