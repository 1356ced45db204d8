// A libFuzzer target for damaged compressed frames. Whatever is in the frame room and in the
// frames' places, readers must stay within the room and the frame, and an undamaged frame must be
// decoded as it was.
#include "storage/frame_codec.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using reprise::storage::FrameRef;
using Bytes = std::span<const std::byte>;
using Frame = std::vector<std::byte>;

void demand(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// A size at which a frame has one block, or three.
std::size_t frame_bytes(std::uint8_t choice) {
  constexpr std::array<std::size_t, 4> kSizes{512, 600, 32769, 70'000};
  return kSizes[choice % kSizes.size()];
}

/// A frame that repeats the input until it is full.
Frame repeated(Bytes bytes, std::size_t size) {
  Frame frame(size);
  for (std::size_t i = 0; i < size && !bytes.empty(); ++i) {
    frame[i] = bytes[i % bytes.size()];
  }
  return frame;
}

bool decoded(const Frame& key, const Frame& stored, Frame& frame) {
  reprise::storage::FrameDecoder decoder;
  return decoder.decode(key, stored, [&](std::size_t at, Bytes piece) {
    demand(at + piece.size() <= frame.size());
    std::copy(piece.begin(), piece.end(), frame.begin() + static_cast<std::ptrdiff_t>(at));
  });
}

/// Decodes with all three buffers on the heap and of exactly the needed size.
void decode(Bytes bytes, std::size_t size) {
  const Frame key = repeated(bytes.first(bytes.size() / 2), size);
  const Frame stored(bytes.begin(), bytes.end());
  Frame frame(size, std::byte{1});
  decoded(key, stored, frame);
}

void encode(Bytes bytes, std::size_t size) {
  const Frame key = repeated(bytes.first(bytes.size() / 2), size);
  Frame frame = key;
  std::copy(bytes.begin(),
            bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), size)),
            frame.begin());
  static reprise::storage::FrameEncoder encoder;
  Frame stored(size);
  stored.resize(encoder.encode(key, frame, stored.data()));
  Frame back(size);
  demand(decoded(key, stored, back) && back == frame);
}

void read(Bytes bytes, std::size_t size) {
  FrameRef ref;
  std::uint32_t key = 0;
  if (bytes.size() < sizeof(ref) + sizeof(key)) {
    return;
  }
  std::memcpy(&ref, bytes.data(), sizeof(ref));
  std::memcpy(&key, bytes.data() + sizeof(ref), sizeof(key));
  const Frame room = repeated(bytes.subspan(sizeof(ref) + sizeof(key)), 2 * size);
  Frame frame(size);
  if (!reprise::storage::read_frame(room, ref, key, frame)) {
    demand(frame == Frame(size));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHead = 2;
  if (size < kHead) {
    return 0;
  }
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(kHead);
  switch (data[0] % 3U) {
    case 0:
      decode(bytes, frame_bytes(data[1]));
      break;
    case 1:
      encode(bytes, frame_bytes(data[1]));
      break;
    default:
      read(bytes, frame_bytes(data[1]));
  }
  return 0;
}
