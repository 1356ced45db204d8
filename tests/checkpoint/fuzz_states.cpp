// A libFuzzer target that decodes the input as a state in a checkpoint of ReplayBuffer; the first
// byte chooses the kind of state. A state that is accepted must be encoded to the same bytes.
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

void demand(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void schema(Bytes bytes) {
  Decoder from(bytes, "input");
  const reprise::Schema schema = save::decode_schema(from);
  from.finish();
  Encoder to;
  save::encode(to, schema);
  demand(std::ranges::equal(to.encoded(), bytes));
}

void options(Bytes bytes) {
  Decoder from(bytes, "input");
  const reprise::Options options = save::decode_options(from, save::kStateVersionWords);
  from.finish();
  Encoder once;
  save::encode(once, options);
  Decoder again(once.encoded(), "again");
  const reprise::Options second = save::decode_options(again, save::kStateVersionWords);
  again.finish();
  Encoder twice;
  save::encode(twice, second);
  demand(std::ranges::equal(once.encoded(), twice.encoded()));
}

void buffer(Bytes bytes, std::size_t selectors, bool ratio) {
  Decoder from(bytes, "input");
  const save::StoredBuffer buffer =
      save::decode_buffer(from, ratio ? save::kStateVersionRatio : save::kStateVersion, selectors);
  demand(buffer.alphas.size() == selectors);
  Encoder to;
  save::encode(to, buffer);
  demand(std::ranges::equal(to.encoded(), bytes));
}

/// Decodes the state of a shard with `chunks` chunks of `rows` rows.
void shard(Bytes bytes, std::uint8_t chunks, std::uint8_t rows, std::size_t selectors,
           bool draws_limited, bool turns) {
  const reprise::save::ImageBounds bounds{0, chunks, rows, selectors, draws_limited};
  Decoder from(bytes, "input");
  const reprise::shard::ShardImage image = reprise::save::read_state(
      from, bounds,
      turns ? reprise::save::kStateVersionTurns : reprise::save::kStateVersionRemoved);
  from.finish();
  demand(image.generations.size() == chunks && image.touched <= chunks);
  std::size_t items = 0;
  for (const reprise::shard::ChunkImage& chunk : image.chunks) {
    demand(chunk.chunk < image.touched && chunk.ingested <= rows);
    items += chunk.items;
  }
  demand(items == image.items && image.stored.size() == selectors);
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
        schema(bytes);
        break;
      case 1:
        options(bytes);
        break;
      case 2:
        buffer(bytes, selectors, data[0] >= 128);
        break;
      default:
        shard(bytes, data[1], data[2], selectors, data[0] >= 128, (data[0] & 64U) != 0);
    }
  } catch (const reprise::CheckpointError&) {
    // The library may refuse an input only by this exception.
    return 0;
  }
  return 0;
}
