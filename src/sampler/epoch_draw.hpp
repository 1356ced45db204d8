#pragma once

#include <reprise/item_key.hpp>

#include "base/memory.hpp"
#include "base/random.hpp"
#include "buffer/buffer_core.hpp"
#include "sampler/run.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::sampler {

/// The passes of one sampler (`Draws::Epoch`). A pass begins with a list of the keys of all items.
/// Each draw takes a key at random from those left, so the sequence is a uniform shuffle that is
/// made as it is used. Keys tell which items have left since.
///
/// One thread at a time.
class EpochDraw {
 public:
  EpochDraw(buffer::BufferCore& core, std::size_t selector) noexcept
      : core_(core), selector_(selector) {}

  /// Makes room for n draws and for the list, so that `draw` allocates nothing for a batch of n.
  void reserve(std::size_t n);

  /// Draws, and pins each item's chunk; `runs` has room for n. False if a whole pass found no item
  /// of weight above 0; then the pins in `runs` have to be given back.
  bool draw(const shard::Slots& batch, base::Random& random, std::vector<Run>& runs) noexcept;

  /// Passes of which no item is left.
  [[nodiscard]] std::uint64_t passes() const noexcept { return passes_; }

 private:
  bool begin_pass() noexcept;
  std::size_t draw_round(const shard::Slots& batch, std::size_t done, base::Random& random,
                         std::vector<Run>& runs) noexcept;

  buffer::BufferCore& core_;
  const std::size_t selector_;
  base::LazyArray<ItemKey> items_;  ///< The first left_ have not had their turn; one per slot.
  std::size_t left_ = 0;
  std::size_t in_pass_ = 0;  ///< Items of the pass at its beginning.
  bool any_drawn_ = false;   ///< In this pass.
  std::uint64_t passes_ = 0;
  std::vector<ItemKey> next_;
  std::vector<std::uint32_t> order_;
};

}  // namespace reprise::sampler
