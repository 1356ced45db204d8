#include "buffer/reweigh.hpp"

#include "base/text.hpp"
#include "select/tree_selector.hpp"

#include <stdexcept>

namespace reprise::buffer {
namespace {

/// A shard's selector whose rule is a `WeightRule`.
select::TreeSelector& tree(shard::LockedShard& shard, std::size_t selector) {
  return dynamic_cast<select::TreeSelector&>(shard.selector(selector));
}

/// The rule of a selector whose weights can be changed as a whole.
select::WeightRule& checked_rule(const BufferCore& core, const char* call, std::size_t selector) {
  static_cast<void>(core.selectors().at(selector));
  select::WeightRule* const rule = core.selectors().weight_rule(selector);
  if (rule == nullptr || !rule->weighted()) {
    throw std::invalid_argument(base::text(call, ": selector is ", selector,
                                           ", which is not Proportional; allowed: one that is"));
  }
  return *rule;
}

}  // namespace

void set_alpha(BufferCore& core, float alpha, std::size_t selector) {
  core.life().check();
  select::WeightRule& rule = checked_rule(core, "set_alpha", selector);
  rule.check_alpha(alpha);
  const ShardSet::All all(core.shards());
  if (rule.alpha() == 0.0F) {
    throw std::invalid_argument(base::text(
        "set_alpha: alpha is ", alpha,
        ", but the present alpha is 0, whose weights say nothing of ",
        "priorities; allowed: a change from an alpha above 0. Make the buffer with a small one, ",
        "such as 0.01, if it is to rise later"));
  }
  for (std::size_t s = 0; s < all.size(); ++s) {
    tree(all[s], selector).set_alpha(alpha);
  }
  rule.set_alpha(alpha);
}

float alpha(const BufferCore& core, std::size_t selector) {
  return checked_rule(core, "alpha", selector).alpha();
}

void decay(BufferCore& core, float factor, std::size_t selector) {
  core.life().check();
  checked_rule(core, "decay", selector);
  if (!(factor > 0.0F && factor <= 1.0F)) {
    throw std::invalid_argument(
        base::text("decay: factor is ", factor, "; allowed: above 0, at most 1"));
  }
  core.shards().drain();  // What was committed before the call is in the buffer.
  const ShardSet::All all(core.shards());
  for (std::size_t s = 0; s < all.size(); ++s) {
    tree(all[s], selector).decay(factor);
  }
}

}  // namespace reprise::buffer
