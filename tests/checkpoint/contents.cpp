#include "contents.hpp"

#include <array>

namespace reprise::test {

using record::Bytes;
using record::WritableBytes;

ByteVector random_bytes(Rng& rng, std::size_t n) {
  ByteVector bytes(n);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(rng.below(256));
  }
  return bytes;
}

ByteVector compressible_bytes(Rng& rng, std::size_t n) {
  ByteVector bytes(n);
  const std::size_t period = rng.between(1, 20);
  for (std::size_t i = 0; i < n; ++i) {
    bytes[i] = i < period ? static_cast<std::byte>(rng.below(256)) : bytes[i - period];
  }
  return bytes;
}

const Contents& ContentsGenerator::next() {
  constexpr double kEvictChance = 0.2;  // Of a closed chunk.
  constexpr double kCloseChance = 0.2;  // Of a chunk that is not full.
  for (std::uint32_t i = 0; i < chunks_; ++i) {
    ChunkContents& chunk = contents_.chunks[i];
    chunk.id.index = i;
    if (chunk.id.closed) {
      if (!rng_.chance(kEvictChance)) {
        continue;
      }
      chunk = {{i, chunk.id.generation + 1, 0, false}, {}};
    }
    const auto more = static_cast<std::uint32_t>(rng_.below(rows_per_chunk_ - chunk.id.rows + 1));
    const ByteVector rows = bytes(more * row_bytes_);
    chunk.bytes.insert(chunk.bytes.end(), rows.begin(), rows.end());
    chunk.id.rows += more;
    chunk.id.closed = chunk.id.rows == rows_per_chunk_ || rng_.chance(kCloseChance);
  }
  contents_.states["counters"] = random_bytes(rng_, 16);
  contents_.states["priorities"] = bytes(rng_.below(40));
  contents_.states["schema"] = {std::byte{1}, std::byte{2}};
  return contents_;
}

namespace {

/// The bytes of a chunk in two parts, with an empty one between them, which must change nothing.
template <class Span>
std::array<Span, 3> in_parts(Span bytes, std::size_t first) {
  return {bytes.first(first), Span(), bytes.subspan(first)};
}

}  // namespace

Saved save(record::FileSystem& file_system, const std::string& directory, const Contents& contents,
           const SaveOptions& options, std::optional<checkpoint::ManifestId> base,
           std::uint64_t full_bytes) {
  checkpoint::Saver saver(file_system, directory, options, base, full_bytes);
  saver.announce(contents.chunks.size());
  for (const auto& [index, chunk] : contents.chunks) {
    if (!saver.reuse_chunk(chunk.id)) {
      saver.write_chunk(chunk.id, in_parts(Bytes(chunk.bytes), chunk.bytes.size() / 2));
    }
  }
  for (const auto& [name, bytes] : contents.states) {
    saver.write_state(name, std::array{Bytes(bytes)});
  }
  const SaveResult result = saver.commit();
  return {result, saver.id()};
}

Contents read_all(const checkpoint::Snapshot& snapshot) {
  Contents contents;
  checkpoint::Reader reader(snapshot);
  for (const checkpoint::ChunkEntry& entry : snapshot.chunks()) {
    ByteVector bytes(entry.at.place.raw);
    // Other parts than those that `save` writes, because a reader may ask for any.
    reader.read_chunk(entry, in_parts(WritableBytes(bytes), bytes.size() / 3));
    contents.chunks[entry.id.index] = {entry.id, bytes};
  }
  for (const checkpoint::StateEntry& entry : snapshot.states()) {
    contents.states[entry.name] = reader.read_state(entry.name);
  }
  return contents;
}

Loaded load(record::FileSystem& file_system, const std::string& directory, std::uint64_t before) {
  Loaded loaded;
  // A checkpoint that this check calls damaged is skipped, and an older one is opened.
  const auto refuse_too_new = [&](const checkpoint::Snapshot& opened) {
    if (opened.id().number >= before) {
      throw CheckpointError(CheckpointError::Kind::Damaged, "too new", directory);
    }
  };
  const checkpoint::Snapshot snapshot =
      checkpoint::open_latest(file_system, directory, {}, &loaded.skipped, refuse_too_new);
  loaded.id = snapshot.id();
  loaded.contents = read_all(snapshot);
  return loaded;
}

}  // namespace reprise::test
