#include <reprise/window.hpp>

#include "base/text.hpp"

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

template <class... Parts>
void require(bool ok, Parts... parts) {
  base::require(ok, base::Call{"sequence_priorities"}, parts...);
}

float priority_of(std::span<const float> errors, double eta) noexcept {
  if (errors.empty()) {
    return 0.0F;
  }
  double largest = 0.0;
  double sum = 0.0;  // A sum keeps a NaN, which a maximum may lose.
  for (const float error : errors) {
    const double absolute = std::abs(static_cast<double>(error));
    largest = std::max(largest, absolute);
    sum += absolute;
  }
  return static_cast<float>(eta * largest + (1.0 - eta) * sum / static_cast<double>(errors.size()));
}

}  // namespace

void sequence_priorities(std::span<const float> td_errors, std::span<const std::uint32_t> lengths,
                         std::span<float> priorities, const SequencePriorityOptions& options) {
  const auto& [eta, burn_in] = options;
  require(eta >= 0.0F && eta <= 1.0F, "eta is ", eta, "; allowed: 0 to 1");
  require(priorities.size() == lengths.size(), lengths.size(), " lengths and ", priorities.size(),
          " priorities; allowed: equal counts");
  if (lengths.empty()) {
    require(td_errors.empty(), td_errors.size(), " errors and 0 lengths; allowed: 0 errors");
    return;
  }
  require(td_errors.size() % lengths.size() == 0, td_errors.size(), " errors and ", lengths.size(),
          " lengths; allowed: T errors for each length");
  const std::size_t steps = td_errors.size() / lengths.size();
  require(burn_in <= steps, "burn_in is ", burn_in, "; allowed: 0 to T = ", steps);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require(lengths[i] <= steps, "lengths[", i, "] is ", lengths[i], "; allowed: 0 to T = ", steps);
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::size_t last = std::max<std::size_t>(lengths[i], burn_in);
    priorities[i] = priority_of(td_errors.subspan(i * steps + burn_in, last - burn_in), eta);
  }
}

}  // namespace reprise
