#pragma once

#include "account.hpp"
#include "findings.hpp"
#include "reprise_store.hpp"
#include "scene.hpp"
#include "wait_watch.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace stress {

/// How long items stayed, and how long threads waited. Ages are in capacities.
struct Residence {
  double oldest_drawn = 0.0;  ///< Of the items drawn.
  double oldest = 0.0;        ///< Of those that were there at the end of a buffer.
  double least_used = 1.0;    ///< Share of the capacity, once a buffer was full.
  std::uint64_t left = 0;     ///< Items.
  std::uint64_t never_drawn = 0;
  /// Waits for the rate limiter, and the most times that others were let in during one.
  std::uint64_t sampler_waits = 0;
  std::uint64_t sampler_passed = 0;
  std::uint64_t writer_waits = 0;
  std::uint64_t writer_passed = 0;
};

/// Judges how old items become (I13), how much of the capacity is in use, which items are never
/// drawn, and how often others were let in while somebody waited (I12). One thread.
///
/// Ages are promised of `Fifo` without a limit of draws. Other removers keep what is drawn, or what
/// weighs much, for as long as that is so, and exhausted items go before older ones.
class ResidenceCheck {
 public:
  /// `residence`: takes the figures.
  ResidenceCheck(Scene& scene, Residence& residence) : scene_(scene), residence_(residence) {}

  /// Call it from time to time while others run.
  void in_passing();
  /// Call it while all stand still and everything is ingested. `alone`: since the last call one
  /// thread alone appended so much that all that had been there could leave.
  void at_rest(const Account& account, bool alone);
  /// As `at_rest`, and the last call but for `turns`. `store` is that of the scene.
  void at_end(const Account& account, bool alone);
  /// Call it once the threads are gone.
  void turns();

 private:
  void expect(bool holds, Finding finding, const std::string& words);
  [[nodiscard]] bool promises_age() const;
  void check_age(std::uint64_t age, bool alone, const char* what);
  /// The most items that may leave without ever having been drawn, of so many; none: any.
  [[nodiscard]] std::optional<double> most_undrawn(double left) const;
  /// Steps that others may append while a thread that holds a lock gets no processor.
  [[nodiscard]] std::uint64_t allowance() const { return 2 * scene_.arrivals.longest_busy(); }
  void check_turns(const Passed& passed, const char* who);
  [[nodiscard]] double capacities(std::uint64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(scene_.options.capacity_steps);
  }

  Scene& scene_;
  Residence& residence_;
  bool full_ = false;
};

}  // namespace stress
