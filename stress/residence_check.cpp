#include "residence_check.hpp"

#include <reprise/rate_limiter.hpp>
#include <reprise/remover.hpp>

#include "account.hpp"
#include "findings.hpp"
#include "limiter_check.hpp"
#include "options.hpp"
#include "scene.hpp"
#include "strategies.hpp"
#include "wait_watch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace stress {

void ResidenceCheck::expect(bool holds, Finding finding, const std::string& words) {
  if (!holds) {
    scene_.findings.add(finding, words);
  }
}

void ResidenceCheck::in_passing() {
  if (scene_.options.remove) {
    return;  // Removed items count for the capacity, and are not in the size.
  }
  const std::uint64_t size = scene_.store.size();
  const std::uint64_t capacity = scene_.options.capacity_steps;
  expect(size <= capacity && (!full_ || size == capacity), Finding::AccountingError,
         "the buffer was full, and has " + std::to_string(size) + " of " +
             std::to_string(capacity) + " steps");
  full_ = full_ || size >= capacity;
  residence_.least_used =
      full_ ? std::min(residence_.least_used, capacities(size)) : residence_.least_used;
}

bool ResidenceCheck::promises_age() const {
  return scene_.strategies.remover.target<reprise::Fifo>() != nullptr &&
         scene_.options.max_times_sampled == 0;
}

/// A thread that gets no processor while it holds a shard's lock keeps what is in the shard, and
/// others may have to wait behind it for theirs; so beside threads an item may be older by what
/// others append meanwhile. Afterwards old items leave as new ones come, and while one thread
/// appends there is no such allowance.
void ResidenceCheck::check_age(std::uint64_t age, bool alone, const char* what) {
  const std::uint64_t most = scene_.store.oldest_allowed() + (alone ? 0 : allowance());
  expect(!promises_age() || age <= most, Finding::TooOld,
         std::string(what) + " is " + std::to_string(age) + " steps old, of " +
             std::to_string(most) + " allowed");
}

void ResidenceCheck::at_rest(const Account& account, bool alone) {
  const std::uint64_t drawn = scene_.arrivals.take_oldest_drawn();
  residence_.oldest_drawn = std::max(residence_.oldest_drawn, capacities(drawn));
  check_age(drawn, alone, "a drawn item");
  in_passing();
  // A step of a sequence need not begin an item; an exhausted or removed item is none.
  if (scene_.windows.sequences() == nullptr && scene_.options.max_times_sampled == 0 &&
      !scene_.options.remove) {
    expect(account.items == account.resident, Finding::AccountingError,
           std::to_string(account.items) + " items can be drawn, of " +
               std::to_string(account.resident) + " steps");
  }
}

/// A queue in order with room for all gives each item to a sampler before it leaves; but beside
/// threads a writer that finds the locks of other shards taken evicts in its own, what waits there
/// too. With a ratio, a sampler that draws as many fresh items as arrive leaves few but those from
/// before it was made.
std::optional<double> ResidenceCheck::most_undrawn(double left) const {
  const Strategies& strategies = scene_.strategies;
  const auto capacity = static_cast<double>(scene_.options.capacity_steps);
  const double writers = scene_.store.max_writers();
  const double room = block_of(strategies.limiter, writers) * writers;
  if (const auto* const queue = std::get_if<reprise::Queue>(&strategies.limiter)) {
    const double most = static_cast<double>(queue->size) + room +
                        writers * static_cast<double>(scene_.windows.reach() - 1);
    const bool lossless = strategies.drawing == Drawing::Oldest && !scene_.options.remove &&
                          scene_.windows.sequences() == nullptr && capacity >= most;
    const double beside =
        scene_.store.shards() == 1 ? 0.0 : left / 20.0 + static_cast<double>(allowance());
    return lossless ? std::optional(beside) : std::nullopt;
  }
  if (const auto* const ratio = std::get_if<reprise::SampleToInsertRatio>(&strategies.limiter)) {
    const auto batch = static_cast<double>(scene_.options.batch);
    const double fresh = strategies.fresh == 0.0F
                             ? 0.0
                             : std::max(1.0, std::round(batch * double{strategies.fresh})) / batch;
    const double most = static_cast<double>(ratio->min_size) + room +
                        ratio->error_buffer / ratio->samples_per_insert;
    const bool in_turn = strategies.remover.target<reprise::Fifo>() != nullptr &&
                         fresh * ratio->samples_per_insert >= 1.0 && capacity >= 2.0 * most;
    return in_turn ? std::optional(2.0 * most) : std::nullopt;
  }
  return std::nullopt;
}

void ResidenceCheck::at_end(const Account& account, bool alone) {
  at_rest(account, alone);
  RepriseStore& store = scene_.store;
  const Arrivals::Items items =
      scene_.arrivals.look([&](std::uint64_t episode, std::uint64_t position) {
        return store.holds(episode, position);
      });
  residence_.oldest = std::max(residence_.oldest, capacities(items.oldest));
  residence_.left += items.gone.items;
  residence_.never_drawn += items.gone.never_drawn;
  check_age(items.oldest, alone, "an item");
  // Exhausted items are found, and cannot be drawn.
  if (items.all && scene_.options.max_times_sampled == 0) {
    expect(promises_age() ? items.there == account.items : items.there <= account.items,
           Finding::AccountingError,
           std::to_string(items.there) + " items are found by their episodes, of " +
               std::to_string(account.items));
  }
  expect(items.first_undrawn > scene_.arrivals.last_pass(), Finding::NeverDrawn,
         "by a whole pass, since which it has been there");
  const auto most = most_undrawn(static_cast<double>(items.gone.items));
  expect(!most || static_cast<double>(items.gone.never_drawn) <= *most, Finding::NeverDrawn,
         std::to_string(items.gone.never_drawn) + " of " + std::to_string(items.gone.items) +
             " items have left, " + std::to_string(most.value_or(0.0)) + " are allowed");
}

void ResidenceCheck::turns() {
  const Passed& samplers = scene_.store.samplers();
  const Passed& writers = scene_.store.writers();
  residence_.sampler_waits += samplers.waits();
  residence_.sampler_passed = std::max(residence_.sampler_passed, samplers.longest());
  residence_.writer_waits += writers.waits();
  residence_.writer_passed = std::max(residence_.writer_passed, writers.longest());
  // Otherwise a batch takes nothing from anybody, and there are no turns.
  if (scene_.strategies.hold_writers() || scene_.options.max_times_sampled != 0) {
    check_turns(samplers, "samplers");
  }
  check_turns(writers, "writers");
}

/// A thread that waits for a mutex before it stands in line looks as if it had been passed. So a
/// few are no fault.
void ResidenceCheck::check_turns(const Passed& passed, const char* who) {
  expect(passed.too_often() <= 3 + passed.waits() / 20, Finding::PassedOver,
         std::to_string(passed.too_often()) + " of " + std::to_string(passed.waits()) +
             " waits of " + who + ", during which others were let in more than " +
             std::to_string(passed.most()) + " times, once " + std::to_string(passed.longest()));
}

}  // namespace stress
