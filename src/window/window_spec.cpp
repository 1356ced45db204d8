#include "window/window_spec.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace reprise::window {
namespace {

constexpr std::uint32_t kMost = 65535;  // The item header keeps a length in 16 bits.

void check_discount(const char* kind, float discount) {
  base::require(discount >= 0.0F && discount <= 1.0F, kind, "::discount is ", discount,
                "; allowed: 0 to 1");
}

void check_stack(const char* kind, std::uint32_t frames, StackStart start) {
  base::require(frames >= 1 && frames <= kMost, kind, "::frame_stack is ", frames,
                "; allowed: 1 to 65535");
  base::require(start <= StackStart::Zeros, kind, "::stack_start is ", static_cast<unsigned>(start),
                "; allowed: an enumerator of StackStart");
}

void check(const Transitions& window) {
  base::require(window.n_step >= 1 && window.n_step <= kMost, "Transitions::n_step is ",
                window.n_step, "; allowed: 1 to 65535");
  check_discount("Transitions", window.discount);
  check_stack("Transitions", window.frame_stack, window.stack_start);
}

void check(const Sequences& window) {
  base::require(window.length >= 1 && window.length <= kMost, "Sequences::length is ",
                window.length, "; allowed: 1 to 65535");
  base::require(window.period >= 1, "Sequences::period is 0; allowed: at least 1");
  base::require(window.burn_in <= kMost - window.length, "Sequences::burn_in is ", window.burn_in,
                "; allowed: 0 to 65535 - length");
  base::require(window.end <= SequenceEnd::Overlap, "Sequences::end is ",
                static_cast<unsigned>(window.end), "; allowed: an enumerator of SequenceEnd");
  base::require(window.n_step <= kMost, "Sequences::n_step is ", window.n_step,
                "; allowed: 0 to 65535");
  check_discount("Sequences", window.discount);
  check_stack("Sequences", window.frame_stack, window.stack_start);
}

bool gives_shorter(const Sequences& window) noexcept {
  return window.end == SequenceEnd::Truncate || window.end == SequenceEnd::ZeroPad;
}

}  // namespace

WindowSpec::WindowSpec(const Window& window) : window_(window) {
  std::visit([](const auto& kind) { check(kind); }, window_);
  behind_ = std::visit([](const auto& kind) { return kind.frame_stack; }, window_) - 1;
  if (!has_steps()) {
    ahead_ = n_step();
  } else {
    ahead_ = sequences()->burn_in + sequences()->length;
    every_step_ =
        sequences()->period == 1 && sequences()->burn_in == 0 && gives_shorter(*sequences());
  }
}

bool WindowSpec::begins_item(std::uint64_t position, std::uint32_t length,
                             bool ends) const noexcept {
  if (every_step_) {
    return true;
  }
  const Sequences& kind = *sequences();
  const bool whole = length == ahead_;
  if (length <= kind.burn_in) {
    return false;  // Nothing to learn from.
  }
  if (ends && kind.end == SequenceEnd::Overlap && (whole || position == 0)) {
    return true;
  }
  return (whole || gives_shorter(kind)) && position % kind.period == 0;
}

void WindowSpec::check_fields(const Schema& schema) const {
  for (const FieldSpec& field : schema.fields()) {
    base::require(
        !field.traits().per_item || has_steps(), "field '", field.name, "' is a ",
        field.traits().name,
        ", and window is Transitions; allowed: Sequences, of which each item has the state of its "
        "first step; with Transitions Schema::column, which keeps it for every step");
  }
}

std::size_t WindowSpec::values(const RoleTraits& role) const noexcept {
  if (role.per_item) {
    return 1;
  }
  return std::size_t{steps()} * (role.has_next ? behind_ + 1 : 1);
}

std::vector<std::size_t> WindowSpec::dimensions(const RoleTraits& role) const {
  std::vector<std::size_t> dimensions;
  if (has_steps() && !role.per_item) {
    dimensions.push_back(ahead_);
  }
  if (behind_ != 0 && role.has_next) {
    dimensions.push_back(behind_ + 1);
  }
  return dimensions;
}

std::string WindowSpec::min_chunk_rows_in_words() const {
  return has_steps() ? base::text("burn_in + length + frame_stack = ", sequences()->burn_in, " + ",
                                  sequences()->length, " + ", behind_ + 1)
                     : base::text("n_step + frame_stack = ", ahead_, " + ", behind_ + 1);
}

}  // namespace reprise::window

namespace reprise {

bool has_returns(const Window& window) {
  return window::WindowSpec(window).n_step() != 0;
}

std::uint32_t item_every(const Window& window) {
  return window::WindowSpec(window).item_every();
}

std::size_t items_of_episode(const Window& window, std::size_t steps, End end) {
  const window::WindowSpec spec(window);
  const bool ended = end != End::Continue;
  const std::size_t whole = spec.ahead();
  const std::size_t decided = ended ? steps : steps - std::min(steps, whole - 1);
  std::size_t items = 0;
  for (std::size_t position = 0; position < decided; ++position) {
    const std::size_t length = std::min(whole, steps - position);
    items += spec.begins_item(position, static_cast<std::uint32_t>(length),
                              ended && position + length == steps)
                 ? 1U
                 : 0U;
  }
  return items;
}

}  // namespace reprise
