#include "record/codec.hpp"

#include "../checkpoint/contents.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/test.hpp"

namespace reprise::record {
namespace {

TEST(Codec, DecodesWhatWasEncoded) {
  Encoder encoder;
  encoder.u8(0xff);
  encoder.u32(0x01020304U);
  encoder.u64(std::numeric_limits<std::uint64_t>::max() - 1);
  encoder.value(-0.0F);
  encoder.value(std::numeric_limits<double>::quiet_NaN());
  encoder.list(std::string("name\0with a zero", 16));
  encoder.list(std::vector{7U, 9U});
  encoder.bytes(encoder.encoded().first(3));
  Decoder decoder(encoder.encoded(), "file");
  EXPECT_EQ(decoder.u8(), 0xff);
  EXPECT_EQ(decoder.u32(), 0x01020304U);
  EXPECT_EQ(decoder.u64(), std::numeric_limits<std::uint64_t>::max() - 1);
  EXPECT_TRUE(std::signbit(decoder.value<float>()));
  EXPECT_TRUE(std::isnan(decoder.value<double>()));
  EXPECT_EQ(decoder.string(100), std::string_view("name\0with a zero", 16));
  EXPECT_EQ(decoder.list<std::uint32_t>(), (std::vector{7U, 9U}));
  EXPECT_EQ(decoder.bytes(3)[1], std::byte{4});
  decoder.finish();
}

TEST(Codec, IsLittleEndianWithoutPadding) {
  Encoder encoder;
  encoder.u8(1);
  encoder.u32(0x05040302U);
  const std::vector<std::byte> expected{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                        std::byte{5}};
  EXPECT_EQ(std::move(encoder).take(), expected);
}

TEST(Codec, RefusesALengthBeyondTheBytesThatAreLeft) {
  Encoder encoder;
  encoder.u32(0xffffffffU);
  encoder.u8(7);
  // The bytes lie at byte 100 of the file.
  const auto decoder = [&] { return Decoder(encoder.encoded(), "a/file", 100); };
  test::expect_refusal<CheckpointError>(
      [&] { static_cast<void>(decoder().string(std::numeric_limits<std::size_t>::max())); },
      {"a/file", "104", "4294967295", "1"});
  test::expect_refusal<CheckpointError>([&] { static_cast<void>(decoder().string(10)); },
                                        {"a/file", "4294967295", "10"});
  test::expect_refusal<CheckpointError>([&] { static_cast<void>(decoder().count(1)); },
                                        {"a/file", "4294967295"});
  test::expect_refusal<CheckpointError>([&] { static_cast<void>(decoder().u64()); },
                                        {"a/file", "100", "8", "5"});
  test::expect_refusal<CheckpointError>([&] { decoder().finish(); }, {"a/file", "5"});
  const CheckpointError error = test::checkpoint_error_of([&] {
    Decoder at = decoder();
    static_cast<void>(at.u32());
    static_cast<void>(at.u32());
  });
  EXPECT_EQ(error.kind(), CheckpointError::Kind::Damaged);
  EXPECT_EQ(error.file(), "a/file");
  EXPECT_EQ(error.offset(), 104U);
}

TEST(Codec, RefusesMoreElementsThanTheBytesCanHold) {
  Encoder encoder;
  encoder.u32(2);
  for (std::uint8_t i = 0; i < 7; ++i) {
    encoder.u8(i);
  }
  EXPECT_EQ(Decoder(encoder.encoded(), "a/file").count(3), 2U);
  test::expect_refusal<CheckpointError>(
      [&] { static_cast<void>(Decoder(encoder.encoded(), "a/file").count(4)); },
      {"a/file", "2 elements", "7 bytes follow"});
}

TEST(Codec, DecodesRandomBytesWithoutReadingBeyondThem) {
  const std::uint64_t seed = 11;
  test::Rng rng(seed);
  for (int round = 0; round < 2'000; ++round) {
    const test::ByteVector bytes = test::random_bytes(rng, rng.below(40));
    Decoder decoder(bytes, "file");
    try {
      for (;;) {
        const std::size_t before = decoder.left();
        switch (rng.below(5)) {
          case 0:
            static_cast<void>(decoder.u8());
            break;
          case 1:
            static_cast<void>(decoder.u64());
            break;
          case 2:
            EXPECT_LE(decoder.string(20).size(), 20U);
            break;
          case 3:
            EXPECT_LE(std::size_t{decoder.count(3)} * 3, before);
            break;
          default:
            EXPECT_LE(decoder.list<std::uint16_t>().size() * 2, before);
        }
        EXPECT_LT(decoder.left(), before) << "seed " << seed;
      }
    } catch (const CheckpointError& error) {
      EXPECT_LE(error.offset(), bytes.size());
    }
  }
}

}  // namespace
}  // namespace reprise::record
