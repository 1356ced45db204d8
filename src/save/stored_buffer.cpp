#include "save/stored_buffer.hpp"

#include "save/save.hpp"

#include <algorithm>
#include <cmath>

namespace reprise::save {
namespace {

/// The most items that a stored buffer may have decided: more than any buffer will decide, and so
/// few that the count cannot overflow.
constexpr std::uint64_t kMaxItemNumbers = std::uint64_t{1} << 62U;

}  // namespace

void encode(record::Encoder& to, const StoredBuffer& buffer) {
  to.value(buffer.counts);
  to.list(buffer.alphas);
  to.list(buffer.writer_positions);
  to.list(buffer.samplers);
  if (buffer.ratio) {
    to.value(buffer.ratio->samples_per_insert);
    to.value(buffer.ratio->offset);
  }
  if (buffer.version != 0) {
    to.value(buffer.version);
  }
}

StoredBuffer decode_buffer(record::Decoder& from, std::uint32_t state_version,
                           std::size_t selectors) {
  StoredBuffer buffer;
  buffer.counts = from.value<StoredBuffer::Counts>();
  if (buffer.counts.item_numbers > kMaxItemNumbers) {
    from.refuse(buffer.counts.item_numbers, " items decided; allowed: at most ", kMaxItemNumbers);
  }
  buffer.alphas = from.list<float>();
  if (buffer.alphas.size() != selectors) {
    from.refuse(buffer.alphas.size(), " selectors; there are ", selectors);
  }
  buffer.writer_positions = from.list<StoredBuffer::WriterPosition>();
  buffer.samplers = from.list<base::Random::State>();
  if (std::ranges::count(buffer.samplers, base::Random::State{}) != 0) {
    from.refuse("a sampler's random numbers have no state");
  }
  if (state_version >= kStateVersionRatio) {
    const auto samples_per_insert = from.value<double>();
    const auto offset = from.value<double>();
    if (!std::isfinite(offset)) {
      from.refuse("the balance of the ratio is ", offset, "; allowed: finite");
    }
    buffer.ratio = {samples_per_insert, offset};
  }
  if (from.left() != 0) {
    buffer.version = from.value<std::int64_t>();
    if (buffer.version <= 0) {
      from.refuse("version ", buffer.version, "; allowed: above 0, as none is stored for 0");
    }
  }
  from.finish();
  return buffer;
}

}  // namespace reprise::save
