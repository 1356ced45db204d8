#include "figures.hpp"

#include "options.hpp"
#include "tally.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace stress {

double median(std::span<const Tally> runs, const Figure& figure) {
  std::vector<double> values;
  for (const Tally& run : runs) {
    values.push_back(figure.of(run));
  }
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

const char* name_of(Implementation implementation) noexcept {
  return implementation == Implementation::Reprise ? "reprise" : "textbook";
}

}  // namespace stress
