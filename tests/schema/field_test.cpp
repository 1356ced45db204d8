#include "testing/test.hpp"

#include <bit>

namespace reprise::test {
namespace {

template <class T>
T random_value(Rng& rng) {
  if constexpr (std::is_same_v<T, bool>) {
    return rng.chance(0.5);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(rng.unit() * 2000.0 - 1000.0);
  } else if constexpr (std::is_class_v<T>) {
    return T{static_cast<std::uint16_t>(rng.next())};
  } else {
    return static_cast<T>(rng.next());
  }
}

/// An array of n values, because std::vector<bool> is not contiguous.
template <class T>
struct Values {
  explicit Values(std::size_t n) : size(n), data(std::make_unique<T[]>(n)) {}
  std::span<T> span() const { return {data.get(), size}; }
  std::size_t size;
  std::unique_ptr<T[]> data;
};

template <class T>
class FieldOf : public testing::Test {};
using AllElements = testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                                   std::uint32_t, std::int32_t, std::uint64_t, std::int64_t, bool,
                                   float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(FieldOf, AllElements);

const Options kOptions = SmallOptions{};

TYPED_TEST(FieldOf, RoundTripsScalarsAndEveryShapeAligned) {
  using T = TypeParam;
  constexpr std::size_t kSteps = 40;
  const std::vector<std::vector<std::size_t>> shapes = {{1}, {3}, {5, 7}, {2, 1, 9}, {257}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(testing::PrintToString(shape));
    // Fields of one byte in between make the offsets of the other fields unaligned.
    Schema schema;
    const auto odd = schema.observation<std::uint8_t>("odd");
    const auto seen = schema.observation<T>("seen", shape);
    const auto odder = schema.column<bool>("odder");
    const auto scalar = schema.observation<T>("scalar");
    const auto done = schema.column<T>("done", shape);
    const auto choice = schema.column<T>("choice");
    ReplayBuffer replay(schema, kOptions);

    Rng rng(17);
    const std::size_t elements = schema.fields()[seen.index()].elements;
    Values<T> all_seen((kSteps + 1) * elements);
    Values<T> all_scalar(kSteps + 1);
    Values<T> all_done(kSteps * elements);
    Values<T> all_choice(kSteps);
    for (const auto& values : {&all_seen, &all_scalar, &all_done, &all_choice}) {
      std::ranges::generate(values->span(), [&] { return random_value<T>(rng); });
    }

    Writer writer = replay.writer();
    writer.begin_episode();
    const auto write_observation = [&](auto&& to_seen, T& to_scalar, std::size_t t) {
      ASSERT_EQ(std::bit_cast<std::uintptr_t>(to_seen.data()) % alignof(T), 0U);
      ASSERT_EQ(std::bit_cast<std::uintptr_t>(&to_scalar) % alignof(T), 0U);
      std::ranges::copy(all_seen.span().subspan(t * elements, elements), to_seen.begin());
      to_scalar = all_scalar.span()[t];
    };
    writer.now(odd) = 0;
    write_observation(writer.now(seen), writer.now(scalar), 0);
    for (std::size_t t = 0; t < kSteps; ++t) {
      writer.now(odder) = t % 2 == 0;
      ASSERT_EQ(writer.now(done).size(), elements);
      std::ranges::copy(all_done.span().subspan(t * elements, elements), writer.now(done).begin());
      writer.now(choice) = all_choice.span()[t];
      writer.next(odd) = static_cast<std::uint8_t>(t + 1);
      write_observation(writer.next(seen), writer.next(scalar), t + 1);
      ASSERT_EQ(writer.commit(), CommitStatus::Committed);
    }

    Sampler sampler = replay.sampler({.seed = 3});
    const SampleResult batch = require_batch(sampler.sample(101));
    std::vector<std::size_t> batch_shape = {101};
    EXPECT_EQ(batch->shape(scalar), batch_shape);
    batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
    EXPECT_EQ(batch->shape(seen), batch_shape);
    ASSERT_EQ(batch->now(seen).size(), 101 * elements);
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(batch->now(seen).data()) % alignof(T), 0U);
    const auto equal_rows = [&](std::span<const T> column, std::size_t i, const Values<T>& source,
                                std::size_t row) {
      return std::ranges::equal(column.subspan(i * elements, elements),
                                source.span().subspan(row * elements, elements));
    };
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const auto t = static_cast<std::size_t>(batch->positions()[i]);
      SCOPED_TRACE(t);
      EXPECT_EQ(batch->now(odd)[i], t);
      EXPECT_EQ(batch->next(odd)[i], t + 1);
      EXPECT_EQ(batch->now(odder)[i], t % 2 == 0);
      EXPECT_TRUE(equal_rows(batch->now(seen), i, all_seen, t));
      EXPECT_TRUE(equal_rows(batch->next(seen), i, all_seen, t + 1));
      EXPECT_TRUE(equal_rows(batch->now(done), i, all_done, t));
      EXPECT_EQ(batch->now(scalar)[i], all_scalar.span()[t]);
      EXPECT_EQ(batch->next(scalar)[i], all_scalar.span()[t + 1]);
      EXPECT_EQ(batch->now(choice)[i], all_choice.span()[t]);
    }
  }
}

/// A schema whose fields have the same numbers as those of NumberedBuffer, but other types and
/// roles.
struct OtherSchema {
  Schema schema;
  ScalarObservation<float> zero = schema.observation<float>("zero");
  Observation<std::uint64_t> one = schema.observation<std::uint64_t>("one", {1});
  ScalarColumn<std::uint64_t> two = schema.column<std::uint64_t>("two");
  ScalarColumn<std::uint64_t> three = schema.column<std::uint64_t>("three");
};

TEST(Field, AWriterRefusesHandlesOfAnotherSchema) {
  NumberedBuffer line;
  const OtherSchema stranger;
  Writer writer = line.replay.writer();
  writer.begin_episode();
  writer.now(line.id) = 0;
  expect_refusal([&] { (void)writer.now(stranger.zero); }, {"id"});
  expect_refusal([&] { (void)writer.next(stranger.zero); }, {"id"});
  expect_refusal([&] { (void)writer.now(stranger.one); }, {"action"});
  expect_refusal([&] { (void)writer.now(stranger.two); }, {"reward"});
  expect_refusal([&] { (void)writer.now(stranger.three); }, {"3"});
  EXPECT_EQ(line.append(writer, 0), CommitStatus::Committed) << "the step is as it was";
}

TEST(Field, ABatchRefusesHandlesOfAnotherSchema) {
  NumberedBuffer line;
  const OtherSchema stranger;
  line.append_many(0, 5);
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(4));
  EXPECT_THROW((void)batch->now(stranger.zero), std::invalid_argument);
  EXPECT_THROW((void)batch->next(stranger.zero), std::invalid_argument);
  EXPECT_THROW((void)batch->now(stranger.one), std::invalid_argument);
  EXPECT_THROW((void)batch->now(stranger.two), std::invalid_argument);
  EXPECT_THROW((void)batch->now(stranger.three), std::invalid_argument);
  EXPECT_THROW((void)batch->shape(stranger.three), std::invalid_argument);
}

TEST(Field, HandlesOfAnEqualSchemaAreGoodForEveryBufferOfIt) {
  const NumberedBuffer one;
  NumberedBuffer other;
  Writer writer = other.replay.writer();
  writer.begin_episode();
  writer.now(one.id) = 5;
  writer.now(one.action) = 6;
  writer.now(one.reward) = 7.0F;
  writer.next(one.id) = 8;
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  EXPECT_TRUE(one.replay.schema() == other.replay.schema());
}

}  // namespace
}  // namespace reprise::test
