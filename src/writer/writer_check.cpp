#include "base/text.hpp"
#include "writer/writer_core.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace reprise::writer {
namespace {

/// The place of the first value that is NaN or infinite; `count` if there is none. Bits is signed:
/// vectors of the least instruction set compare no other integers.
template <class Float, class Bits>
std::size_t first_wild(const void* values, std::size_t count) noexcept {
  const auto wild = [values](std::size_t i) {
    Bits bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(values) + i * sizeof(bits), sizeof(bits));
    return (bits & std::numeric_limits<Bits>::max()) >=
           std::bit_cast<Bits>(std::numeric_limits<Float>::infinity());
  };
  // All of them first, without a way out: that compiles to vectors.
  Bits any = 0;
  for (std::size_t i = 0; i < count; ++i) {
    any |= static_cast<Bits>(wild(i));
  }
  std::size_t i = any == 0 ? count : 0;
  while (i < count && !wild(i)) {
    ++i;
  }
  return i;
}

}  // namespace

void WriterCore::check_end(End end) {
  if (end > End::Truncated) {
    throw std::invalid_argument("Writer::commit: end is " +
                                std::to_string(static_cast<unsigned>(end)) +
                                "; allowed: Continue (0), Terminated (1), Truncated (2)");
  }
}

void WriterCore::check_commit(End end, std::span<const float> priorities) const {
  check_end(end);
  check_process();
  check_step();
  if (finite_) {
    check_finite();
  }
  if (!priorities.empty() || needs_priorities_) {
    check_priorities(completing(end), priorities);
  }
}

std::size_t WriterCore::check_episode(std::size_t steps, End end,
                                      std::span<const float> priorities) const {
  check_end(end);
  const bool ends = end != End::Continue;
  const std::size_t decided = ends ? steps : steps - std::min<std::size_t>(steps, ahead_ - 1);
  std::size_t items = every_step_ ? decided : 0;
  for (std::size_t position = 0; !every_step_ && position < decided; ++position) {
    const std::size_t length = std::min<std::size_t>(ahead_, steps - position);
    items += core_->window().begins_item(position, static_cast<std::uint32_t>(length),
                                         ends && position + length == steps)
                 ? 1U
                 : 0U;
  }
  check_priorities(items, priorities);
  return items;
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

/// The current step's rewards and next observations. Its own observations were the next ones of the
/// step before, but for the first step of an episode.
void WriterCore::check_finite() const {
  const std::span<const FieldSpec> specs = core_->schema().fields();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool observation = specs[i].role == Role::Observation;
    if (specs[i].role == Role::Reward || (observation && position_ == 0)) {
      check_finite(false, i, rows[kNow] + fields[i].offset);
    }
    if (observation) {
      check_finite(true, i, rows[kNext] + fields[i].offset);
    }
  }
}

void WriterCore::check_finite(bool next, std::size_t field, const void* values) const {
  const FieldSpec& spec = core_->schema().fields()[field];
  const bool is_float = spec.dtype == DType::F32;
  if (!is_float && spec.dtype != DType::F64) {
    return;
  }
  const std::size_t wild = is_float ? first_wild<float, std::int32_t>(values, spec.elements)
                                    : first_wild<double, std::int64_t>(values, spec.elements);
  if (wild == spec.elements) {
    return;
  }
  const std::size_t bytes = spec.bytes / spec.elements;
  double value = 0.0;
  float narrow = 0.0F;
  const auto* const at = static_cast<const std::byte*>(values) + wild * bytes;
  std::memcpy(is_float ? static_cast<void*>(&narrow) : &value, at, bytes);
  throw std::invalid_argument(base::text(
      "Writer::commit: field '", spec.name, "' of the ", next ? "next" : "current", " step is ",
      is_float ? static_cast<double>(narrow) : value, " at element ", wild, ", in step ", position_,
      " of episode ", episode_, "; allowed: finite (Schema::require_finite)"));
}

/// Of `add_transition`, before anything is changed.
void WriterCore::check_finite(std::span<const detail::RawValue> values) const {
  for (const detail::RawValue& value : values) {
    const Role role = core_->schema().fields()[value.index].role;
    if (role == Role::Observation || role == Role::Reward) {
      check_finite(value.next, value.index, value.data);
    }
  }
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
    for (const auto& rule : core_->selectors().rules()) {
      if (!rule->weighable(priority)) {
        throw std::invalid_argument(
            "Writer::commit: priorities[" + std::to_string(i) + "] is " + base::text(priority) +
            "; allowed: a priority whose weight (priority + epsilon)^alpha is finite");
      }
    }
  }
}

}  // namespace reprise::writer
