#include "base/text.hpp"
#include "buffer/all_shards.hpp"
#include "buffer/buffer_core.hpp"
#include "select/tree_selector.hpp"

#include <stdexcept>

namespace reprise::buffer {
namespace {

/// A shard's half of a selector whose rule is a `WeightRule`.
select::TreeSelector& half(shard::Shard& shard, std::size_t selector)
    REPRISE_REQUIRES(shard.mutex) {
  return dynamic_cast<select::TreeSelector&>(shard.half(selector));
}

}  // namespace

/// The rule of a selector whose weights can be changed as a whole.
select::WeightRule& BufferCore::checked_rule(const char* call, std::size_t selector) const {
  static_cast<void>(rule_of(selector));
  select::WeightRule* const rule = weight_rules_[selector];
  if (rule == nullptr || !rule->weighted()) {
    throw std::invalid_argument(base::text(call, ": selector is ", selector,
                                           ", which is not Proportional; allowed: one that is"));
  }
  return *rule;
}

void BufferCore::set_alpha(float alpha, std::size_t selector) {
  life_.check();
  select::WeightRule& rule = checked_rule("set_alpha", selector);
  rule.check_alpha(alpha);
  const AllShards all(*this);
  if (rule.alpha() == 0.0F) {
    throw std::invalid_argument(base::text(
        "set_alpha: alpha is ", alpha,
        ", but the present alpha is 0, whose weights say nothing of ",
        "priorities; allowed: a change from an alpha above 0. Make the buffer with a small one, ",
        "such as 0.01, if it is to rise later"));
  }
  for (const auto& shard : shards_) {
    shard->mutex.is_held();
    half(*shard, selector).set_alpha(alpha);
  }
  rule.set_alpha(alpha);
}

float BufferCore::checked_alpha(std::size_t selector) const {
  return checked_rule("alpha", selector).alpha();
}

void BufferCore::decay(float factor, std::size_t selector) {
  life_.check();
  checked_rule("decay", selector);
  if (!(factor > 0.0F && factor <= 1.0F)) {
    throw std::invalid_argument(
        base::text("decay: factor is ", factor, "; allowed: above 0, at most 1"));
  }
  drain();  // What was committed before the call is in the buffer.
  const AllShards all(*this);
  for (const auto& shard : shards_) {
    shard->mutex.is_held();
    half(*shard, selector).decay(factor);
  }
}

}  // namespace reprise::buffer
