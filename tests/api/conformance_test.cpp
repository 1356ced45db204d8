#include "../support/conformance.hpp"

#include <reprise/reprise.hpp>

#include "../support/scale.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>

namespace reprise::test {
namespace {

using Combination = std::tuple<NamedSelector, NamedRemover, NamedWindow, NamedLimiter>;

class EveryCombination : public testing::TestWithParam<Combination> {};

std::string name_of_combination(const testing::TestParamInfo<Combination>& info) {
  const auto& [selector, remover, window, limiter] = info.param;
  return selector.name + "_" + remover.name + "_" + window.name + "_" + limiter.name;
}

INSTANTIATE_TEST_SUITE_P(Conformance, EveryCombination,
                         testing::Combine(testing::ValuesIn(all_selectors()),
                                          testing::ValuesIn(all_removers()),
                                          testing::ValuesIn(all_windows()),
                                          testing::ValuesIn(all_limiters())),
                         name_of_combination);

TEST_P(EveryCombination, KeepsWhatEachPartPromises) {
  const auto& [selector, remover, window, limiter] = GetParam();
  for (std::uint64_t seed = 1; seed <= scaled(5) && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Conformance(selector, remover.remover, window.strategy, limiter.strategy, seed).run(150);
  }
}

}  // namespace
}  // namespace reprise::test
