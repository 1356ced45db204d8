#pragma once

#include <reprise/strategies.hpp>

#include <type_traits>
#include <variant>

namespace reprise::test {

/// A value beside the usual one, and above the least.
inline OptionValue another(const StrategyOption& option) {
  return std::visit(
      [&]<class T>(T usual) -> OptionValue {
        const T more = usual + (std::is_floating_point_v<T> ? T(0.25) : T(1));
        return more <= std::get<T>(option.most) ? more : static_cast<T>(usual / 2);
      },
      option.usual);
}

}  // namespace reprise::test
