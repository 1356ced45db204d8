#include "checkpoint/manifest.hpp"
#include "record/errors.hpp"
#include "record/record_reader.hpp"
#include "record/record_writer.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace reprise::checkpoint {
namespace {

void check_header(const record::FileHeader& header, record::FileKind kind, const DataName& name,
                  const std::string& path) {
  if (header.kind != kind || header.number != name.number || header.sequence != name.sequence) {
    throw record::damaged(path, 0, "this is another file: kind ",
                          static_cast<std::uint32_t>(header.kind), ", checkpoint ", header.number,
                          ", data file ", header.sequence);
  }
}

}  // namespace

ReadManifest read_manifest(record::Folder& folder, std::uint64_t number, const Limits& limits) {
  record::StoredFile file = folder.open(manifest_name(number));
  const record::FileHeader header = record::FileHeader::read(file);
  check_header(header, record::FileKind::Manifest, {number, 0}, file.path());
  const std::uint64_t size = file.size();
  const std::uint64_t stored =
      std::max<std::uint64_t>(size, record::FileHeader::kBytes) - record::FileHeader::kBytes;
  // Manifests are not compressed, so the length follows from that of the file.
  if (header.raw_bytes > stored ||
      stored - header.raw_bytes !=
          record::blocks_of(header.raw_bytes) * record::BlockHeader::kBytes) {
    throw record::damaged(file.path(), 0, "a manifest of ", header.raw_bytes,
                          " bytes in a file of ", size);
  }
  if (header.raw_bytes > limits.max_manifest_bytes) {
    throw record::damaged(file.path(), 0, "a manifest of ", header.raw_bytes,
                          " bytes; the most that can belong here: ", limits.max_manifest_bytes);
  }
  const record::RecordPlace place{record::FileHeader::kBytes, stored, header.raw_bytes, 0};
  std::vector<std::byte> bytes;
  record::RecordReader reader;
  const std::uint64_t checksum = reader.read(
      file, place, record::RecordId::of_manifest(number),
      [&](record::Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
  return {decode_manifest(bytes, number, file.path(), limits), {number, checksum}};
}

void refuse_newer_version(record::Folder& folder, std::uint64_t number) {
  try {
    record::StoredFile file = folder.open(manifest_name(number));
    static_cast<void>(record::FileHeader::read(file));
  } catch (const CheckpointError& error) {
    if (error.kind() == CheckpointError::Kind::Unsupported) {
      throw;
    }
  }
}

ManifestId write_manifest(record::Folder& folder, const Manifest& manifest,
                          std::uint64_t& bytes_written) {
  const std::vector<std::byte> bytes = encode(manifest);
  static_cast<void>(
      decode_manifest(bytes, manifest.number, folder.path_of(manifest_name(manifest.number)), {}));
  record::StoredFile file = folder.create(unfinished_name(manifest.number));
  record::FileHeader header;
  header.kind = record::FileKind::Manifest;
  header.number = manifest.number;
  header.raw_bytes = bytes.size();
  header.write(file);
  record::RecordWriter writer({});
  // Cannot be cancelled, because it takes little time compared with the data.
  const record::RecordPlace place =
      writer.write(file, record::FileHeader::kBytes, record::RecordId::of_manifest(manifest.number),
                   std::array{record::Bytes(bytes)}, {});
  file.sync();
  bytes_written += place.end();
  return {manifest.number, place.checksum};
}

record::StoredFile open_data(record::Folder& folder, const DataFile& data) {
  record::StoredFile file = folder.open(data_name(data.name));
  const std::uint64_t size = file.size();
  if (size != data.size) {
    throw record::damaged(file.path(), std::min(size, data.size), "the file has ", size,
                          " bytes; when it was written it had ", data.size);
  }
  check_header(record::FileHeader::read(file), record::FileKind::Data, data.name, file.path());
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

}  // namespace reprise::checkpoint
