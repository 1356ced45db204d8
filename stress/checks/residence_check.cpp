#include "checks/residence_check.hpp"

#include <reprise/rate_limiter.hpp>
#include <reprise/remover.hpp>

#include "checks/limiter_check.hpp"
#include "testing/library.hpp"

namespace stress {

void ResidenceCheck::expect(bool holds, Finding finding, const std::string& words) {
  if (!holds) {
    shared_.findings.add(finding, words);
  }
}

void ResidenceCheck::check_while_running() {
  if (shared_.options.remove) {
    return;  // Removed items still fill the capacity, but `size` omits them.
  }
  const std::uint64_t size = shared_.replay.size();
  const std::uint64_t capacity = shared_.options.capacity_steps;
  full_ = full_ || size >= capacity;
  if (full_) {
    residence_.min_used = std::min(residence_.min_used, capacities(size));
    expect(size == capacity, Finding::AccountingError,
           "the buffer was full, and has " + std::to_string(size) + " of " +
               std::to_string(capacity) + " steps");
  }
}

bool ResidenceCheck::bounds_age() const {
  return shared_.strategies.remover.target<reprise::Fifo>() != nullptr &&
         !shared_.options.exhausts();
}

void ResidenceCheck::check_quiescent(const reprise::Stats& stats) {
  const Arrivals::Ages ages = shared_.arrivals.take_ages();
  residence_.oldest_drawn = std::max(residence_.oldest_drawn, capacities(ages.oldest));
  residence_.drawn += bounds_age() ? ages.items : 0;
  residence_.drawn_too_old += bounds_age() ? ages.too_old : 0;
  check_while_running();
  // Each resident step begins an item that can be drawn, unless no sequence begins with the step,
  // or its item is exhausted or removed.
  if (shared_.windows.sequences() == nullptr && !shared_.options.exhausts() &&
      !shared_.options.remove) {
    expect(stats.items == stats.resident_steps, Finding::AccountingError,
           std::to_string(stats.items) + " items can be drawn, of " +
               std::to_string(stats.resident_steps) + " steps");
  }
}

double ResidenceCheck::room() const {
  const double writers = shared_.max_writers();
  const double booked = writers * block_size(shared_.strategies.limiter, writers);
  const auto* const ratio = std::get_if<reprise::SampleToInsertRatio>(&shared_.strategies.limiter);
  return booked + (ratio != nullptr ? ratio->error_buffer / ratio->samples_per_insert : 0.0);
}

/// If the limiter is a queue and the draws go oldest first, each item is drawn before it leaves.
/// With a ratio, samplers that draw as many fresh items as arrive miss only items from before their
/// first draw; twice their number is allowed.
std::optional<double> ResidenceCheck::max_undrawn() const {
  const Strategies& strategies = shared_.strategies;
  const auto capacity = static_cast<double>(shared_.options.capacity_steps);
  if (const auto* const queue = std::get_if<reprise::Queue>(&strategies.limiter)) {
    const double open = shared_.max_writers() * (shared_.windows.full_length() - 1);
    const bool lossless = strategies.draw_rule == DrawRule::Oldest && !shared_.options.remove &&
                          !shared_.options.max_staleness &&
                          shared_.windows.sequences() == nullptr &&
                          capacity >= static_cast<double>(queue->size) + room() + open;
    return lossless ? std::optional(0.0) : std::nullopt;
  }
  if (const auto* const ratio = std::get_if<reprise::SampleToInsertRatio>(&strategies.limiter)) {
    const auto batch = static_cast<double>(shared_.options.batch);
    const double fresh = std::max(1.0, std::round(batch * double{strategies.fresh})) / batch;
    const double most = 2.0 * (static_cast<double>(ratio->min_size) + room());
    const bool in_turn = bounds_age() && strategies.fresh != 0.0F &&
                         fresh * ratio->samples_per_insert >= 1.0 && capacity >= most;
    return in_turn ? std::optional(most) : std::nullopt;
  }
  return std::nullopt;
}

void ResidenceCheck::check_at_end(const reprise::Stats& stats, LastAppends last) {
  check_quiescent(stats);
  const Arrivals::Items items =
      shared_.arrivals.scan([&](std::uint64_t episode, std::uint64_t position) {
        return shared_.replay.episodes().find(episode, position).has_value();
      });
  residence_.oldest = std::max(residence_.oldest, capacities(items.oldest));
  residence_.left += items.gone.items;
  residence_.never_drawn += items.gone.never_drawn;
  check_ages(items, last);
  check_found(items, stats);
  check_undrawn(items);
}

/// Shards evict too late while a thread holds their lock (I13). What one thread appends alone makes
/// up for it. Else the limiter lets writers get at most room() steps ahead of the samplers, which
/// lock all shards and evict.
void ResidenceCheck::check_ages(const Arrivals::Items& items, LastAppends last) {
  const std::uint64_t ahead =
      last == LastAppends::OfOneThread ? 0 : static_cast<std::uint64_t>(room());
  const std::uint64_t oldest = shared_.max_item_age() + ahead;
  expect(!bounds_age() || items.oldest <= oldest, Finding::TooOld,
         "an item is " + std::to_string(items.oldest) + " steps old, of " + std::to_string(oldest) +
             " allowed");
}

/// Episodes find exhausted items too, which stats.items omits, so buffers with such items are left
/// out. Where removers keep items, `arrivals` may have forgotten some, so fewer may be found.
void ResidenceCheck::check_found(const Arrivals::Items& items, const reprise::Stats& stats) {
  if (!items.all || shared_.options.exhausts()) {
    return;
  }
  const bool knows_all = bounds_age() && shared_.options.guests == 0;
  expect(knows_all ? items.present == stats.items : items.present <= stats.items,
         Finding::AccountingError,
         std::to_string(items.present) + " items are found by their episodes, of " +
             std::to_string(stats.items));
}

void ResidenceCheck::check_undrawn(const Arrivals::Items& items) {
  expect(shared_.options.max_staleness || items.first_undrawn > shared_.arrivals.last_pass(),
         Finding::NeverDrawn, "by a whole pass, since which it has been there");
  const auto most = max_undrawn();
  expect(!most || static_cast<double>(items.gone.never_drawn) <= *most, Finding::NeverDrawn,
         std::to_string(items.gone.never_drawn) + " of " + std::to_string(items.gone.items) +
             " that left, " + std::to_string(most.value_or(0.0)) + " are allowed");
}

void ResidenceCheck::check_all_turns() {
  // Samplers wait by turns only if a batch takes something away from the others: the limiter's
  // permission, or draws of a limited number.
  if (shared_.strategies.may_hold_writers() || shared_.options.max_times_sampled != 0) {
    check_turns(shared_.samplers, 0, "samplers", residence_.samplers);
  }
  check_turns(shared_.writers, shared_.replay.stats().writers_for_chunk.waits, "writers",
              residence_.writers);
}

/// A few waits (8, and 2 %) in which the limiter let others go on too often are no fault, because a
/// thread that may go on can wait for a mutex before it does. Neither are waits for a chunk, where
/// there are no turns.
void ResidenceCheck::check_turns(const Turns& turns, std::uint64_t chunk_waits, const char* who,
                                 Residence::Waits& waits) {
  const std::uint64_t count = turns.waits.load(std::memory_order_relaxed);
  const std::uint64_t passed_over = turns.passed_over.load(std::memory_order_relaxed);
  const std::uint64_t max_let_in = turns.max_let_in.load(std::memory_order_relaxed);
  waits.count += count;
  waits.max_let_in = std::max(waits.max_let_in, max_let_in);
  expect(passed_over <= 8 + count / 50 + chunk_waits, Finding::PassedOver,
         std::to_string(passed_over) + " of " + std::to_string(count) + " waits of " + who +
             ", during which others were let in more than " + std::to_string(turns.max_allowed) +
             " times, once " + std::to_string(max_let_in));
}

void ResidenceCheck::check_totals(const Residence& residence, Findings& findings) {
  constexpr std::uint64_t kFew = 10'000;
  if (residence.drawn_too_old > kFew / 8 + residence.drawn / 8) {
    findings.add(Finding::TooOld, std::to_string(residence.drawn_too_old) + " of " +
                                      std::to_string(residence.drawn) + " drawn items are");
  }
}

}  // namespace stress
