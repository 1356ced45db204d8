#include "record/format.hpp"

#include "record/checksum.hpp"
#include "record/codec.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <span>

namespace reprise::record {
namespace {

/// As in PNG: a first byte beyond ASCII, both line ends and an end-of-file character detect most
/// changes by a transfer as text.
constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'R', 'P', 'R', '\r', '\n', 0x1a, '\n'};
constexpr std::uint32_t kByteOrderMark = 0x01020304U;
constexpr std::size_t kReserved = 16;
constexpr std::size_t kChecked = FileHeader::kBytes - sizeof(std::uint64_t);

template <std::size_t n>
std::array<std::byte, n> as_array(Bytes bytes) {
  std::array<std::byte, n> result{};
  std::copy_n(bytes.begin(), std::min(n, bytes.size()), result.begin());
  return result;
}

}  // namespace

std::array<std::byte, FileHeader::kBytes> FileHeader::encode() const {
  Encoder encoder;
  encoder.bytes(std::as_bytes(std::span(kMagic)));
  encoder.u32(kVersion);
  encoder.u32(kByteOrderMark);
  encoder.u32(static_cast<std::uint32_t>(kind));
  encoder.u32(sequence);
  encoder.u64(number);
  encoder.u64(raw_bytes);
  for (std::size_t i = 0; i < kReserved; ++i) {
    encoder.u8(0);
  }
  encoder.u64(checksum(encoder.encoded()));
  return as_array<kBytes>(encoder.encoded());
}

FileHeader FileHeader::decode(Bytes bytes, const std::string& file) {
  Decoder decoder(bytes, file);
  const Bytes magic = decoder.bytes(kMagic.size());
  if (!std::ranges::equal(magic, std::as_bytes(std::span(kMagic)))) {
    decoder.refuse("this is no file of a checkpoint");
  }
  Decoder end(bytes.subspan(kChecked), file, kChecked);
  if (!checksums_agree(end.u64(), checksum(bytes.first(kChecked)))) {
    end.refuse("the header does not have the checksum that it had when it was written");
  }
  const std::uint32_t version = decoder.u32();
  if (version > kVersion) {
    throw CheckpointError(CheckpointError::Kind::Unsupported,
                          base::text("written in version ", version,
                                     " of the format; this reprise reads up to ", kVersion),
                          file);
  }
  if (version == 0) {
    decoder.refuse("version 0 of the format never was");
  }
  if (decoder.u32() != kByteOrderMark) {
    decoder.refuse("numbers are in another byte order");
  }
  const std::uint32_t kind = decoder.u32();
  if (kind != static_cast<std::uint32_t>(FileKind::Data) &&
      kind != static_cast<std::uint32_t>(FileKind::Manifest)) {
    decoder.refuse("kind of file ", kind, "; allowed: 1 and 2");
  }
  FileHeader header;
  header.kind = static_cast<FileKind>(kind);
  header.sequence = decoder.u32();
  header.number = decoder.u64();
  header.raw_bytes = decoder.u64();
  return header;
}

RecordId RecordId::of_state(const std::string& name) {
  return {RecordType::State, checksum(std::as_bytes(std::span(name)))};
}

std::array<std::byte, BlockHeader::kBytes> BlockHeader::encode() const {
  Encoder encoder;
  encoder.u32(static_cast<std::uint32_t>(record.type));
  encoder.u32(static_cast<std::uint32_t>(codec));
  encoder.u32(stored);
  encoder.u32(raw);
  encoder.u64(record.value);
  encoder.u32(place);
  encoder.u32(0);
  encoder.u64(checksum);
  return as_array<kBytes>(encoder.encoded());
}

BlockHeader BlockHeader::decode(Bytes bytes, const std::string& file, std::uint64_t offset) {
  Decoder decoder(bytes, file, offset);
  BlockHeader header;
  header.record.type = static_cast<RecordType>(decoder.u32());
  header.codec = static_cast<Codec>(decoder.u32());
  header.stored = decoder.u32();
  header.raw = decoder.u32();
  header.record.value = decoder.u64();
  header.place = decoder.u32();
  static_cast<void>(decoder.u32());
  header.checksum = decoder.u64();
  return header;
}

}  // namespace reprise::record
