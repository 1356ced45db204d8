#pragma once

#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/library.hpp"

namespace reprise::test {

using ByteVector = std::vector<std::byte>;

[[nodiscard]] ByteVector random_bytes(Rng& rng, std::size_t n);
/// Random bytes that compress well.
[[nodiscard]] ByteVector compressible_bytes(Rng& rng, std::size_t n);

struct ChunkContents {
  checkpoint::ChunkId id;
  ByteVector bytes;

  friend bool operator==(const ChunkContents&, const ChunkContents&) = default;
};

/// Everything in a checkpoint, as a plain value.
struct Contents {
  std::map<std::uint32_t, ChunkContents> chunks;  ///< Chunks by their index.
  std::map<std::string, ByteVector> states;

  friend bool operator==(const Contents&, const Contents&) = default;
};

/// Imitates a buffer that is saved again and again: each call of `next` adds rows to open chunks,
/// closes some chunks, replaces some closed chunks by new generations and changes the states.
class ContentsGenerator {
 public:
  ContentsGenerator(std::uint64_t seed, std::uint32_t chunks, std::size_t row_bytes = 8,
                    std::uint32_t rows_per_chunk = 6)
      : rng_(seed), row_bytes_(row_bytes), rows_per_chunk_(rows_per_chunk), chunks_(chunks) {}

  const Contents& next();
  [[nodiscard]] const Contents& now() const { return contents_; }

 private:
  ByteVector bytes(std::size_t n) {
    return rng_.chance(0.5) ? random_bytes(rng_, n) : compressible_bytes(rng_, n);
  }

  Rng rng_;
  std::size_t row_bytes_;
  std::uint32_t rows_per_chunk_;
  std::uint32_t chunks_;
  Contents contents_;
};

struct Saved {
  SaveResult result;
  checkpoint::ManifestId id;
};

/// Makes one complete save. It writes each chunk in two parts, and may share files with the
/// checkpoint `base`. A data file is full at `full_bytes` bytes.
Saved save(record::FileSystem& file_system, const std::string& directory, const Contents& contents,
           const SaveOptions& options = {}, std::optional<checkpoint::ManifestId> base = {},
           std::uint64_t full_bytes = checkpoint::Segments::kFullBytes);

struct Loaded {
  checkpoint::ManifestId id;
  Contents contents;
  std::vector<SkippedCheckpoint> skipped;  ///< Newer checkpoints that could not be loaded.
};

/// Loads the newest complete checkpoint with a number below `before`.
Loaded load(record::FileSystem& file_system, const std::string& directory,
            std::uint64_t before = ~std::uint64_t{0});

/// Reads every chunk and state that a snapshot names.
Contents read_all(const checkpoint::Snapshot& snapshot);

}  // namespace reprise::test
