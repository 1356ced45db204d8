#include <reprise/window.hpp>

#include "base/describe.hpp"

#include <array>

namespace reprise {

std::span<const StrategyKind<Window>> windows() noexcept {
  static const std::array kKinds{Transitions::window_kind(), Sequences::window_kind()};
  return kKinds;
}

template class StrategyKind<Window>;

}  // namespace reprise
