#include "checkpoint/manifest.hpp"

#include "record/codec.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <utility>

namespace reprise::checkpoint {
namespace {

constexpr std::size_t kFileEntryBytes = 8 + 4 + 8;
constexpr std::size_t kRefBytes = 4 + 4 * 8;
constexpr std::size_t kChunkEntryBytes = 3 * 4 + 1 + kRefBytes;
constexpr std::size_t kLeastStateEntryBytes = 4 + kRefBytes;

void encode_ref(record::Encoder& encoder, const RecordRef& at) {
  encoder.u32(at.file);
  encoder.u64(at.place.offset);
  encoder.u64(at.place.stored);
  encoder.u64(at.place.raw);
  encoder.u64(at.place.checksum);
}

/// Refuses records that cannot lie at the place in the manifest.
RecordRef decode_ref(record::Decoder& decoder, const std::vector<DataFile>& files,
                     std::uint64_t max_raw) {
  RecordRef at;
  at.file = decoder.u32();
  if (at.file >= files.size()) {
    decoder.refuse("data file ", at.file, " of ", files.size());
  }
  const std::uint64_t size = files[at.file].size;
  at.place.offset = decoder.u64();
  if (at.place.offset < record::FileHeader::kBytes || at.place.offset > size) {
    decoder.refuse("a record at byte ", at.place.offset, " of a file of ", size, " bytes");
  }
  at.place.stored = decoder.u64();
  if (at.place.stored > size - at.place.offset) {
    decoder.refuse("a record of ", at.place.stored, " bytes, ", size - at.place.offset,
                   " before the end of its file");
  }
  at.place.raw = decoder.u64();
  const std::uint64_t blocks = record::blocks_of(at.place.raw);
  if (at.place.raw > max_raw) {
    decoder.refuse("a record of ", at.place.raw,
                   " bytes; the most that can belong here: ", max_raw);
  }
  // A block takes its header, at least 1 byte, and at most its uncompressed bytes.
  if (at.place.stored / (record::BlockHeader::kBytes + 1) < blocks ||
      at.place.stored > at.place.raw + blocks * record::BlockHeader::kBytes) {
    decoder.refuse("a record of ", at.place.raw, " bytes stored in ", at.place.stored);
  }
  at.place.checksum = decoder.u64();
  return at;
}

std::vector<DataFile> decode_files(record::Decoder& decoder) {
  std::vector<DataFile> files;
  const std::uint32_t n = decoder.count(kFileEntryBytes);
  files.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    DataFile file;
    file.name.number = decoder.u64();
    file.name.sequence = decoder.u32();
    if (!files.empty() && file.name <= files.back().name) {
      decoder.refuse("data files out of order");
    }
    file.size = decoder.u64();
    if (file.size < record::FileHeader::kBytes ||
        file.size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      decoder.refuse("a data file of ", file.size, " bytes");
    }
    files.push_back(file);
  }
  return files;
}

std::vector<ChunkEntry> decode_chunks(record::Decoder& decoder, const std::vector<DataFile>& files,
                                      const Limits& limits) {
  std::vector<ChunkEntry> chunks;
  const std::uint32_t n = decoder.count(kChunkEntryBytes);
  if (n > limits.max_chunks) {
    decoder.refuse(n, " chunks; the most that can belong here: ", limits.max_chunks);
  }
  chunks.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    ChunkEntry chunk;
    chunk.id.index = decoder.u32();
    chunk.id.generation = decoder.u32();
    chunk.id.rows = decoder.u32();
    const std::uint8_t closed = decoder.u8();
    if (closed > 1) {
      decoder.refuse("a chunk is closed, 1, or not, 0; this says ", unsigned{closed});
    }
    chunk.id.closed = closed == 1;
    chunk.at = decode_ref(decoder, files, limits.max_chunk_bytes);
    chunks.push_back(chunk);
  }
  return chunks;
}

std::vector<StateEntry> decode_states(record::Decoder& decoder, const std::vector<DataFile>& files,
                                      const Limits& limits) {
  std::vector<StateEntry> states;
  const std::uint32_t n = decoder.count(kLeastStateEntryBytes);
  states.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    StateEntry state;
    state.name = decoder.string(kMaxStateName);
    if (!states.empty() && state.name <= states.back().name) {
      decoder.refuse("states out of order");
    }
    state.at = decode_ref(decoder, files, limits.max_state_bytes);
    states.push_back(std::move(state));
  }
  return states;
}

/// Checks the entries together: each chunk once, no byte in two records, no unused file.
void check_together(const Manifest& manifest, const record::Decoder& decoder) {
  std::vector<std::uint32_t> indices;
  std::vector<const RecordRef*> records;
  indices.reserve(manifest.chunks.size());
  records.reserve(manifest.chunks.size() + manifest.states.size());
  for (const ChunkEntry& chunk : manifest.chunks) {
    indices.push_back(chunk.id.index);
    records.push_back(&chunk.at);
  }
  for (const StateEntry& state : manifest.states) {
    records.push_back(&state.at);
  }
  std::ranges::sort(indices);
  if (std::ranges::adjacent_find(indices) != indices.end()) {
    decoder.refuse("a chunk is named twice");
  }
  std::ranges::sort(records, [](const RecordRef* a, const RecordRef* b) {
    return std::pair(a->file, a->place.offset) < std::pair(b->file, b->place.offset);
  });
  std::vector<bool> used(manifest.files.size());
  const RecordRef* before = nullptr;
  for (const RecordRef* const record : records) {
    used[record->file] = true;
    if (record->place.stored == 0) {
      continue;
    }
    if (before != nullptr && before->file == record->file &&
        before->place.end() > record->place.offset) {
      decoder.refuse("two records share bytes");
    }
    before = record;
  }
  if (std::ranges::find(used, false) != used.end()) {
    decoder.refuse("a data file that holds nothing");
  }
}

}  // namespace

std::vector<std::byte> encode(const Manifest& manifest) {
  record::Encoder encoder;
  encoder.u32(static_cast<std::uint32_t>(manifest.files.size()));
  for (const DataFile& file : manifest.files) {
    encoder.u64(file.name.number);
    encoder.u32(file.name.sequence);
    encoder.u64(file.size);
  }
  encoder.u32(static_cast<std::uint32_t>(manifest.chunks.size()));
  for (const ChunkEntry& chunk : manifest.chunks) {
    encoder.u32(chunk.id.index);
    encoder.u32(chunk.id.generation);
    encoder.u32(chunk.id.rows);
    encoder.u8(chunk.id.closed ? 1 : 0);
    encode_ref(encoder, chunk.at);
  }
  encoder.u32(static_cast<std::uint32_t>(manifest.states.size()));
  for (const StateEntry& state : manifest.states) {
    encoder.string(state.name);
    encode_ref(encoder, state.at);
  }
  return std::move(encoder).take();
}

Manifest decode_manifest(record::Bytes bytes, std::uint64_t number, const std::string& file,
                         const Limits& limits) {
  // Offsets in errors are those in the file while they are in its first block.
  record::Decoder decoder(bytes, file, record::FileHeader::kBytes + record::BlockHeader::kBytes);
  Manifest manifest;
  manifest.number = number;
  manifest.files = decode_files(decoder);
  manifest.chunks = decode_chunks(decoder, manifest.files, limits);
  manifest.states = decode_states(decoder, manifest.files, limits);
  decoder.finish();
  check_together(manifest, decoder);
  return manifest;
}

}  // namespace reprise::checkpoint
