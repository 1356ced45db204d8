#include <reprise/strategies.hpp>

#include "base/describe.hpp"

#include <array>

namespace reprise {
namespace {

template <class... Kinds>
auto selector_kinds(StrategyList<Kinds...> /*all*/) {
  return std::array{Kinds::selector_kind()...};
}
template <class... Kinds>
auto remover_kinds(StrategyList<Kinds...> /*all*/) {
  return std::array{Kinds::remover_kind()...};
}

}  // namespace

std::span<const StrategyKind<Selector>> selectors() noexcept {
  static const auto kKinds = selector_kinds(SelectorList());
  return kKinds;
}
std::span<const StrategyKind<Remover>> removers() noexcept {
  static const auto kKinds = remover_kinds(RemoverList());
  return kKinds;
}

template class StrategyKind<Selector>;
template class StrategyKind<Remover>;

}  // namespace reprise
