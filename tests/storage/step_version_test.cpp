#include "storage/step_version.hpp"

#include "storage/mutable_values.hpp"
#include "storage/row_layout.hpp"
#include "testing/test.hpp"

namespace reprise::storage {
namespace {

TEST(StepVersion, OfZeroedMemoryCanBeReadAndWritten) {
  alignas(Version) std::array<std::byte, sizeof(Version)> zeros{};
  auto& version = *reinterpret_cast<Version*>(zeros.data());
  EXPECT_TRUE(version.try_read([] {}));
  EXPECT_TRUE(version.try_write([] {}));
}

TEST(StepVersion, IsNeitherReadNorWrittenWhileAThreadWrites) {
  Version version;
  bool called = false;
  const auto call = [&] { called = true; };
  EXPECT_TRUE(version.try_write([&] {
    EXPECT_FALSE(version.try_read(call));
    EXPECT_FALSE(version.try_write(call));
  }));
  EXPECT_FALSE(called);
  EXPECT_TRUE(version.try_read(call));
  EXPECT_TRUE(called);
}

TEST(StepVersion, ReadBesideAWriteIsNotWhole) {
  Version version;
  EXPECT_FALSE(version.try_read([&] { EXPECT_TRUE(version.try_write([] {})); }));
  EXPECT_TRUE(version.try_read([] {}));
}

TEST(StepVersion, HasAnotherNumberAfterEveryWrite) {
  Version version;
  const std::uint32_t before = version.number();
  EXPECT_TRUE(version.try_write([] {}));
  EXPECT_NE(version.number(), before);
}

TEST(MutableValues, OfAnySizeComeBackAndTouchNothingElse) {
  for (std::size_t bytes = 1; bytes <= 40; ++bytes) {
    SCOPED_TRACE(bytes);
    const std::size_t words = (bytes + 7) / 8;
    std::vector<Word> row(words + 2, 0xABABABABABABABABU);
    std::vector<std::byte> given(bytes);
    for (std::size_t b = 0; b < bytes; ++b) {
      given[b] = static_cast<std::byte>(b + 1);
    }
    put_value(reinterpret_cast<std::byte*>(&row[1]), given.data(), bytes);
    EXPECT_EQ(row.front(), 0xABABABABABABABABU);
    EXPECT_EQ(row.back(), 0xABABABABABABABABU);
    std::vector<std::byte> read(bytes + 1, std::byte{0xCD});
    get_value(reinterpret_cast<const std::byte*>(&row[1]), read.data(), bytes);
    EXPECT_EQ(std::memcmp(read.data(), given.data(), bytes), 0);
    EXPECT_EQ(read.back(), std::byte{0xCD});
  }
}

TEST(RowLayout, GivesMutableColumnsWholeWordsBehindEverythingElse) {
  Schema schema;
  const auto small = schema.mutable_column<std::uint8_t>("small");
  const auto shaped = schema.mutable_column<std::uint16_t>("shaped", {5});
  schema.observation<std::uint8_t>("id", {3});
  const auto fixed = schema.column<double>("fixed");
  const RowLayout layout(schema);
  ASSERT_EQ(layout.mutable_fields().size(), 2U);
  const MutableField& first = layout.mutable_fields()[0];
  const MutableField& second = layout.mutable_fields()[1];
  EXPECT_EQ(first.field, small.index());
  EXPECT_EQ(first.offset, layout.mutable_begin());
  EXPECT_EQ(first.offset % sizeof(Word), 0U);
  EXPECT_GE(layout.mutable_begin(), layout.fields()[fixed.index()].offset + sizeof(double));
  EXPECT_EQ(second.field, shaped.index());
  EXPECT_EQ(second.offset, first.offset + sizeof(Word));
  EXPECT_EQ(second.bytes, 10U);
  EXPECT_EQ(layout.stride(), second.offset + 2 * sizeof(Word));
}

}  // namespace
}  // namespace reprise::storage
