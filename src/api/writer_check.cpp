#include "api/writer_core.hpp"
#include "base/text.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace reprise::detail {

void WriterCore::check_commit(End end, std::span<const float> priorities) const {
  check_process();
  check_step();
  if (!priorities.empty() || needs_priorities_) {
    check_priorities(completing(end), priorities);
  }
}

/// A process id costs a system call where there are no pages that tell of a fork, so it is asked
/// for only where this commit may wait: at its beginning, or at its end for the next chunk.
void WriterCore::check_process() const {
  may_wait() || row_ + 2 >= chunk_rows_ ? life_.check() : life_.check_page();
}

/// An episode under way, every field written, the discount within its range.
void WriterCore::check_step() const {
  const std::uint64_t missing_now = field_mask_ & ~taken[kNow];
  const std::uint64_t missing_next = observation_mask_ & ~taken[kNext];
  if (!in_episode() || (missing_now | missing_next) != 0) {
    check_unwritten(missing_now, missing_next);
  }
  if (const auto field = core_->layout().discount_field()) {
    float discount = 0.0F;
    std::memcpy(&discount, rows[kNow] + fields[*field].offset, sizeof(discount));
    if (!(discount >= 0.0F && discount <= 1.0F)) {
      throw std::invalid_argument("Writer::commit: field '" +
                                  core_->schema().fields()[*field].name + "' is " +
                                  base::text(discount) + "; allowed: 0 to 1");
    }
  }
}

/// Throws outside an episode and for fields that are unwritten, but for recurrent states with which
/// no item can begin.
void WriterCore::check_unwritten(std::uint64_t missing_now, std::uint64_t missing_next) const {
  if (!in_episode()) {
    throw std::logic_error("Writer::commit outside an episode: call begin_episode first");
  }
  if (!states_.kept(position_)) {
    missing_now &= ~core_->layout().state_mask();
  }
  if ((missing_now | missing_next) == 0) {
    return;
  }
  const bool now = missing_now != 0;
  const int field = std::countr_zero(now ? missing_now : missing_next);
  throw std::logic_error("Writer::commit: field '" +
                         core_->schema().fields()[static_cast<std::size_t>(field)].name +
                         "' of the " + (now ? "current" : "next") +
                         " step is unwritten: write it through " + (now ? "now" : "next"));
}

/// One priority for each item decided, or none where the selectors have a rule for that.
void WriterCore::check_priorities(std::size_t items, std::span<const float> priorities) const {
  if (priorities.empty()) {
    if (needs_priorities_ && items != 0) {
      throw std::invalid_argument("Writer::commit: 0 priorities; InitialPriority::FromCaller " +
                                  std::string("takes one for each of the ") +
                                  std::to_string(items) + " items decided");
    }
    return;
  }
  if (priorities.size() != items) {
    throw std::invalid_argument("Writer::commit: " + std::to_string(priorities.size()) +
                                " priorities; this commit decides " + std::to_string(items) +
                                " items");
  }
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    const float priority = priorities[i];
    if (!(std::isfinite(priority) && priority >= 0.0F)) {
      throw std::invalid_argument("Writer::commit: priorities[" + std::to_string(i) + "] is " +
                                  base::text(priority) + "; allowed: finite, at least 0");
    }
    for (const auto& rule : core_->rules()) {
      if (!rule->weighable(priority)) {
        throw std::invalid_argument(
            "Writer::commit: priorities[" + std::to_string(i) + "] is " + base::text(priority) +
            "; allowed: a priority whose weight (priority + epsilon)^alpha is finite");
      }
    }
  }
}

}  // namespace reprise::detail
