#include "../checkpoint/contents.hpp"
#include "memory_file_system.hpp"
#include "record/record_reader.hpp"
#include "record/record_writer.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/test.hpp"

namespace reprise::record {
namespace {

using test::ByteVector;

/// Cuts bytes into parts at random places. Some parts are empty.
std::vector<Bytes> cut(test::Rng& rng, const ByteVector& bytes) {
  std::vector<Bytes> parts;
  Bytes rest(bytes);
  while (!rest.empty()) {
    const std::size_t n = rng.chance(0.2) ? 0 : rng.between(1, rest.size());
    parts.push_back(rest.first(n));
    rest = rest.subspan(n);
  }
  return parts;
}

ByteVector read_back(StoredFile& file, const RecordPlace& place) {
  ByteVector bytes;
  RecordReader().read(file, place,
                      [&](Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
  return bytes;
}

class Records : public testing::TestWithParam<int> {};

TEST_P(Records, AreReadAsTheyWereWrittenWhateverTheirSizeAndParts) {
  const std::uint64_t seed = 3;
  test::Rng rng(seed);
  test::MemoryFileSystem system;
  Folder folder(system, "folder", IfAbsent::Create);
  StoredFile file = folder.create("records");
  RecordWriter writer({.level = GetParam()});
  std::uint64_t end = 17;  // A record may begin at any byte.
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1000}, kBlockBytes - 1,
        kBlockBytes, kBlockBytes + 1, 2 * kBlockBytes, 3 * kBlockBytes + 12345}) {
    for (const bool compressible : {false, true}) {
      const ByteVector bytes =
          compressible ? test::compressible_bytes(rng, size) : test::random_bytes(rng, size);
      const RecordPlace place = writer.write(file, end, cut(rng, bytes), Form::Compressed, {});
      EXPECT_EQ(place.offset, end);
      EXPECT_EQ(place.raw, size);
      EXPECT_LE(place.stored, size + blocks_of(size) * BlockHeader::kBytes);
      if (compressible && GetParam() > 0 && size >= 1000) {
        EXPECT_LT(place.stored, size / 2);
      }
      EXPECT_EQ(read_back(file, place), bytes) << size << " bytes, seed " << seed;
      end = place.end();
    }
  }
}

TEST_P(Records, AreRefusedAtThePlaceOfAnotherRecord) {
  test::Rng rng(4);
  test::MemoryFileSystem system;
  Folder folder(system, "folder", IfAbsent::Create);
  StoredFile file = folder.create("records");
  RecordWriter writer({.level = GetParam()});
  const ByteVector bytes = test::compressible_bytes(rng, 2 * kBlockBytes + 5);
  const RecordPlace place = writer.write(file, 0, std::array{Bytes(bytes)}, Form::Compressed, {});
  const auto refused = [&](const RecordPlace& at, std::string_view why) {
    test::expect_refusal<CheckpointError>([&] { read_back(file, at); }, {"folder/records", why});
  };
  RecordPlace other = place;
  other.checksum ^= 1U;
  refused(other, "manifest");
  other = place;
  other.raw -= 1;
  refused(other, "");
  other = place;
  other.raw += 1;
  refused(other, "");
  other = place;
  other.raw += kBlockBytes;
  refused(other, "a block");
  other = place;
  other.raw -= 5;
  refused(other, "more than the record needs");
  other = place;
  other.stored -= 1;
  refused(other, "a block of");
  other = place;
  other.stored += 1;
  refused(other, "");
  other = place;
  other.offset += 1;
  refused(other, "");
}

TEST_P(Records, OfBlocksInAnotherOrderAreRefused) {
  test::Rng rng(6);
  test::MemoryFileSystem system;
  Folder folder(system, "folder", IfAbsent::Create);
  StoredFile file = folder.create("records");
  ByteVector bytes = test::random_bytes(rng, 2 * kBlockBytes);
  const RecordPlace place = RecordWriter({.level = GetParam()})
                                .write(file, 0, std::array{Bytes(bytes)}, Form::Compressed, {});
  ASSERT_EQ(place.stored, 2 * (BlockHeader::kBytes + kBlockBytes)) << "compressed";
  const ByteVector stored = system.files().at("records");
  const std::size_t half = stored.size() / 2;
  file.write(Bytes(stored).subspan(half), 0);
  file.write(Bytes(stored).first(half), half);
  test::expect_refusal<CheckpointError>([&] { read_back(file, place); },
                                        {"not the one that the manifest names"});
}

INSTANTIATE_TEST_SUITE_P(Plain, Records, testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Zstd, Records, testing::Values(1, 3));

TEST(Record, IsCompressedOnlyIfAskedTo) {
  test::MemoryFileSystem system;
  Folder folder(system, "folder", IfAbsent::Create);
  StoredFile file = folder.create("records");
  const ByteVector zeros(1000);
  const RecordPlace place =
      RecordWriter({.level = 3}).write(file, 0, std::array{Bytes(zeros)}, Form::Plain, {});
  EXPECT_EQ(place.stored, BlockHeader::kBytes + zeros.size());
  EXPECT_EQ(read_back(file, place), zeros);
}

TEST(Record, IsNotWrittenAfterAStopRequest) {
  test::Rng rng(5);
  test::MemoryFileSystem system;
  Folder folder(system, "folder", IfAbsent::Create);
  StoredFile file = folder.create("records");
  const ByteVector bytes = test::compressible_bytes(rng, 2 * kBlockBytes);
  std::stop_source stop;
  stop.request_stop();
  RecordWriter writer({});
  const std::vector<Bytes> parts{bytes};
  const auto write = [&] { writer.write(file, 0, parts, Form::Plain, stop.get_token()); };
  EXPECT_EQ(test::checkpoint_error_of(write).kind(), CheckpointError::Kind::Cancelled);
}

TEST(Folder, RemovingAFileThatDoesNotExistSucceeds) {
  test::MemoryFileSystem files;
  Folder folder(files, "folder", IfAbsent::Create);
  static_cast<void>(folder.create("file"));
  EXPECT_TRUE(folder.try_remove("file"));
  EXPECT_TRUE(folder.try_remove("file"));
  EXPECT_TRUE(folder.list().empty());
}

}  // namespace
}  // namespace reprise::record
