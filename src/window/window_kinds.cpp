#include <reprise/window.hpp>

#include "base/describe.hpp"

#include <array>
#include <type_traits>
#include <variant>

namespace reprise {
namespace {

/// The kinds in the order of the variant, because `Window::index` is a place in the list.
template <class... Kinds>
std::array<StrategyKind<Window>, sizeof...(Kinds)> kinds_of(
    std::type_identity<std::variant<Kinds...>> /*windows*/) {
  return {Kinds::window_kind()...};
}

}  // namespace

std::span<const StrategyKind<Window>> windows() noexcept {
  static const std::array kKinds = kinds_of(std::type_identity<Window>());
  return kKinds;
}

template class StrategyKind<Window>;

}  // namespace reprise
