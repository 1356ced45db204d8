#include <reprise/removers/lowest_priority.hpp>

#include "base/text.hpp"
#include "select/candidates.hpp"

#include <cstdint>
#include <stdexcept>

namespace reprise {
namespace {

class ByWeight final : public ShardRemover {
 public:
  ByWeight(std::uint32_t compared, std::size_t selector, const ShardChunks& chunks)
      : candidates_("LowestPriority", compared, chunks.chunks()),
        selector_(selector),
        chunks_(chunks) {}

  void enters(std::uint32_t chunk) noexcept override { candidates_.enter(chunk); }
  void leaves(std::uint32_t chunk) noexcept override { candidates_.leave(chunk); }

  [[nodiscard]] std::uint32_t victim() noexcept override {
    return candidates_.least([this](std::uint32_t chunk) {
      return chunks_.weight(chunk, selector_) / chunks_.steps(chunk);
    });
  }

 private:
  select::Candidates candidates_;
  const std::size_t selector_;
  const ShardChunks& chunks_;
};

}  // namespace

std::unique_ptr<ShardRemover> LowestPriority::make_shard_remover(const ShardChunks& chunks) const {
  if (selector >= chunks.selectors()) {
    throw std::invalid_argument(base::text("LowestPriority::selector is ", selector,
                                           "; allowed: 0 to ", chunks.selectors() - 1,
                                           ", its place in selectors"));
  }
  return std::make_unique<ByWeight>(candidates, selector, chunks);
}

}  // namespace reprise
