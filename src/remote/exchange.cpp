#include "remote/exchange.hpp"

#include "base/divider.hpp"
#include "base/sync.hpp"
#include "base/text.hpp"

#include <cstddef>
#include <limits>

namespace reprise::remote {

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
