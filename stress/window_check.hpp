#pragma once

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "row.hpp"
#include "window_rule.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stress {

/// Discount per step of every run.
inline constexpr float kDiscount = 0.99F;

[[nodiscard]] std::string words_of(const Identity& id);

/// Judges sampled windows by the laws of the world. One thread at a time.
///
/// Once `cutting` is set, episodes may end early as truncated: writers do this at `close`, or at
/// the end of a run that holds them. A draw in flight may still see it.
class WindowCheck {
 public:
  WindowCheck(const World& world, const WindowRule& rule, const std::atomic<bool>& cutting,
              Findings& findings);

  /// Reports faults, and returns the identity of each item. Valid until the next call.
  std::span<const Judged> check(const Drawn& drawn);

 private:
  /// Every frame of one stack is legible; the newest says what the others have to be.
  bool stack_is_true(const Drawn& drawn, std::span<const std::uint8_t> stacks, std::size_t item,
                     Identity& newest);
  Judged judge(const Drawn& drawn, std::size_t item);
  Judged judge_sequence(const Drawn& drawn, std::size_t item);
  /// Which step an item's observation shows; nothing, and a report, if it is torn.
  std::optional<Identity> step_at(const Drawn& drawn, std::span<const std::uint8_t> observations,
                                  std::size_t item, std::size_t step);
  /// An item of so many steps that ends before its episode should: adjusts the episode if it may
  /// have been cut short.
  void cut_short(Judged& judged, std::uint32_t length) const;
  /// Checks the columns that an item has beyond its rows.
  [[nodiscard]] std::string names_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                      std::uint32_t length) const;
  [[nodiscard]] std::string sequence_lies(const Drawn& drawn, std::size_t item,
                                          const Judged& judged, std::uint32_t length) const;
  /// Describes what is wrong with a legible item; empty if nothing is.
  [[nodiscard]] std::string lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                const Identity& next) const;
  [[nodiscard]] std::string numbers_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                        std::uint32_t length) const;

  const World world_;
  const WindowRule rule_;
  const std::atomic<bool>& cutting_;
  Findings& findings_;
  std::vector<Judged> judged_;
};

}  // namespace stress
