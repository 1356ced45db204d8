#include <reprise/schema.hpp>

#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Expects the call to be refused with these words and to leave the schema unchanged.
template <class Call>
void expect_refused_unchanged(Schema& schema, Call&& call,
                              std::initializer_list<std::string_view> words) {
  const Schema before = schema;
  expect_refusal<std::invalid_argument>([&] { call(schema); }, words);
  EXPECT_TRUE(schema == before) << "a refused declaration changed the schema";
}

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

TEST(Schema, RefusesAnEmptyName) {
  Schema schema;
  schema.reward("reward");
  expect_refused_unchanged(schema, [](Schema& s) { s.observation<float>(""); }, {"name"});
}

TEST(Schema, RefusesADuplicateNameWhateverItsRole) {
  Schema schema;
  schema.observation<float>("state", {4});
  expect_refused_unchanged(schema, [](Schema& s) { s.observation<float>("state", {4}); },
                           {"state"});
  expect_refused_unchanged(schema, [](Schema& s) { s.column<std::int32_t>("state"); }, {"state"});
  expect_refused_unchanged(schema, [](Schema& s) { s.reward("state"); }, {"state"});
  expect_refused_unchanged(schema, [](Schema& s) { s.discount("state"); }, {"state"});
}

TEST(Schema, RefusesADimensionOfZero) {
  Schema schema;
  expect_refused_unchanged(schema,
                           [](Schema& s) {
                             s.observation<float>("state", {4, 0});
                           },
                           {"state", "0"});
}

TEST(Schema, RefusesAShapeThatNoMachineHolds) {
  Schema schema;
  expect_refused_unchanged(
      schema, [](Schema& s) { s.column<double>("big", {std::size_t{1} << 46U}); }, {"big"});
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  expect_refused_unchanged(schema, [](Schema& s) { s.column<double>("big", {kMost}); }, {"big"});
  // The product of the dimensions overflows to 0.
  expect_refused_unchanged(
      schema,
      [](Schema& s) {
        s.column<double>("big", {std::size_t{1} << 32U, std::size_t{1} << 32U});
      },
      {"big"});
}

TEST(Schema, TakesAtMostSixtyFourFields) {
  Schema schema;
  for (int i = 0; i < 64; ++i) {
    schema.column<float>("field " + std::to_string(i));
  }
  expect_refused_unchanged(schema, [](Schema& s) { s.column<float>("one more"); }, {"64"});
}

TEST(Schema, TakesOneDiscount) {
  Schema schema;
  schema.discount("discount");
  expect_refused_unchanged(schema, [](Schema& s) { s.discount("another"); }, {"another"});
}

TEST(Schema, RefusesARoleThatThereIsNot) {
  Schema schema;
  expect_refusal<std::invalid_argument>(
      [&] { schema.declare("x", static_cast<Role>(9), DType::F32, {}); }, {"'x'", "9", "Role"});
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
