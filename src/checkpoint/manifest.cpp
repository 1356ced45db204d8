#include "checkpoint/manifest.hpp"

#include "record/checksum.hpp"
#include "record/codec.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <set>
#include <unordered_set>

namespace reprise::checkpoint {
namespace {

using record::BlockHeader;
using record::FileHeader;

constexpr std::size_t kFileEntryBytes = sizeof(DataName) + sizeof(std::uint64_t);
constexpr std::size_t kMinStateEntryBytes = sizeof(std::uint32_t) + sizeof(RecordRef);

/// Refuses a record that cannot lie at its place. `room` has the bytes that the records checked
/// before leave in each file, so that all records together make a reader allocate no more than the
/// files contain.
void check_ref(const record::Decoder& decoder, const DataFiles& files, DataFiles& room,
               const RecordRef& at) {
  const auto file = room.find(at.file);
  if (file == room.end()) {
    decoder.refuse("a record in ", data_name(at.file), ", which the manifest does not name");
  }
  const auto& [offset, stored, raw, checksum] = at.place;
  if (stored > file->second) {
    decoder.refuse("a record of ", stored, " bytes in a file with room for ", file->second);
  }
  file->second -= stored;
  if (const std::uint64_t size = files.at(at.file); offset > size - stored) {
    decoder.refuse("a record at byte ", offset, ", of ", stored, " bytes, in a file of ", size);
  }
  // A stored block is a header and at least 1 byte, but no more bytes than it has uncompressed.
  const std::uint64_t blocks = record::blocks_of(raw);
  if (stored / (BlockHeader::kBytes + 1) < blocks || stored - blocks * BlockHeader::kBytes > raw) {
    decoder.refuse("a record of ", raw, " bytes stored in ", stored);
  }
}

Manifest decode(record::Bytes bytes, std::uint64_t number, const std::string& path) {
  record::Decoder decoder(bytes, path, FileHeader::kBytes);
  Manifest manifest;
  manifest.id = {number, record::checksum(bytes)};
  for (std::uint32_t left = decoder.count(kFileEntryBytes); left > 0; --left) {
    const auto name = decoder.value<DataName>();
    if (!manifest.files.emplace(name, decoder.u64()).second) {
      decoder.refuse("a data file is named twice");
    }
  }
  DataFiles room = manifest.files;
  std::unordered_set<std::uint32_t> indices;
  for (std::uint32_t left = decoder.count(sizeof(ChunkEntry)); left > 0; --left) {
    const auto chunk = decoder.value<ChunkEntry>();
    if (!indices.insert(chunk.id.index).second) {
      decoder.refuse("a chunk is named twice");
    }
    if (chunk.id.closed > 1) {
      decoder.refuse("a chunk is closed, 1, or not, 0; this says ", chunk.id.closed);
    }
    check_ref(decoder, manifest.files, room, chunk.at);
    manifest.chunks.push_back(chunk);
  }
  for (std::uint32_t left = decoder.count(kMinStateEntryBytes); left > 0; --left) {
    const std::string name(decoder.string(kMaxStateName));
    if (!manifest.states.empty() && name <= manifest.states.back().name) {
      decoder.refuse("states out of order");
    }
    const auto at = decoder.value<RecordRef>();
    check_ref(decoder, manifest.files, room, at);
    if (at.place.stored - record::blocks_of(at.place.raw) * BlockHeader::kBytes != at.place.raw) {
      // A reader takes a whole state into memory, which must not be more than the state's file has.
      decoder.refuse("a state of ", at.place.raw, " bytes stored in ", at.place.stored,
                     "; states are not compressed");
    }
    manifest.states.push_back({name, at});
  }
  decoder.finish();
  return manifest;
}

FileHeader read_header(record::StoredFile& file, record::FileKind kind, const DataName& name) {
  const FileHeader header = FileHeader::read(file);
  if (header.kind != kind || header.number != name.number || header.sequence != name.sequence) {
    throw record::damaged(file.path(), 0, "this is another file: kind ",
                          static_cast<std::uint32_t>(header.kind), ", checkpoint ", header.number,
                          ", data file ", header.sequence);
  }
  return header;
}

/// Removes the files, and returns whether all of them are gone.
bool remove_all(record::Folder& folder, const std::vector<std::string>& names) {
  bool all_gone = true;
  for (const std::string& name : names) {
    all_gone = folder.try_remove(name) && all_gone;
  }
  return all_gone;
}

void remove_unneeded(record::Folder& folder, std::size_t keep) {
  const std::vector<std::string> names = folder.list();
  std::set<DataName> needed;
  std::vector<std::string> old;
  std::size_t kept = 0;
  for (const std::uint64_t number : manifest_numbers(names)) {
    if (kept == keep) {
      old.push_back(manifest_name(number));
    } else if (const std::optional<Manifest> manifest = read_whole(folder, number)) {
      ++kept;
      for (const DataFile& file : manifest->files) {
        needed.insert(file.first);
      }
    }
  }
  if (kept == 0) {
    return;
  }
  // A manifest is removed before its data, so that after a crash no manifest lacks its data.
  if (!remove_all(folder, old)) {
    return;
  }
  folder.sync();
  std::vector<std::string> unneeded;
  for (const std::string& name : names) {
    const std::optional<DataName> data = parse_data_name(name);
    if ((data && !needed.contains(*data)) || parse_unfinished_name(name)) {
      unneeded.push_back(name);
    }
  }
  remove_all(folder, unneeded);
}

}  // namespace

std::vector<std::byte> encode(const Manifest& manifest) {
  record::Encoder encoder;
  encoder.u32(static_cast<std::uint32_t>(manifest.files.size()));
  for (const auto& [name, size] : manifest.files) {
    encoder.value(name);
    encoder.u64(size);
  }
  encoder.list(manifest.chunks);
  encoder.u32(static_cast<std::uint32_t>(manifest.states.size()));
  for (const StateEntry& state : manifest.states) {
    encoder.list(state.name);
    encoder.value(state.at);
  }
  return std::move(encoder).take();
}

Manifest read_manifest(record::Folder& folder, std::uint64_t number) {
  record::StoredFile file = folder.open(manifest_name(number));
  const FileHeader header = read_header(file, record::FileKind::Manifest, {number, 0});
  const std::uint64_t size = std::max<std::uint64_t>(file.size(), FileHeader::kBytes);
  if (size - FileHeader::kBytes > kMaxManifestBytes) {
    throw record::damaged(file.path(), 0, "a manifest of ", size - FileHeader::kBytes,
                          " bytes; allowed: at most ", kMaxManifestBytes);
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size - FileHeader::kBytes));
  file.read(bytes, FileHeader::kBytes);
  if (!record::checksums_agree(header.contents, record::checksum(bytes))) {
    throw record::damaged(
        file.path(), FileHeader::kBytes,
        "the manifest does not have the checksum that it had when it was written");
  }
  return decode(bytes, number, file.path());
}

std::optional<Manifest> read_whole(record::Folder& folder, std::uint64_t number) {
  try {
    Manifest manifest = read_manifest(folder, number);
    for (const DataFile& file : manifest.files) {
      static_cast<void>(open_data(folder, file));
    }
    return manifest;
  } catch (const CheckpointError& error) {
    if (error.kind() == CheckpointError::Kind::Damaged ||
        error.kind() == CheckpointError::Kind::Missing) {
      return std::nullopt;
    }
    // The manifest may be readable later.
    throw;
  }
}

void refuse_newer_version(record::Folder& folder, std::uint64_t number) {
  try {
    record::StoredFile file = folder.open(manifest_name(number));
    static_cast<void>(FileHeader::read(file));
  } catch (const CheckpointError& error) {
    if (error.kind() == CheckpointError::Kind::Unsupported) {
      throw;
    }
  }
}

std::uint64_t write_manifest(record::Folder& folder, Manifest& manifest) {
  const std::uint64_t number = manifest.id.number;
  const std::vector<std::byte> bytes = encode(manifest);
  const std::string path = folder.path_of(manifest_name(number));
  if (bytes.size() > kMaxManifestBytes) {
    throw record::io_error(path, 0, "cannot write", EFBIG);
  }
  manifest.id = decode(bytes, number, path).id;
  record::StoredFile file = folder.create(unfinished_name(number));
  FileHeader{.kind = record::FileKind::Manifest, .number = number, .contents = manifest.id.checksum}
      .write(file);
  file.write(bytes, FileHeader::kBytes);
  file.sync();
  return FileHeader::kBytes + bytes.size();
}

record::StoredFile open_data(record::Folder& folder, const DataFile& data) {
  const auto& [name, written] = data;
  record::StoredFile file = folder.open(data_name(name));
  if (const std::uint64_t size = file.size(); size != written) {
    throw record::damaged(file.path(), std::min(size, written), "the file has ", size,
                          " bytes; when it was written it had ", written);
  }
  static_cast<void>(read_header(file, record::FileKind::Data, name));
  return file;
}

std::vector<std::uint64_t> manifest_numbers(const std::vector<std::string>& names) {
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names) {
    if (const std::optional<std::uint64_t> number = parse_manifest_name(name)) {
      numbers.push_back(*number);
    }
  }
  std::ranges::sort(numbers, std::greater());
  return numbers;
}

void collect(record::Folder& folder, std::size_t keep) noexcept {
  try {
    const std::unique_ptr<record::Lock> lock =
        folder.lock(kReadersLock, record::LockMode::Exclusive);
    if (lock != nullptr) {
      remove_unneeded(folder, keep);
    }
  } catch (const std::exception&) {
    // Nothing is lost: the save has succeeded, and the next one collects again.
    return;
  }
}

}  // namespace reprise::checkpoint
