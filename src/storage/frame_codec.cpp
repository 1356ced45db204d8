#include "storage/frame_codec.hpp"

#include <lz4.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace reprise::storage {
namespace {

using Bytes = std::span<const std::byte>;

/// The number before each block of a frame of several blocks: in how many bytes the block is
/// stored. They are as many as the block has if it is stored uncompressed.
using Length = std::uint16_t;
static_assert(kFrameBlock <= UINT16_MAX);

const char* chars(Bytes bytes) noexcept {
  return reinterpret_cast<const char*>(bytes.data());
}
char* chars(std::byte* bytes) noexcept {
  return reinterpret_cast<char*>(bytes);
}
int size_of(Bytes bytes) noexcept {
  return static_cast<int>(bytes.size());
}

Bytes block_at(Bytes bytes, std::size_t at) noexcept {
  return bytes.subspan(at, std::min(kFrameBlock, bytes.size() - at));
}

/// Writes the part of a length beyond the 15 that a token can hold, in LZ4's format.
std::byte* put_length(std::byte* to, std::size_t rest) noexcept {
  for (; rest >= 255; rest -= 255) {
    *to++ = std::byte{255};
  }
  *to++ = static_cast<std::byte>(rest);
  return to;
}

/// Compresses a block into at most `room` bytes, or returns 0. Writes LZ4's format, with matches
/// only for runs that equal the key at the same place. LZ4 itself prefers the latest match, but its
/// decoder waits when a match reads what was just written, and short matches cost as much as long
/// ones.
std::size_t encode_runs(Bytes key, Bytes block, std::byte* to, std::size_t room) noexcept {
  // LZ4's format: the least distances of matches from the end of a block, and their least length.
  constexpr std::size_t kLastBegin = 12;
  constexpr std::size_t kLastEnd = 5;
  constexpr std::size_t kMinMatch = 4;
  constexpr std::size_t kInToken = 15;
  static_assert(std::endian::native == std::endian::little, "The first byte is the lowest.");
  const std::size_t size = block.size();
  const auto offset = static_cast<std::uint16_t>(size);  // The key lies directly before the block.
  const auto differ = [&](std::size_t at) {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::memcpy(&a, key.data() + at, sizeof(a));
    std::memcpy(&b, block.data() + at, sizeof(b));
    return a ^ b;
  };
  std::size_t written = 0;
  std::size_t encoded = 0;
  const auto put_run = [&](std::size_t literals, std::size_t run) {
    // The token and the first further byte of each length, the literals, and what else may follow.
    const std::size_t bound = 3 + literals + literals / 255 + sizeof(offset) + run / 255;
    if (bound > room - written) {
      return false;
    }
    const std::size_t match = run - std::min(run, kMinMatch);
    std::byte* out = to + written;
    *out++ = static_cast<std::byte>(std::min(literals, kInToken) << 4U | std::min(match, kInToken));
    out = literals < kInToken ? out : put_length(out, literals - kInToken);
    std::memcpy(out, block.data() + encoded, literals);
    out += literals;
    if (run != 0) {
      std::memcpy(out, &offset, sizeof(offset));
      out += sizeof(offset);
      out = match < kInToken ? out : put_length(out, match - kInToken);
    }
    written = static_cast<std::size_t>(out - to);
    encoded += literals + run;
    return true;
  };
  for (std::size_t at = 0; at + kLastBegin <= size; ++at) {
    if (at - encoded > room - written) {
      return 0;  // There is no room for what differs since the last run.
    }
    if (differ(at) != 0) {
      continue;
    }
    const std::size_t begin = at;
    std::uint64_t different = 0;
    while (at + sizeof(different) <= size && (different = differ(at)) == 0) {
      at += sizeof(different);
    }
    at += different == 0 ? 0 : static_cast<std::size_t>(std::countr_zero(different)) / 8;
    at = std::min(at, size - kLastEnd);
    if (!put_run(begin - encoded, at - begin)) {
      return 0;
    }
  }
  return put_run(size - encoded, 0) ? written : 0;
}

/// Compresses a block into fewer bytes than `room` and than the block has, or returns 0.
std::size_t encode_block(LZ4_stream_u* stream, Bytes key, Bytes block, std::byte* to,
                         std::size_t room) noexcept {
  const std::size_t most = std::min(room, block.size());
  if (most == 0) {
    return 0;
  }
  // If the runs would take more than a quarter of the block, so much has changed since the key
  // frame that LZ4 needs fewer bytes.
  if (const std::size_t runs = encode_runs(key, block, to, std::min(most - 1, block.size() / 4));
      runs != 0) {
    return runs;
  }
  LZ4_loadDict(stream, chars(key), size_of(key));
  const int bytes = LZ4_compress_fast_continue(stream, chars(block), chars(to), size_of(block),
                                               static_cast<int>(most - 1), 1);
  return static_cast<std::size_t>(std::max(bytes, 0));
}

}  // namespace

FrameEncoder::FrameEncoder() : stream_(LZ4_createStream()) {
  if (stream_ == nullptr) {
    throw std::bad_alloc();
  }
}

void FrameEncoder::Free::operator()(LZ4_stream_u* stream) const noexcept {
  LZ4_freeStream(stream);
}

std::size_t FrameEncoder::encode(Bytes key, Bytes frame, std::byte* to) noexcept {
  const auto as_it_is = [&] {
    std::memcpy(to, frame.data(), frame.size());
    return frame.size();
  };
  if (frame.size() <= kFrameBlock) {
    const std::size_t bytes = encode_block(stream_.get(), key, frame, to, frame.size());
    return bytes != 0 ? bytes : as_it_is();
  }
  std::size_t written = 0;
  for (std::size_t at = 0; at < frame.size(); at += kFrameBlock) {
    const Bytes block = block_at(frame, at);
    // All blocks together must take fewer bytes than the frame: as many would mean uncompressed.
    const std::size_t room = frame.size() - 1 - written;
    if (room < sizeof(Length)) {
      return as_it_is();
    }
    std::byte* const place = to + written + sizeof(Length);
    std::size_t bytes =
        encode_block(stream_.get(), block_at(key, at), block, place, room - sizeof(Length));
    if (bytes == 0) {
      bytes = block.size();
      if (bytes > room - sizeof(Length)) {
        return as_it_is();
      }
      std::memcpy(place, block.data(), bytes);
    }
    const auto length = static_cast<Length>(bytes);
    std::memcpy(to + written, &length, sizeof(length));
    written += sizeof(length) + bytes;
  }
  return written;
}

/// Returns the block of a frame that begins at `at`, decompressed, or the whole frame if it is
/// stored uncompressed; takes the bytes read off `stored`. Returns nothing if they are damaged.
Bytes FrameDecoder::next(Bytes key, Bytes& stored, std::size_t at) noexcept {
  if (at == 0 && stored.size() == key.size()) {
    return std::exchange(stored, {});
  }
  const Bytes dictionary = block_at(key, at);
  std::size_t bytes = stored.size();
  if (key.size() > kFrameBlock) {
    Length length = 0;
    if (stored.size() < sizeof(length)) {
      return {};
    }
    std::memcpy(&length, stored.data(), sizeof(length));
    stored = stored.subspan(sizeof(length));
    bytes = length;
  }
  if (bytes > stored.size() || bytes > dictionary.size()) {
    return {};
  }
  const Bytes block = stored.first(bytes);
  stored = stored.subspan(bytes);
  if (bytes == dictionary.size()) {
    return block;
  }
  std::byte* const middle = memory_.data() + kFrameBlock;
  if (key_ != dictionary.data()) {
    std::memcpy(middle - dictionary.size(), dictionary.data(), dictionary.size());
    key_ = dictionary.data();
  }
  const Bytes before(middle - dictionary.size(), dictionary.size());
  const int size = size_of(dictionary);
  return LZ4_decompress_safe_usingDict(chars(block), chars(middle), size_of(block), size,
                                       chars(before), size) == size
             ? Bytes(middle, dictionary.size())
             : Bytes();
}

bool read_frame(Bytes room, FrameRef ref, std::size_t key, std::span<std::byte> frame) noexcept {
  FrameDecoder decoder;
  const bool whole = decoder.read(room, ref, key, frame.size(), [&](std::size_t at, Bytes piece) {
    std::copy(piece.begin(), piece.end(), frame.begin() + static_cast<std::ptrdiff_t>(at));
  });
  if (!whole) {
    std::fill(frame.begin(), frame.end(), std::byte{});
  }
  return whole;
}

}  // namespace reprise::storage
