#include "buffer/reweigh.hpp"

#include "base/text.hpp"

#include <optional>
#include <stdexcept>

namespace reprise::buffer {
namespace {

[[noreturn]] void refuse(const char* call, std::size_t selector) {
  throw std::invalid_argument(base::text(call, ": selector is ", selector,
                                         ", whose weights it does not change; allowed: "
                                         "Proportional, or one of your own that has it"));
}

}  // namespace

void set_alpha(BufferCore& core, float alpha, std::size_t selector) {
  core.life().check();
  const SelectorRule& rule = core.selectors().at(selector);
  if (!rule.alpha()) {
    refuse("set_alpha", selector);
  }
  rule.check_alpha(alpha);
  const ShardSet::All all(core.shards());
  if (rule.alpha() == 0.0F) {
    throw std::invalid_argument(base::text(
        "set_alpha: alpha is ", alpha,
        ", but the present alpha is 0, whose weights say nothing of ",
        "priorities; allowed: a change from an alpha above 0. Make the buffer with a small one, ",
        "such as 0.01, if it is to rise later"));
  }
  core.selectors().set_alpha(alpha, selector);
  for (std::size_t s = 0; s < all.size(); ++s) {
    all[s].selector(selector).set_alpha(alpha);
  }
}

float alpha(const BufferCore& core, std::size_t selector) {
  const std::optional<float> alpha = core.selectors().at(selector).alpha();
  if (!alpha) {
    refuse("alpha", selector);
  }
  return *alpha;
}

void decay(BufferCore& core, float factor, std::size_t selector) {
  core.life().check();
  static_cast<void>(core.selectors().at(selector));
  if (!(factor > 0.0F && factor <= 1.0F)) {
    throw std::invalid_argument(
        base::text("decay: factor is ", factor, "; allowed: above 0, at most 1"));
  }
  core.shards().drain();  // Steps that were committed before the call have to decay too.
  const ShardSet::All all(core.shards());
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (!all[s].selector(selector).decay(factor)) {
      refuse("decay", selector);
    }
  }
}

}  // namespace reprise::buffer
