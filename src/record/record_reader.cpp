#include "record/record_reader.hpp"

#include "record/checksum.hpp"
#include "record/errors.hpp"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace reprise::record {
namespace {

/// The header at the beginning of these bytes; throws unless it is that of the block which begins
/// after `done` bytes of a record.
BlockHeader read_header(Bytes bytes, const RecordPlace& place, const RecordId& id,
                        std::uint64_t done, const std::string& path, std::uint64_t at) {
  const auto refuse = [&](const auto&... problem) { throw damaged(path, at, problem...); };
  BlockHeader header;
  if (bytes.size() < BlockHeader::kBytes) {
    refuse("a block's header of ", BlockHeader::kBytes, " bytes should follow; there are ",
           bytes.size());
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (RecordId{header.type, header.value} != id) {
    refuse("a block of another record");
  }
  if (header.place != done / kBlockBytes) {
    refuse("block ", header.place, " of its record; expected: block ", done / kBlockBytes);
  }
  if (const auto raw = std::min<std::uint64_t>(kBlockBytes, place.raw - done); header.raw != raw) {
    refuse("a block of ", header.raw, " bytes; expected: ", raw);
  }
  const bool plain = header.codec == Codec::Plain && header.stored == header.raw;
  const bool smaller =
      header.codec == Codec::Zstd && header.stored > 0 && header.stored < header.raw;
  if (!plain && !smaller) {
    refuse("a block of ", header.raw, " bytes stored in ", header.stored, " by codec ",
           static_cast<std::uint32_t>(header.codec));
  }
  if (header.stored > place.end() - at - BlockHeader::kBytes) {
    refuse("a block goes beyond the end of its record");
  }
  return header;
}

}  // namespace

std::uint64_t RecordReader::read(StoredFile& file, const RecordPlace& place, const RecordId& id,
                                 const Sink& sink, Form form) {
  constexpr std::size_t kHeader = BlockHeader::kBytes;
  std::vector<std::byte> headers;
  // At most the bytes of the record in its file, so that small records need little memory.
  const std::size_t room =
      static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes + 2 * kHeader, place.stored));
  stored_.resize(std::max(stored_.size(), room));
  const Room all(stored_);
  std::uint64_t at = place.offset;
  const std::uint64_t end = place.end();
  std::size_t have = 0;  // Bytes from `at` on that have been read.
  const auto read_up_to = [&](std::uint64_t wanted) {
    if (wanted = std::min(wanted, end - at); wanted > have) {
      file.read(all.subspan(have, static_cast<std::size_t>(wanted) - have), at + have);
      have = static_cast<std::size_t>(wanted);
    }
  };
  for (std::uint64_t done = 0; done < place.raw;) {
    // A record of one block takes one read; others read the next header after each block.
    read_up_to(place.raw <= kBlockBytes ? kHeader + place.raw : kHeader);
    const BlockHeader header = read_header(all.first(have), place, id, done, file.path(), at);
    const std::size_t size = kHeader + header.stored;
    read_up_to(size + kHeader);
    const Bytes block = all.first(size);
    const std::array checked{block.first(BlockHeader::kCheckedBytes), block.subspan(kHeader)};
    if (!checksums_agree(header.checksum, checksum(checked))) {
      throw damaged(file.path(), at, "a block of ", header.stored,
                    " bytes does not have the checksum that it had when it was written");
    }
    headers.insert(headers.end(), block.begin(), block.begin() + kHeader);
    sink(form == Form::Stored ? block : decoded(header, block.subspan(kHeader), file.path(), at));
    at += size;
    done += header.raw;
    have -= size;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(size), have, all.begin());
  }
  if (at != end) {
    throw damaged(file.path(), at, end - at, " bytes more than the record needs");
  }
  const std::uint64_t sum = checksum(headers);
  if (id.type != RecordType::Manifest && !checksums_agree(place.checksum, sum)) {
    throw damaged(file.path(), place.offset, "this record is not the one that the manifest names");
  }
  return sum;
}

Bytes RecordReader::decoded(const BlockHeader& header, Bytes stored, const std::string& path,
                            std::uint64_t at) {
  if (header.codec == Codec::Plain) {
    return stored;
  }
  if (decompressor_ == nullptr) {
    decompressor_ = {ZSTD_createDCtx(), ZSTD_freeDCtx};
    if (decompressor_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  raw_.resize(std::max<std::size_t>(raw_.size(), header.raw));
  // zstd returns an error as a number far above any size.
  if (ZSTD_decompressDCtx(decompressor_.get(), raw_.data(), header.raw, stored.data(),
                          stored.size()) != header.raw) {
    throw damaged(path, at, "a block does not decompress to ", header.raw, " bytes");
  }
  return Bytes(raw_).first(header.raw);
}

}  // namespace reprise::record
