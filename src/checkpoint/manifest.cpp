#include "checkpoint/manifest.hpp"

#include "record/codec.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>

namespace reprise::checkpoint {
namespace {

/// More than any record has, and few enough that sums of lengths do not overflow.
constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 40U;
constexpr std::size_t kFileEntryBytes = 8 + 4 + 8;
constexpr std::size_t kRefBytes = 4 + 4 * 8;
constexpr std::size_t kChunkEntryBytes = 3 * 4 + 1 + kRefBytes;
constexpr std::size_t kLeastStateEntryBytes = 4 + kRefBytes;

void encode_ref(record::Encoder& encoder, const std::map<DataName, std::uint32_t>& numbers,
                const RecordRef& at) {
  encoder.u32(numbers.at(at.file));
  encoder.u64(at.place.offset);
  encoder.u64(at.place.stored);
  encoder.u64(at.place.raw);
  encoder.u64(at.place.checksum);
}

/// Refuses records that cannot lie at the place in the manifest.
RecordRef decode_ref(record::Decoder& decoder, const std::vector<DataFile>& files) {
  const std::uint32_t file = decoder.u32();
  if (file >= files.size()) {
    decoder.refuse("data file ", file, " of ", files.size());
  }
  const auto& [name, size] = files[file];
  RecordRef at{name, {}};
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
  if (at.place.raw > kMaxRecordBytes) {
    decoder.refuse("a record of ", at.place.raw,
                   " bytes; the most there can be: ", kMaxRecordBytes);
  }
  // A block takes its header, at least 1 byte, and at most its uncompressed bytes.
  const std::uint64_t blocks = record::blocks_of(at.place.raw);
  if (at.place.stored / (record::BlockHeader::kBytes + 1) < blocks ||
      at.place.stored > at.place.raw + blocks * record::BlockHeader::kBytes) {
    decoder.refuse("a record of ", at.place.raw, " bytes stored in ", at.place.stored);
  }
  at.place.checksum = decoder.u64();
  return at;
}

/// Checks the entries together: no byte in two records, no unused file.
void check_together(const Manifest& manifest, const record::Decoder& decoder) {
  std::vector<const RecordRef*> records;
  records.reserve(manifest.chunks.size() + manifest.states.size());
  for (const ChunkEntry& chunk : manifest.chunks) {
    records.push_back(&chunk.at);
  }
  for (const StateEntry& state : manifest.states) {
    records.push_back(&state.at);
  }
  std::ranges::sort(records, {}, &RecordRef::position);
  std::set<DataName> used;
  const RecordRef* before = nullptr;
  for (const RecordRef* const record : records) {
    used.insert(record->file);
    if (record->place.stored == 0) {
      continue;
    }
    if (before != nullptr && before->file == record->file &&
        before->place.end() > record->place.offset) {
      decoder.refuse("two records share bytes");
    }
    before = record;
  }
  if (used.size() != manifest.files.size()) {
    decoder.refuse("a data file that holds nothing");
  }
}

}  // namespace

std::vector<std::byte> encode(const Manifest& manifest) {
  record::Encoder encoder;
  encoder.u32(static_cast<std::uint32_t>(manifest.files.size()));
  std::map<DataName, std::uint32_t> numbers;
  for (const auto& [name, size] : manifest.files) {
    numbers.emplace(name, static_cast<std::uint32_t>(numbers.size()));
    encoder.u64(name.number);
    encoder.u32(name.sequence);
    encoder.u64(size);
  }
  encoder.u32(static_cast<std::uint32_t>(manifest.chunks.size()));
  for (const ChunkEntry& chunk : manifest.chunks) {
    encoder.u32(chunk.id.index);
    encoder.u32(chunk.id.generation);
    encoder.u32(chunk.id.rows);
    encoder.u8(chunk.id.closed ? 1 : 0);
    encode_ref(encoder, numbers, chunk.at);
  }
  encoder.u32(static_cast<std::uint32_t>(manifest.states.size()));
  for (const StateEntry& state : manifest.states) {
    encoder.string(state.name);
    encode_ref(encoder, numbers, state.at);
  }
  return std::move(encoder).take();
}

Manifest decode_manifest(record::Bytes bytes, std::uint64_t number, const std::string& file) {
  // Offsets in errors are those in the file while they are in its first block.
  record::Decoder decoder(bytes, file, record::FileHeader::kBytes + record::BlockHeader::kBytes);
  Manifest manifest;
  manifest.id.number = number;
  std::vector<DataFile> files;
  for (std::uint32_t left = decoder.count(kFileEntryBytes); left > 0; --left) {
    DataName name;
    name.number = decoder.u64();
    name.sequence = decoder.u32();
    if (!files.empty() && name <= files.back().first) {
      decoder.refuse("data files out of order");
    }
    const std::uint64_t size = decoder.u64();
    if (size < record::FileHeader::kBytes ||
        size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      decoder.refuse("a data file of ", size, " bytes");
    }
    files.emplace_back(name, size);
  }
  manifest.files.insert(files.begin(), files.end());
  std::unordered_set<std::uint32_t> indices;
  for (std::uint32_t left = decoder.count(kChunkEntryBytes); left > 0; --left) {
    ChunkId id;
    id.index = decoder.u32();
    if (!indices.insert(id.index).second) {
      decoder.refuse("a chunk is named twice");
    }
    id.generation = decoder.u32();
    id.rows = decoder.u32();
    const std::uint8_t closed = decoder.u8();
    if (closed > 1) {
      decoder.refuse("a chunk is closed, 1, or not, 0; this says ", unsigned{closed});
    }
    id.closed = closed == 1;
    manifest.chunks.push_back({id, decode_ref(decoder, files)});
  }
  for (std::uint32_t left = decoder.count(kLeastStateEntryBytes); left > 0; --left) {
    const std::string name(decoder.string(kMaxStateName));
    if (!manifest.states.empty() && name <= manifest.states.back().name) {
      decoder.refuse("states out of order");
    }
    manifest.states.push_back({name, decode_ref(decoder, files)});
  }
  decoder.finish();
  check_together(manifest, decoder);
  return manifest;
}

}  // namespace reprise::checkpoint
