#include "../record/memory_file_system.hpp"
#include "checkpoint/names.hpp"
#include "contents.hpp"
#include "record/checksum.hpp"
#include "record/posix_file_system.hpp"
#include "record/record_writer.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"

#include <filesystem>

namespace reprise::checkpoint {
namespace {

using test::ByteVector;
using test::Contents;
using test::ContentsGenerator;
using test::kDirectory;
using test::load;
using test::MemoryFiles;
using test::MemoryFileSystem;
using test::save;

/// The files of `small_save` have more bytes than this, or their test would test too little.
constexpr std::size_t kMinSavedBytes = 700;

/// One save that is so small that a test can damage every bit of it.
struct SmallSave {
  MemoryFiles files;
  Contents contents;
};

SmallSave small_save(int level) {
  MemoryFileSystem system;
  ContentsGenerator maker(17, 4);
  maker.next();
  save(system, kDirectory, maker.next(), {.compression = {.level = level}});
  return {system.files(), maker.now()};
}

/// Expects that a load fails because of damage, with a message that names a file.
void expect_damage(const MemoryFiles& files, const std::string& what) {
  MemoryFileSystem system(files);
  SCOPED_TRACE(what);
  const CheckpointError error = test::checkpoint_error_of([&] { load(system, kDirectory); });
  EXPECT_EQ(error.kind(), CheckpointError::Kind::Damaged) << error.what();
  EXPECT_TRUE(error.file().starts_with("checkpoints/")) << error.what();
}

class Damage : public testing::TestWithParam<int> {};

TEST_P(Damage, OfEveryBitIsNoticed) {
  const SmallSave whole = small_save(GetParam());
  std::size_t bytes = 0;
  for (const auto& [name, contents] : whole.files) {
    bytes += contents.size();
    for (std::size_t i = 0; i < contents.size(); ++i) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        MemoryFiles files = whole.files;
        files[name][i] ^= static_cast<std::byte>(1U << bit);
        expect_damage(files, name + ", byte " + std::to_string(i));
      }
    }
  }
  EXPECT_GT(bytes, kMinSavedBytes);
}

TEST_P(Damage, ByTruncationAtEveryByteIsNoticed) {
  const SmallSave whole = small_save(GetParam());
  for (const auto& [name, contents] : whole.files) {
    for (std::size_t size = 0; size < contents.size(); ++size) {
      MemoryFiles files = whole.files;
      files[name].resize(size);
      expect_damage(files, name + " cut to " + std::to_string(size));
    }
    MemoryFiles files = whole.files;
    files[name].push_back(std::byte{0});
    expect_damage(files, name + " with a byte more");
  }
}

INSTANTIATE_TEST_SUITE_P(Plain, Damage, testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Zstd, Damage, testing::Values(1));

/// Damages one random file: overwrites, zeroes, removes or repeats up to 600 bytes, swaps the file
/// with another, replaces its contents by another's, or removes the file.
void damage_at_random(test::Rng& rng, MemoryFiles& files) {
  const auto pick = [&] {
    return std::next(files.begin(), static_cast<std::ptrdiff_t>(rng.below(files.size())));
  };
  const auto damaged = pick();
  ByteVector& bytes = damaged->second;
  const std::size_t start = bytes.empty() ? 0 : rng.below(bytes.size());
  const std::size_t n = std::min(bytes.size() - start, rng.between(1, 600));
  const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(start);
  const auto to = from + static_cast<std::ptrdiff_t>(n);
  switch (rng.below(7)) {
    case 0:
      std::generate(from, to, [&] { return static_cast<std::byte>(rng.below(256)); });
      break;
    case 1:
      std::fill(from, to, std::byte{0});
      break;
    case 2:
      bytes.erase(from, to);
      break;
    case 3: {
      const ByteVector copy(from, to);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(rng.below(bytes.size() + 1)),
                   copy.begin(), copy.end());
      break;
    }
    case 4:
      std::swap(bytes, pick()->second);
      break;
    case 5:
      bytes = pick()->second;
      break;
    default:
      files.erase(damaged);
  }
}

TEST(DamageAtRandom, LoadsOnlyWhatWasSavedOrNothing) {
  const std::uint64_t seed = 31;
  test::Rng rng(seed);
  MemoryFileSystem original;
  ContentsGenerator maker(3, 12);
  std::vector<Contents> saved{{}};
  std::optional<ManifestId> base;
  for (int i = 0; i < 4; ++i) {
    base =
        save(original, kDirectory, maker.next(), {.compression = {.level = i % 2}, .keep = 3}, base)
            .id;
    saved.push_back(maker.now());
  }
  const MemoryFiles files = original.files();
  const std::size_t rounds = test::scaled(20'000, 2'000);
  std::size_t loaded = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    MemoryFiles damaged = files;
    const std::size_t times = rng.between(1, 3);
    for (std::size_t i = 0; i < times && !damaged.empty(); ++i) {
      damage_at_random(rng, damaged);
    }
    MemoryFileSystem system(damaged);
    try {
      const test::Loaded checkpoint = load(system, kDirectory);
      ASSERT_LT(checkpoint.id.number, saved.size());
      ASSERT_TRUE(checkpoint.contents == saved[checkpoint.id.number])
          << "seed " << seed << ", round " << round;
      ++loaded;
    } catch (const CheckpointError&) {
      // No complete checkpoint is left.
      continue;
    }
  }
  EXPECT_GT(loaded, rounds / 10);
  EXPECT_LT(loaded, rounds);
}

/// Writes a manifest of these bytes, whatever they are, with a correct checksum.
void put_manifest(record::Folder& folder, std::uint64_t number, const ByteVector& bytes) {
  folder.try_remove(manifest_name(number));
  record::StoredFile file = folder.create(manifest_name(number));
  record::FileHeader{
      .kind = record::FileKind::Manifest, .number = number, .contents = record::checksum(bytes)}
      .write(file);
  file.write(bytes, record::FileHeader::kBytes);
}

void put_manifest(MemoryFileSystem& system, std::uint64_t number, const ByteVector& bytes) {
  record::Folder folder(system, kDirectory, record::IfAbsent::Create);
  put_manifest(folder, number, bytes);
}

ByteVector manifest_bytes(MemoryFileSystem& system) {
  record::Folder folder(system, kDirectory, record::IfAbsent::Fail);
  return encode(read_manifest(folder, 1));
}

/// The checksums are correct, as an attacker can forge them too.
TEST(HostileManifest, WithAnyNumberAtAnyByteIsReadOrRefused) {
  if (test::kThreadSanitizer) {
    GTEST_SKIP()
        << "oneTBB, which ThreadSanitizer does not know, reads files that claim to be large";
  }
  const SmallSave whole = small_save(1);
  MemoryFileSystem system(whole.files);
  const ByteVector bytes = manifest_bytes(system);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0x7fffffff},
                                      std::numeric_limits<std::uint64_t>::max(),
                                      std::uint64_t{1} << 63U, std::uint64_t{1} << 40U}) {
      for (const std::size_t width : {std::size_t{4}, std::size_t{8}}) {
        ByteVector hostile = bytes;
        for (std::size_t i = 0; i < width && at + i < hostile.size(); ++i) {
          hostile[at + i] = static_cast<std::byte>((value >> (8 * i)) & 0xffU);
        }
        put_manifest(system, 1, hostile);
        try {
          load(system, kDirectory);
        } catch (const CheckpointError& error) {
          ++refused;
          EXPECT_TRUE(error.kind() == CheckpointError::Kind::Damaged ||
                      error.kind() == CheckpointError::Kind::Missing)
              << error.what();
        }
      }
    }
  }
  EXPECT_GT(refused, bytes.size()) << "of 12 manifests for each byte";
}

TEST(HostileManifest, IsRefusedWithAMessageAboutTheWrongField) {
  const SmallSave whole = small_save(0);
  const auto refused = [&](const std::function<void(Manifest&)>& change, std::string_view why,
                           const std::function<void(ByteVector&)>& change_bytes = {}) {
    MemoryFileSystem system(whole.files);
    record::Folder folder(system, kDirectory, record::IfAbsent::Fail);
    Manifest manifest = read_manifest(folder, 1);
    ASSERT_EQ(manifest.files.size(), 2U);
    change(manifest);
    ByteVector bytes = encode(manifest);
    if (change_bytes) {
      change_bytes(bytes);
    }
    put_manifest(system, 1, bytes);
    test::expect_refusal<CheckpointError>([&] { load(system, kDirectory); },
                                          {"manifest-00000000000000000001", "byte", why});
  };
  const auto unchanged = [](Manifest&) {};
  // The list of files has two entries of 24 bytes each, behind their number in 4 bytes. The names
  // in the first 16 bytes of both entries become equal.
  refused(unchanged, "twice",
          [](ByteVector& bytes) { std::copy_n(bytes.begin() + 4, 16, bytes.begin() + 28); });
  refused([](Manifest& m) { m.chunks[0].at.file.sequence = 77; }, "does not name");
  refused([](Manifest& m) { m.chunks[0].id.closed = 2; }, "closed");
  refused([](Manifest& m) { m.chunks[0].at.place.stored = ~std::uint64_t{0}; }, "with room for");
  refused([](Manifest& m) { m.chunks[0].at.place.raw = ~std::uint64_t{0}; }, "stored in");
  refused([](Manifest& m) { m.chunks[0].at.place.raw = std::uint64_t{1} << 35U; }, "stored in");
  refused([](Manifest& m) { m.states[0].at.place.raw -= 1; }, "stored in");
  refused([](Manifest& m) { m.states[0].at.place.raw += 1; }, "not compressed");
  refused([](Manifest& m) { m.chunks[0].id.index = m.chunks[1].id.index; }, "twice");
  refused([](Manifest& m) { m.states[1].name = m.states[0].name; }, "order");
  refused([](Manifest& m) { m.states[0].name = std::string(256, 'x'); }, "256");
  refused([](Manifest& m) { m.files.begin()->second = 63; }, "with room for");
}

/// Many states that all name the same large record could make a load take any amount of memory.
TEST(HostileManifest, OfMoreRecordsThanTheirFileHasBytesForIsRefused) {
  const SmallSave whole = small_save(0);
  MemoryFileSystem system(whole.files);
  record::Folder folder(system, kDirectory, record::IfAbsent::Fail);
  Manifest manifest = read_manifest(folder, 1);
  for (std::size_t length = 1; length <= 16; ++length) {
    manifest.states.push_back({std::string(length, 'z'), manifest.states[0].at});
  }
  put_manifest(system, 1, encode(manifest));
  test::expect_refusal<CheckpointError>([&] { load(system, kDirectory); },
                                        {"manifest-00000000000000000001", "with room for"});
}

/// The record would begin before the file's first record, within a record, or beyond the end.
TEST(HostileManifest, WithARecordAtAWrongOffsetIsRefused) {
  const SmallSave whole = small_save(0);
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{65}, std::uint64_t{1} << 40U,
                                     (std::uint64_t{1} << 63U) - 1, ~std::uint64_t{0}}) {
    MemoryFileSystem system(whole.files);
    record::Folder folder(system, kDirectory, record::IfAbsent::Fail);
    Manifest manifest = read_manifest(folder, 1);
    manifest.states[0].at.place.offset = offset;
    put_manifest(system, 1, encode(manifest));
    expect_damage(system.files(), "a record at byte " + std::to_string(offset));
  }
}

/// The manifest is a sparse file, larger than any manifest may be.
TEST(HostileManifest, LargerThanAnyManifestMayBeIsRefusedBeforeItIsRead) {
  const test::ScratchDirectory scratch;
  record::PosixFileSystem system;
  record::Folder folder(system, scratch.path(), record::IfAbsent::Fail);
  record::StoredFile file = folder.create(manifest_name(1));
  const std::uint64_t bytes = kMaxManifestBytes + 1;
  record::FileHeader{.kind = record::FileKind::Manifest, .number = 1}.write(file);
  std::filesystem::resize_file(file.path(), record::FileHeader::kBytes + bytes);
  test::expect_refusal<CheckpointError>([&] { load(system, scratch.path()); },
                                        {"manifest", std::to_string(bytes), "at most"});
}

/// Writes a record of less than 500 KB that decompresses to 1 GiB of zeros.
record::RecordPlace write_zero_record(record::StoredFile& file) {
  const ByteVector zeros(record::kBlockBytes);
  const std::vector<record::Bytes> parts(4096, record::Bytes(zeros));
  return record::RecordWriter({.level = 1})
      .write(file, record::FileHeader::kBytes, parts, record::Form::Compressed, {});
}

TEST(HostileManifest, WithACompressedStateLargerThanItsFileIsRefused) {
  const test::ScratchDirectory scratch;
  record::PosixFileSystem system;
  record::Folder folder(system, scratch.path(), record::IfAbsent::Fail);
  record::StoredFile file = folder.create(data_name({1, 0}));
  record::FileHeader{.number = 1}.write(file);
  Manifest manifest;
  manifest.id.number = 1;
  manifest.states.push_back({"zeros", {{1, 0}, write_zero_record(file)}});
  manifest.files.emplace(DataName{1, 0}, file.size());
  EXPECT_LT(file.size(), 500'000U);
  EXPECT_GE(manifest.states[0].at.place.raw, std::uint64_t{1} << 30U);
  put_manifest(folder, 1, encode(manifest));
  test::expect_refusal<CheckpointError>([&] { load(system, scratch.path()); },
                                        {"manifest", "not compressed"});
}

/// Changes a byte of a file's header, and corrects the checksum at the end of the header.
void edit_header(MemoryFileSystem& system, const std::string& name, std::size_t at,
                 std::byte value) {
  constexpr std::size_t kOffsetOfChecksum = 56;
  ByteVector bytes = system.files().at(name);
  bytes[at] = value;
  const std::uint64_t sum = record::checksum(record::Bytes(bytes).first(kOffsetOfChecksum));
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[kOffsetOfChecksum + i] = static_cast<std::byte>((sum >> (8 * i)) & 0xffU);
  }
  system.put(name, bytes);
}

TEST(Versions, ANewerFormatIsReportedAsUnsupportedByLoadsAndSaves) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 3);
  save(system, kDirectory, maker.next());
  save(system, kDirectory, maker.next());
  constexpr std::size_t kOffsetOfVersion = 8;
  edit_header(system, manifest_name(2), kOffsetOfVersion, std::byte{2});
  const auto unsupported = [](const auto& call) {
    EXPECT_EQ(test::checkpoint_error_of(call).kind(), CheckpointError::Kind::Unsupported);
  };
  const MemoryFiles before = system.files();
  unsupported([&] { load(system, kDirectory); });
  unsupported([&] { save(system, kDirectory, maker.now()); });
  EXPECT_EQ(system.files(), before);
  system.erase(manifest_name(2));
  EXPECT_EQ(load(system, kDirectory).id.number, 1U);
}

TEST(Versions, AHeaderOfAnotherFileIsRefused) {
  const SmallSave whole = small_save(0);
  // The offsets of version, kind, number and sequence in the header.
  for (const std::size_t at : {8U, 12U, 16U, 24U}) {
    for (const std::string& name : {manifest_name(1), data_name({1, 0})}) {
      MemoryFileSystem system(whole.files);
      edit_header(system, name, at, std::byte{0});
      if (system.files() == whole.files) {
        continue;  // The byte was 0 before.
      }
      expect_damage(system.files(), name + ", header byte " + std::to_string(at));
    }
  }
}

}  // namespace
}  // namespace reprise::checkpoint
