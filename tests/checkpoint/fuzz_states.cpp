// A libFuzzer target that decodes the input as a state in a checkpoint of ReplayBuffer. The first
// bytes choose the kind of state. A schema or a buffer that is accepted must be encoded to the same
// bytes again, options to bytes that stay the same when decoded again; a shard must be consistent.
#include "save/save.hpp"
#include "save/stored_buffer.hpp"
#include "save/stored_options.hpp"
#include "save/stored_shard.hpp"
#include "testing/library.hpp"

#include <cstdlib>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace save = reprise::save;
using reprise::record::Bytes;
using reprise::record::Decoder;
using reprise::record::Encoder;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check_schema(Bytes bytes) {
  Decoder from(bytes, "input");
  const reprise::Schema schema = save::decode_schema(from);
  from.finish();
  Encoder to;
  save::encode(to, schema);
  require(std::ranges::equal(to.encoded(), bytes));
}

void check_options(Bytes bytes) {
  Decoder from(bytes, "input");
  const reprise::Options options = save::decode_options(from, save::kOptionsVersion);
  from.finish();
  Encoder once;
  save::encode(once, options);
  Decoder again(once.encoded(), "again");
  const reprise::Options second = save::decode_options(again, save::kOptionsVersion);
  again.finish();
  Encoder twice;
  save::encode(twice, second);
  require(std::ranges::equal(once.encoded(), twice.encoded()));
}

void check_buffer(Bytes bytes, std::size_t selectors, bool with_ratio) {
  Decoder from(bytes, "input");
  const save::StoredBuffer buffer = save::decode_buffer(
      from, with_ratio ? save::kStateVersionRatio : save::kStateVersion, selectors);
  require(buffer.alphas.size() == selectors);
  Encoder to;
  save::encode(to, buffer);
  require(std::ranges::equal(to.encoded(), bytes));
}

/// Decodes the state of a shard with `chunks` chunks of `rows` rows.
void check_shard(Bytes bytes, std::uint8_t chunks, std::uint8_t rows, std::size_t selectors,
                 bool draws_limited, bool with_turns) {
  const reprise::save::ImageBounds bounds{0, chunks, rows, selectors, draws_limited};
  Decoder from(bytes, "input");
  const reprise::shard::ShardImage image = reprise::save::read_state(
      from, bounds,
      with_turns ? reprise::save::kStateVersionTurns : reprise::save::kStateVersionRemoved);
  from.finish();
  require(image.generations.size() == chunks && image.touched <= chunks);
  std::size_t items = 0;
  for (const reprise::shard::ChunkImage& chunk : image.chunks) {
    require(chunk.chunk < image.touched && chunk.ingested <= rows);
    items += chunk.items;
  }
  require(items == image.items && image.stored.size() == selectors);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHead = 3;
  if (size < kHead) {
    return 0;
  }
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(kHead);
  const std::size_t selectors = 1 + data[0] / 4U % 3U;
  try {
    switch (data[0] % 4U) {
      case 0:
        check_schema(bytes);
        break;
      case 1:
        check_options(bytes);
        break;
      case 2:
        check_buffer(bytes, selectors, /*with_ratio=*/data[0] >= 128);
        break;
      default:
        check_shard(bytes, data[1], data[2], selectors, /*draws_limited=*/data[0] >= 128,
                    /*with_turns=*/(data[0] & 64U) != 0);
    }
  } catch (const reprise::CheckpointError&) {
    // The library may refuse an input only by this exception.
    return 0;
  }
  return 0;
}
