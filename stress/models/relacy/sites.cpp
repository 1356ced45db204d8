#include "sites.hpp"

#include <array>
#include <cstdlib>
#include <cstring>

namespace reprise::model {
namespace {

using base::Order;

/// The memory order at a source location. Entries are found by the address of the file's name and
/// by numbers, so that the many operations of a search compare no strings. The cache is cleared
/// when the mutant or the scenario changes.
struct Cached {
  const char* file = nullptr;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  Access access{};
  Order order{};
};
constexpr std::size_t kCached = 1024;
constexpr std::size_t kMaxSites = 256;

std::array<Cached, kCached> cache;
const OrderMutant* active_mutant = nullptr;
std::size_t current_scenario = 0;

/// An array, because Relacy would take a vector's allocations for those of the scenario.
std::array<Site, kMaxSites> found_sites;
std::size_t site_count = 0;

bool same(const Site& site, const std::source_location& where, Access access) {
  return site.access == access && site.where.line() == where.line() &&
         site.where.column() == where.column() &&
         std::strcmp(site.where.file_name(), where.file_name()) == 0;
}

/// Returns the order to use at a site, and notes that the current scenario ran it.
Order order_of_site(const std::source_location& where, Access access, Order order) noexcept {
  std::size_t index = 0;
  while (index < site_count && !same(found_sites[index], where, access)) {
    ++index;
  }
  if (index == site_count) {
    if (index == kMaxSites) {
      std::abort();
    }
    found_sites[site_count++] = {where, access, order, 0};
  }
  found_sites[index].scenarios |= std::uint64_t{1} << current_scenario;
  return active_mutant != nullptr && active_mutant->site == index ? active_mutant->weaker : order;
}

std::vector<Order> weaker_orders(Access access, Order order) {
  switch (order) {
    case Order::SeqCst:
      if (access == Access::Load || access == Access::NotExchanged) {
        return {Order::Acquire};
      }
      return {access == Access::Store ? Order::Release : Order::AcqRel};
    case Order::AcqRel:
      return {Order::Acquire, Order::Release};
    case Order::Acquire:
    case Order::Release:
      return {Order::Relaxed};
    case Order::Relaxed:
      break;
  }
  return {};
}

const char* name(Order order) {
  constexpr std::array<const char*, 5> kNames{"relaxed", "acquire", "release", "acq_rel",
                                              "seq_cst"};
  return kNames[static_cast<std::size_t>(order)];
}

const char* name(Access access) {
  constexpr std::array<const char*, 5> kNames{"load", "store", "modify", "exchange",
                                              "failed exchange"};
  return kNames[static_cast<std::size_t>(access)];
}

}  // namespace

Order order_at(const std::source_location& where, Access access, Order order) noexcept {
  const std::uint32_t line = where.line();
  const std::uint32_t column = where.column();
  const char* const file = where.file_name();
  std::size_t slot = (line * 37U + column * 5U + static_cast<std::size_t>(access)) % kCached;
  for (;; slot = (slot + 1) % kCached) {
    Cached& entry = cache[slot];
    if (entry.file == file && entry.line == line && entry.column == column &&
        entry.access == access) {
      return entry.order;
    }
    if (entry.file == nullptr) {
      entry = {file, line, column, access, order_of_site(where, access, order)};
      return entry.order;
    }
  }
}

void enter_scenario(std::size_t index) noexcept {
  current_scenario = index;
  cache.fill({});
}

void set_order_mutant(const OrderMutant* mutant) noexcept {
  active_mutant = mutant;
  cache.fill({});
}

std::span<const Site> sites() noexcept {
  return std::span(found_sites).first(site_count);
}

std::vector<OrderMutant> order_mutants() {
  std::vector<OrderMutant> mutants;
  for (std::size_t i = 0; i < sites().size(); ++i) {
    for (const Order weaker : weaker_orders(sites()[i].access, sites()[i].order)) {
      mutants.push_back({i, weaker});
    }
  }
  return mutants;
}

std::string describe(const Site& site) {
  const std::string path = site.where.file_name();
  const std::string signature = site.where.function_name();
  const std::string qualified = signature.substr(0, signature.find('('));
  std::string text = path.substr(path.rfind('/', path.rfind('/') - 1) + 1);
  text += ":" + std::to_string(site.where.line());
  // The name includes the class.
  text += " " + qualified.substr(qualified.rfind(':', qualified.rfind(':') - 2) + 1);
  text += std::string(" ") + name(site.access);
  return text + " " + name(site.order);
}

std::string describe(const OrderMutant& mutant) {
  return describe(sites()[mutant.site]) + " -> " + name(mutant.weaker);
}

}  // namespace reprise::model
