#include "remote/exchange.hpp"

#include "base/divider.hpp"
#include "base/sync.hpp"
#include "base/text.hpp"

#include <cstddef>
#include <limits>

namespace reprise::remote {

void check_laws(const char* call, const buffer::Selectors& selectors) {
  for (std::size_t s = 0; s < selectors.size(); ++s) {
    base::require(
        selectors.at(s).law() == Law::ByWeight, base::Call{call}, "selectors[", s,
        "] draws in an order, by rank, or by a sum or an age over the whole buffer, which "
        "needs all shards at one moment; allowed: selectors that draw by the weight of "
        "each item alone, such as Uniform and Proportional");
  }
}

AnswerLayout::AnswerLayout(const BatchKinds& kinds, std::span<const DrawRequest> draws)
    : bytes_(sizeof(BlobHeader) + sizeof(AnswerHead) + draws.size() * sizeof(DrawStatus)) {
  places_.reserve(draws.size());
  for (const DrawRequest& draw : draws) {
    bytes_ = base::divide_up(bytes_, base::kCacheLine) * base::kCacheLine;
    places_.push_back(bytes_);
    const std::size_t more =
        draw.items == 0 ? 0 : kinds.of(draw).block_bytes(static_cast<std::size_t>(draw.items));
    base::require(more <= std::numeric_limits<std::ptrdiff_t>::max() - bytes_,
                  "the batches of one answer are beyond the machine's memory");
    bytes_ += more;
  }
}

}  // namespace reprise::remote
