#include "record/record_reader.hpp"

#include "record/errors.hpp"

#include <algorithm>

namespace reprise::record {
namespace {

/// The header of the block that begins after `done` bytes of a record, as its place describes it.
BlockHeader expected_header(const RecordPlace& place, const RecordId& id, std::uint64_t done) {
  BlockHeader header;
  header.record = id;
  header.raw = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockBytes, place.raw - done));
  header.place = static_cast<std::uint32_t>(done / kBlockBytes);
  return header;
}

}  // namespace

void RecordReader::read(StoredFile& file, const RecordPlace& place, const RecordId& id,
                        const Sink& sink) {
  if (!checksums_agree(place.checksum, read_blocks(file, place, id, sink, Form::Raw))) {
    throw damaged(file.path(), place.offset, "this record is not the one that the manifest names");
  }
}

void RecordReader::read_stored(StoredFile& file, const RecordPlace& place, const RecordId& id,
                               const Sink& sink) {
  if (!checksums_agree(place.checksum, read_blocks(file, place, id, sink, Form::Stored))) {
    throw damaged(file.path(), place.offset, "this record is not the one that the manifest names");
  }
}

std::uint64_t RecordReader::read_unnoted(StoredFile& file, const RecordPlace& place,
                                         const RecordId& id, const Sink& sink) {
  return read_blocks(file, place, id, sink, Form::Raw);
}

std::uint64_t RecordReader::read_blocks(StoredFile& file, const RecordPlace& place,
                                        const RecordId& id, const Sink& sink, Form form) {
  constexpr std::size_t kHeader = BlockHeader::kBytes;
  record_checksum_.reset();
  // At most the bytes of the record in its file, so that small records need little memory.
  const std::size_t room =
      static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes + 2 * kHeader, place.stored));
  stored_.resize(std::max(stored_.size(), room));
  const Room all(stored_);
  std::uint64_t at = place.offset;
  const std::uint64_t end = place.end();
  // A record of one block takes one read; others read the next header after each block.
  std::size_t have = 0;
  for (std::uint64_t done = 0; done < place.raw;) {
    const BlockHeader expected = expected_header(place, id, done);
    if (have == 0) {
      have = place.raw <= kBlockBytes && end - at <= kHeader + place.raw
                 ? static_cast<std::size_t>(end - at)
                 : std::min<std::size_t>(kHeader, static_cast<std::size_t>(end - at));
      file.read(all.first(have), at);
    }
    const BlockHeader header =
        BlockHeader::decode(all.first(std::min(have, kHeader)), file.path(), at);
    check(header, expected, file.path(), at, end);
    const std::size_t size = kHeader + header.stored;
    const bool last = done + header.raw == place.raw;
    const std::size_t wanted =
        size +
        (last ? 0 : std::min<std::size_t>(kHeader, static_cast<std::size_t>(end - at - size)));
    if (wanted > have) {
      file.read(all.subspan(have, wanted - have), at + have);
      have = wanted;
    }
    const Bytes block = all.first(size);
    block_checksum_.reset();
    block_checksum_.add(block.first(BlockHeader::kCheckedBytes));
    block_checksum_.add(block.subspan(kHeader));
    if (!checksums_agree(header.checksum, block_checksum_.value())) {
      throw damaged(file.path(), at, "a block of ", header.stored,
                    " bytes does not have the checksum that it had when it was written");
    }
    record_checksum_.add(block.first(kHeader));
    if (form == Form::Stored) {
      sink(block);
    } else {
      sink(decoded(header, block.subspan(kHeader), file.path(), at));
    }
    at += size;
    done += header.raw;
    have = have > size ? have - size : 0;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(size), have, all.begin());
  }
  if (at != end) {
    throw damaged(file.path(), at, end - at, " bytes more than the record needs");
  }
  return record_checksum_.value();
}

void RecordReader::check(const BlockHeader& header, const BlockHeader& expected,
                         const std::string& path, std::uint64_t at, std::uint64_t end) {
  if (header.record != expected.record) {
    throw damaged(path, at, "a block of another record");
  }
  if (header.place != expected.place) {
    throw damaged(path, at, "block ", header.place, " of its record; expected: block ",
                  expected.place);
  }
  if (header.raw != expected.raw) {
    throw damaged(path, at, "a block of ", header.raw, " bytes; expected: ", expected.raw);
  }
  const bool plain = header.codec == Codec::Plain && header.stored == header.raw;
  const bool smaller =
      header.codec == Codec::Zstd && header.stored > 0 && header.stored < header.raw;
  if (!plain && !smaller) {
    throw damaged(path, at, "a block of ", header.raw, " bytes stored in ", header.stored,
                  " by codec ", static_cast<std::uint32_t>(header.codec));
  }
  if (header.stored > end - at - BlockHeader::kBytes) {
    throw damaged(path, at, "a block goes beyond the end of its record");
  }
}

Bytes RecordReader::decoded(const BlockHeader& header, Bytes stored, const std::string& path,
                            std::uint64_t at) {
  if (header.codec == Codec::Plain) {
    return stored;
  }
  if (!decompressor_) {
    decompressor_.emplace();
  }
  raw_.resize(std::max<std::size_t>(raw_.size(), header.raw));
  const Room raw = Room(raw_).first(header.raw);
  if (!decompressor_->decompress(stored, raw)) {
    throw damaged(path, at, "a block does not decompress to ", header.raw, " bytes");
  }
  return raw;
}

}  // namespace reprise::record
