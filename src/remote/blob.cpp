#include "remote/blob.hpp"

#include <reprise/strategy_kind.hpp>

#include "record/checksum.hpp"
#include "record/codec.hpp"

#include <bit>
#include <variant>

namespace reprise::remote {
namespace {

constexpr const char* kNames[] = {"?",         "shipment", "request", "answer",
                                  "shipments", "outcomes", "refusal", "end"};

Bytes behind_checksum(Bytes blob) noexcept {
  return blob.subspan(sizeof(std::uint64_t));
}

}  // namespace

std::uint64_t fingerprint(const Schema& schema, const Window& window) {
  record::Encoder all;
  all.u8(static_cast<std::uint8_t>(schema.requires_finite()));
  for (const FieldSpec& field : schema.fields()) {
    all.list(field.name);
    all.u8(static_cast<std::uint8_t>(field.role));
    all.u8(static_cast<std::uint8_t>(field.dtype));
    all.list(field.shape);
  }
  all.u8(static_cast<std::uint8_t>(window.index()));
  const auto options = windows()[window.index()].values(window);
  for (const OptionValue& option : options.value()) {
    std::visit([&](auto value) { all.value(value); }, option);
  }
  return record::checksum(all.encoded());
}

void seal(Blob& blob, BlobHeader header) noexcept {
  header.bytes = blob.bytes().size();
  std::memcpy(blob.bytes().data(), &header, sizeof(header));
  header.checksum = record::checksum(behind_checksum(blob.bytes()));
  std::memcpy(blob.bytes().data(), &header.checksum, sizeof(header.checksum));
}

BlobHeader open(Bytes blob, BlobKind kind) {
  const BlobHeader header = open_any(blob, kNames[static_cast<std::size_t>(kind)]);
  base::require(header.kind == kind, kNames[static_cast<std::size_t>(kind)], ": a blob of kind ",
                static_cast<std::uint32_t>(header.kind),
                "; allowed: ", static_cast<std::uint32_t>(kind));
  return header;
}

BlobHeader open_any(Bytes blob, const char* name) {
  BlobHeader header;
  base::require(blob.size() >= sizeof(header), name, ": ", blob.size(),
                " bytes; allowed: at least ", sizeof(header));
  std::memcpy(&header, blob.data(), sizeof(header));
  base::require(header.magic == BlobHeader::kMagic, name, ": no blob of reprise");
  base::require(header.version == BlobHeader::kVersion, name, ": version ", header.version,
                " of the format; allowed: ", BlobHeader::kVersion);
  base::require(header.bytes == blob.size(), name, ": ", blob.size(), " bytes; it was made with ",
                header.bytes);
  base::require(record::checksums_agree(header.checksum, record::checksum(behind_checksum(blob))),
                name, ": the checksum disagrees: bytes were changed on the way");
  return header;
}

BlobHeader open(Bytes blob, BlobKind kind, std::uint64_t fingerprint) {
  const BlobHeader header = open(blob, kind);
  base::require(header.fingerprint == fingerprint, kNames[static_cast<std::size_t>(kind)],
                ": made for another schema or window than this buffer's");
  return header;
}

}  // namespace reprise::remote
