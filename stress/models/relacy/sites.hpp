#pragma once

#include "base/sync.hpp"

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace reprise::model {

/// Kinds of access to an atomic. A compare-exchange has one memory order for success and another
/// for failure, so it is two accesses.
enum class Access : std::uint8_t { Load, Store, Modify, Exchanged, NotExchanged };

/// One atomic operation in the source, found by running the scenarios.
struct Site {
  std::source_location where;
  Access access{};
  base::Order order{};
  std::uint64_t scenarios = 0;  ///< A bit for each scenario that ran this operation.
};

/// One site with a memory order one step weaker.
struct OrderMutant {
  std::size_t site;
  base::Order weaker;
};

/// Returns the memory order to use at this place: that of the source, or a weaker one if the place
/// is the mutant.
base::Order order_at(const std::source_location& where, Access access, base::Order order) noexcept;

/// Sets the index of the scenario that runs next, which is noted at each site that it meets.
void enter_scenario(std::size_t index) noexcept;

/// Sets the mutant whose memory order is weakened from now on; null: all orders are as written.
void set_order_mutant(const OrderMutant* mutant) noexcept;

[[nodiscard]] std::span<const Site> sites() noexcept;
/// Returns a mutant for each way to weaken the order of a site by one step.
[[nodiscard]] std::vector<OrderMutant> order_mutants();
[[nodiscard]] std::string describe(const Site& site);
[[nodiscard]] std::string describe(const OrderMutant& mutant);

}  // namespace reprise::model
