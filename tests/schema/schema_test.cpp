#include <reprise/schema.hpp>

#include "testing/test.hpp"

namespace reprise::test {
namespace {

TEST(Schema, RecordsNameRoleTypeShapeAndSizeInOrderOfDeclaration) {
  Schema schema;
  const auto frame = schema.observation<std::uint8_t>("frame", {84, 84, 3});
  const auto speed = schema.observation<double>("speed");
  const auto action = schema.column<std::int16_t>("action", {2});
  const Reward reward = schema.reward("reward");
  const Discount discount = schema.discount("discount");

  EXPECT_EQ(frame.index(), 0U);
  EXPECT_EQ(speed.index(), 1U);
  EXPECT_EQ(action.index(), 2U);
  EXPECT_EQ(reward.index(), 3U);
  EXPECT_EQ(discount.index(), 4U);

  const auto fields = schema.fields();
  ASSERT_EQ(fields.size(), 5U);
  EXPECT_EQ(fields[0],
            (FieldSpec{"frame", Role::Observation, DType::U8, {84, 84, 3}, 21168, 21168}));
  EXPECT_EQ(fields[1], (FieldSpec{"speed", Role::Observation, DType::F64, {}, 1, 8}));
  EXPECT_EQ(fields[2], (FieldSpec{"action", Role::Column, DType::I16, {2}, 2, 4}));
  EXPECT_EQ(fields[3], (FieldSpec{"reward", Role::Reward, DType::F32, {}, 1, 4}));
  EXPECT_EQ(fields[4], (FieldSpec{"discount", Role::Discount, DType::F32, {}, 1, 4}));
  EXPECT_EQ(schema.step_bytes(), 21168U + 8 + 4 + 4 + 4);
}

TEST(Schema, ARecurrentStateIsNoPartOfEveryStep) {
  Schema schema;
  schema.observation<float>("state", {4});
  const auto lstm = schema.recurrent_state<float>("lstm", {2, 512});
  EXPECT_EQ(lstm.index(), 1U);
  EXPECT_EQ(schema.fields()[1],
            (FieldSpec{"lstm", Role::RecurrentState, DType::F32, {2, 512}, 1024, 4096}));
  EXPECT_EQ(schema.step_bytes(), 16U);
}

TEST(Schema, SchemasWithTheSameFieldsAreEqualAndOthersAreNot) {
  Schema one;
  Schema other;
  one.observation<float>("state", {4});
  other.observation<float>("state", {4});
  EXPECT_TRUE(one == other);
  other.reward("reward");
  EXPECT_FALSE(one == other);
}

TEST(Schema, RefusesWhatItCannotHoldAndStaysAsItWas) {
  Schema schema;
  schema.observation<float>("state", {4});
  schema.discount("discount");
  const auto refused = [&](auto&& call, std::initializer_list<std::string_view> words) {
    const Schema before = schema;
    expect_refusal([&] { call(schema); }, words);
    EXPECT_TRUE(schema == before) << "a refused declaration changed the schema";
  };
  const auto shape_refused = [&](std::vector<std::size_t> shape, std::string_view word) {
    refused([&](Schema& s) { s.column<double>("large", shape); }, {"large", word});
  };
  refused([](Schema& s) { s.observation<float>(""); }, {"name"});
  refused([](Schema& s) { s.observation<float>("state", {4}); }, {"state"});
  refused([](Schema& s) { s.column<std::int32_t>("state"); }, {"state"});
  refused([](Schema& s) { s.reward("state"); }, {"state"});
  refused([](Schema& s) { s.discount("state"); }, {"state"});
  refused([](Schema& s) { s.discount("another"); }, {"another"});
  refused([](Schema& s) { s.declare("x", static_cast<Role>(9), DType::F32); },
          {"'x'", "9", "Role"});
  shape_refused({4, 0}, "0");
  shape_refused({std::size_t{1} << 46U}, "");
  shape_refused({std::numeric_limits<std::size_t>::max()}, "");
  shape_refused({std::size_t{1} << 32U, std::size_t{1} << 32U}, "");  // The product overflows to 0.
  for (int i = 2; i < 64; ++i) {
    schema.column<float>("field " + std::to_string(i));
  }
  refused([](Schema& s) { s.column<float>("one more"); }, {"64"});
}

TEST(Role, HasTraitsOfItsOwn) {
  ASSERT_EQ(roles().size(), static_cast<std::size_t>(Role::Version) + 1);
  EXPECT_STREQ(traits(Role::Column).name, "column");
  EXPECT_STREQ(traits(Role::RecurrentState).name, "recurrent state");
  EXPECT_TRUE(traits(Role::Observation).has_next);
  EXPECT_TRUE(traits(Role::Reward).has_returns);
  EXPECT_TRUE(traits(Role::Discount).discounts);
  EXPECT_TRUE(traits(Role::RecurrentState).per_item);
  EXPECT_TRUE(traits(Role::MutableColumn).changes);
}

}  // namespace
}  // namespace reprise::test
