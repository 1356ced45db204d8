#pragma once

#include <reprise/selector.hpp>
#include <reprise/selectors/fifo.hpp>

#include "testing/test.hpp"

namespace reprise::test {

/// `Fifo` that calls `before_draw` on the sampler's thread, after the sampler has looked at the
/// shards and before it draws from them.
struct HookedFifo {
  std::function<void()> before_draw;

  class Rule final : public SelectorRule {
   public:
    explicit Rule(std::function<void()> before_draw) : before_draw_(std::move(before_draw)) {}
    [[nodiscard]] Law law() const noexcept override { return Law::InOrder; }
    [[nodiscard]] bool needs_item_numbers() const noexcept override { return true; }
    [[nodiscard]] bool needs_refresh() const noexcept override { return true; }
    void refresh(const EachShardSelector& /*each_shard_selector*/) noexcept override {
      before_draw_();
    }
    [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override {
      return fifo_->bytes(leaves);
    }
    [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
        std::size_t leaves) const override {
      return fifo_->make_shard_selector(leaves);
    }

   private:
    const std::function<void()> before_draw_;
    const std::unique_ptr<SelectorRule> fifo_ = Fifo{}.make_selector_rule();
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>(before_draw);
  }
};

}  // namespace reprise::test
