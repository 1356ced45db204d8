#pragma once

#include "base/sync.hpp"

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace reprise::model {

/// How an atomic is accessed. A compare-exchange has a memory order for success and one for
/// failure.
enum class Access : std::uint8_t { Load, Store, Modify, Exchanged, NotExchanged };

/// One atomic operation in the source, found by running the scenarios.
struct Site {
  std::source_location where;
  Access access{};
  base::Order order{};
  std::uint64_t scenarios = 0;  ///< One bit for each scenario that met it.
};

/// One site with a memory order one step weaker.
struct OrderMutant {
  std::size_t site;
  base::Order weaker;
};

/// The memory order to use at this site: that of the source, unless the site is the mutant.
base::Order order_at(const std::source_location& where, Access access, base::Order order) noexcept;

/// Sets the scenario that runs next; sites remember it.
void enter_scenario(std::size_t index) noexcept;

/// Sets the memory order that is weakened from now on. None: nothing is weakened.
void set_order_mutant(const OrderMutant* mutant) noexcept;

[[nodiscard]] std::span<const Site> sites() noexcept;
/// Every site with every memory order one step weaker.
[[nodiscard]] std::vector<OrderMutant> order_mutants();
[[nodiscard]] std::string describe(const Site& site);
[[nodiscard]] std::string describe(const OrderMutant& mutant);

}  // namespace reprise::model
