#include "window/window_spec.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <stdexcept>

namespace reprise::window {
namespace {

constexpr std::uint32_t kMost = 65535;  // The item header keeps a length in 16 bits.

template <class T>
void require(bool ok, const char* option, T value, const char* allowed) {
  if (!ok) {
    throw std::invalid_argument(base::text(option, " is ", value, "; allowed: ", allowed));
  }
}

void check(const Transitions& window) {
  require(window.n_step >= 1 && window.n_step <= kMost, "Transitions::n_step", window.n_step,
          "1 to 65535");
  require(window.frame_stack >= 1 && window.frame_stack <= kMost, "Transitions::frame_stack",
          window.frame_stack, "1 to 65535");
  require(window.discount >= 0.0F && window.discount <= 1.0F, "Transitions::discount",
          window.discount, "0 to 1");
}

void check(const Sequences& window) {
  require(window.length >= 1 && window.length <= kMost, "Sequences::length", window.length,
          "1 to 65535");
  require(window.period >= 1, "Sequences::period", window.period, "at least 1");
  require(window.burn_in <= kMost - window.length, "Sequences::burn_in", window.burn_in,
          "0 to 65535 - length");
}

bool gives_shorter(const Sequences& window) noexcept {
  return window.end == SequenceEnd::Truncate || window.end == SequenceEnd::ZeroPad;
}

}  // namespace

WindowSpec::WindowSpec(const Window& window) : window_(window) {
  std::visit([](const auto& kind) { check(kind); }, window_);
  if (const Transitions* const kind = transitions()) {
    ahead_ = kind->n_step;
    behind_ = kind->frame_stack - 1;
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

std::uint32_t WindowSpec::item_every() const noexcept {
  const Sequences* const kind = sequences();
  return kind == nullptr || kind->end == SequenceEnd::Overlap ? 1 : kind->period;
}

std::size_t WindowSpec::frames() const noexcept {
  return transitions() != nullptr ? transitions()->frame_stack : ahead_;
}

std::size_t WindowSpec::steps() const noexcept {
  return transitions() != nullptr ? 1 : ahead_;
}

std::uint32_t WindowSpec::min_items(std::uint32_t chunk_rows) const noexcept {
  const std::uint32_t not_items = behind() + context_rows();
  return chunk_rows > not_items ? std::max(1U, (chunk_rows - not_items) / 2) : 1;
}

}  // namespace reprise::window
