#pragma once

#include <reprise/item.hpp>

#include "base/memory.hpp"
#include "base/random.hpp"
#include "buffer/shard_set.hpp"
#include "sampler/draw_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::sampler {

/// The passes of one sampler (`Draws::Epoch`). A pass begins with a list of the keys of all items.
/// Each draw takes a random key that is left in the list, which makes a uniform shuffle step by
/// step. The generations of keys tell which items have left the buffer since.
///
/// One thread at a time.
class EpochDraw final : public DrawPlan {
 public:
  EpochDraw(buffer::ShardSet& shards, std::size_t selector) noexcept : DrawPlan(shards, selector) {
    facts_.equal_weights = true;
  }

  /// Also reserves memory for the list, and for as many runs as draws.
  void reserve(Drawing& drawing) override;
  Outcome draw(Drawing& drawing, base::Random& random) override;

  /// The number of passes that have ended.
  [[nodiscard]] std::uint64_t passes() const noexcept { return passes_; }

 private:
  bool begin_pass() noexcept;
  std::size_t draw_round(Drawing& drawing, base::Random& random) noexcept;

  /// The list: the first left_ keys are still to be drawn. It has room for every slot.
  base::LazyArray<ItemKey> items_;
  std::size_t left_ = 0;
  std::size_t in_pass_ = 0;  ///< Items of the pass at its beginning.
  bool any_drawn_ = false;   ///< Whether an item of this pass was drawn.
  std::uint64_t passes_ = 0;
  std::vector<std::size_t> places_;   ///< Indices in items_ of the keys that are drawn next.
  std::vector<ItemKey> next_;         ///< These keys.
  std::vector<ItemKey> keys_;         ///< The keys that a shard is asked for.
  std::vector<std::uint32_t> order_;  ///< Scratch of `for_each_shard`.
};

}  // namespace reprise::sampler
