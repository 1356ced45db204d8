#include "storage/frame_codec.hpp"

#include "testing/test.hpp"

namespace reprise::storage {
namespace {

using Frame = std::vector<std::byte>;

Frame noise(std::size_t bytes, std::uint32_t seed) {
  std::mt19937 random(seed);
  Frame frame(bytes);
  std::ranges::generate(frame, [&] { return static_cast<std::byte>(random()); });
  return frame;
}

/// A copy of a frame that differs in at most `places` bytes.
Frame similar_frame(const Frame& key, std::uint32_t seed, std::size_t places) {
  std::mt19937 random(seed);
  Frame frame = key;
  for (std::size_t i = 0; i < places; ++i) {
    frame[random() % frame.size()] ^= std::byte{0x55};
  }
  return frame;
}

Frame encoded(const Frame& key, const Frame& frame) {
  FrameEncoder encoder;
  Frame to(frame.size());
  to.resize(encoder.encode(key, frame, to.data()));
  return to;
}

/// Decodes with `read_frame` from heap memory of exactly the needed size, so that sanitizers notice
/// reads beyond it.
bool decode_frame(const Frame& key, std::span<const std::byte> stored, Frame& frame) {
  Frame room = key;
  room.insert(room.end(), stored.begin(), stored.end());
  room.shrink_to_fit();
  return read_frame(
      room, {static_cast<std::uint32_t>(key.size()), static_cast<std::uint32_t>(stored.size())}, 0,
      frame);
}

class FrameCodec : public testing::TestWithParam<std::size_t> {
 protected:
  [[nodiscard]] Frame decoded(const Frame& key, const Frame& stored) const {
    Frame frame(GetParam(), std::byte{7});
    EXPECT_TRUE(decode_frame(key, stored, frame));
    return frame;
  }
};

TEST_P(FrameCodec, OneDecoderReadsFramesOfSeveralKeysInTurn) {
  const Frame keys[] = {noise(GetParam(), 1), noise(GetParam(), 2)};
  FrameDecoder decoder;
  for (std::uint32_t i = 0; i < 10; ++i) {
    for (const Frame& key : keys) {
      const Frame frame = similar_frame(key, i, 5);
      Frame read;
      EXPECT_TRUE(decoder.decode(key, encoded(key, frame),
                                 [&](std::size_t at, std::span<const std::byte> piece) {
                                   EXPECT_EQ(at, read.size());
                                   read.insert(read.end(), piece.begin(), piece.end());
                                 }));
      EXPECT_EQ(read, frame);
    }
  }
}

TEST_P(FrameCodec, TakesLittleForAFrameLikeTheKey) {
  const Frame key = noise(GetParam(), 1);
  // LZ4 stores a match of n bytes in n / 255 bytes, and each block needs some more.
  EXPECT_LT(encoded(key, key).size(), GetParam() / 200 + 40);
}

TEST_P(FrameCodec, GivesBackRunsOfEveryLengthWhereverTheyLie) {
  const Frame key = noise(GetParam(), 1);
  // Lengths at which LZ4 changes its encoding, because a token or a length byte is full.
  const std::size_t lengths[] = {1,  3,  4,  5,   7,   8,   9,   14,  15,  16,  18,
                                 19, 20, 24, 254, 255, 269, 270, 271, 273, 274, 275};
  std::mt19937 random(1);
  FrameEncoder encoder;
  for (int i = 0; i < 300; ++i) {
    Frame frame = key;
    bool changes = i % 2 == 0;
    for (std::size_t at = 0; at < frame.size(); changes = !changes) {
      // Most of the frame is unchanged. In half of the frames, so are the last 30 bytes.
      std::size_t length = lengths[random() % std::size(lengths)] * (changes ? 1 : 8);
      for (; length > 0 && at < frame.size(); --length, ++at) {
        frame[at] ^= changes && (i % 4 < 2 || at + 30 < frame.size()) ? std::byte{1} : std::byte{};
      }
    }
    Frame stored(frame.size());
    stored.resize(encoder.encode(key, frame, stored.data()));
    ASSERT_EQ(decoded(key, stored), frame) << i;
  }
}

TEST_P(FrameCodec, RepeatsWhatChangedIfThatIsLittle) {
  const Frame key(GetParam(), std::byte{7});
  const auto changed = [&](std::size_t part) {
    Frame frame = key;
    std::fill_n(frame.begin() + 50, GetParam() / part, std::byte{9});
    return encoded(key, frame).size();
  };
  // LZ4 would also find that all changed bytes are equal, but decompresses that more slowly.
  EXPECT_GT(changed(40), GetParam() / 40);
  EXPECT_LT(changed(40), GetParam() / 40 + GetParam() / 200 + 60);
  EXPECT_LT(changed(3), GetParam() / 20 + 60) << "LZ4 itself";
  Frame often = key;
  for (std::size_t at = 5; at < often.size(); at += 10) {
    often[at] = std::byte{9};
  }
  EXPECT_LT(encoded(key, often).size(), GetParam() / 20 + 60) << "LZ4 itself";
}

TEST_P(FrameCodec, KeepsNoiseAsItIs) {
  const Frame key = noise(GetParam(), 1);
  const Frame frame = noise(GetParam(), 2);
  EXPECT_EQ(encoded(key, frame), frame);
  EXPECT_EQ(decoded(key, frame), frame);
}

TEST_P(FrameCodec, WritesNothingBehindTheBytesOfAFrame) {
  const Frame key = noise(GetParam(), 1);
  FrameEncoder encoder;
  for (const std::size_t places : {std::size_t{0}, GetParam() / 40, GetParam() / 8, GetParam()}) {
    Frame to(GetParam() + 64, std::byte{0x3c});
    encoder.encode(key, similar_frame(key, 3, places), to.data());
    EXPECT_TRUE(
        std::all_of(to.end() - 64, to.end(), [](std::byte b) { return b == std::byte{0x3c}; }));
  }
}

TEST_P(FrameCodec, ADamagedFrameIsRefusedOrOfItsSize) {
  const Frame key = noise(GetParam(), 1);
  const Frame whole = encoded(key, similar_frame(key, 4, 20));
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    Frame stored(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(random() % 3));
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      stored[random() % stored.size()] = static_cast<std::byte>(random());
    }
    Frame frame(GetParam(), std::byte{7});
    if (!decode_frame(key, stored, frame)) {
      EXPECT_EQ(frame, Frame(GetParam()));
    }
  }
}

TEST_P(FrameCodec, CutAndLengthenedFramesAreRefused) {
  const Frame key = noise(GetParam(), 1);
  const Frame whole = encoded(key, similar_frame(key, 4, 20));
  Frame frame(GetParam());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(decode_frame(key, std::span(whole).first(bytes), frame)) << bytes;
  }
  Frame longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_frame(key, longer, frame));
  longer.resize(GetParam() + 1);
  EXPECT_FALSE(decode_frame(key, longer, frame));
}

INSTANTIATE_TEST_SUITE_P(OfBytes, FrameCodec,
                         testing::Values(512, 7056, 32768, 32769, 65536, 100'800),
                         testing::PrintToStringParamName());

/// A compressed frame of the same size as the frame itself would be taken for an uncompressed one.
TEST(SmallFrames, NeverTakeTheirOwnSizeCompressed) {
  for (const std::size_t size : {24U, 40U, 64U, 100U, 300U, 600U}) {
    const Frame key = noise(size, 1);
    for (std::size_t run = 4; run <= 12; ++run) {
      for (std::size_t at = 0; at + run <= size; ++at) {
        Frame frame = noise(size, 2);
        std::copy_n(key.begin() + static_cast<std::ptrdiff_t>(at), run,
                    frame.begin() + static_cast<std::ptrdiff_t>(at));
        Frame read(size);
        ASSERT_TRUE(decode_frame(key, encoded(key, frame), read));
        ASSERT_EQ(read, frame) << size << ": " << run << " alike at " << at;
      }
    }
  }
}

/// The second `decode` gets 40 bytes too few, so the last block claims bytes of the next frame.
TEST(FrameBlocks, EndWithTheirFrame) {
  const Frame key = noise(kFrameBlock + 100, 1);
  const Frame frame = noise(key.size(), 2);
  Frame stored;
  for (const auto& [at, length] : {std::pair<std::size_t, std::uint16_t>(0, kFrameBlock),
                                   std::pair<std::size_t, std::uint16_t>(kFrameBlock, 100)}) {
    const auto bytes = std::as_bytes(std::span(&length, 1));
    stored.insert(stored.end(), bytes.begin(), bytes.end());
    const auto block = std::span(frame).subspan(at, length);
    stored.insert(stored.end(), block.begin(), block.end());
  }
  std::size_t given = 0;
  const auto sink = [&](std::size_t /*at*/, std::span<const std::byte> piece) {
    given += piece.size();
  };
  FrameDecoder decoder;
  EXPECT_TRUE(decoder.decode(key, stored, sink));
  EXPECT_EQ(given, key.size());
  given = 0;
  EXPECT_FALSE(decoder.decode(key, std::span(stored).first(stored.size() - 40), sink));
  EXPECT_EQ(given, kFrameBlock);
}

/// LZ4 would accept this block: 100 literal bytes, after two bytes with their count.
TEST(FrameBlocks, AreNotLongerThanWhatTheyHold) {
  const Frame key = noise(100, 1);
  Frame stored = noise(102, 2);
  stored[0] = std::byte{0xf0};
  stored[1] = std::byte{85};
  Frame frame(100);
  EXPECT_FALSE(decode_frame(key, stored, frame));
}

TEST(FrameRoom, PlacesOutsideOfItAreRefused) {
  const Frame key = noise(600, 1);
  Frame room = key;
  const Frame stored = encoded(key, similar_frame(key, 2, 3));
  room.insert(room.end(), stored.begin(), stored.end());
  const auto bytes = static_cast<std::uint32_t>(stored.size());
  Frame frame(600);
  EXPECT_TRUE(read_frame(room, {600, bytes}, 0, frame));
  EXPECT_EQ(frame, similar_frame(key, 2, 3));
  EXPECT_TRUE(read_frame(room, {0, 600}, 0, frame));
  EXPECT_EQ(frame, key);
  const FrameRef outside[] = {{601, bytes}, {600, bytes + 1}, {0xffffffff, 1}, {1, 0xffffffff}};
  for (const FrameRef ref : outside) {
    frame.assign(600, std::byte{7});
    EXPECT_FALSE(read_frame(room, ref, 0, frame)) << ref.at << " " << ref.bytes;
    EXPECT_EQ(frame, Frame(600));
  }
  EXPECT_FALSE(read_frame(room, {0, 1}, room.size() - 599, frame));
  EXPECT_FALSE(read_frame(room, {0, 1}, ~std::size_t{0}, frame));
  EXPECT_FALSE(read_frame({}, {0, 0}, 0, frame));
}

}  // namespace
}  // namespace reprise::storage
