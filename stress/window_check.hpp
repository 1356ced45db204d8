#pragma once

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "row.hpp"
#include "window_rule.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stress {

/// Discount per step of every run.
inline constexpr float kDiscount = 0.99F;

[[nodiscard]] std::string words_of(const Identity& id);

/// Judges sampled windows by the laws of the world. One thread at a time.
///
/// Once `cutting` is set, episodes may end early as truncated: writers that are destroyed after
/// `close`, or at the end of a run whose limiter holds them, end them so. A draw in flight may see
/// such an episode.
class WindowCheck {
 public:
  WindowCheck(const World& world, const WindowRule& rule, const std::atomic<bool>& cutting,
              Findings& findings);

  /// Reports faults, and returns the identity of each item. Valid until the next call.
  std::span<const Judged> check(const Drawn& drawn);

 private:
  /// Whether every frame of a stack is legible and is the one that the newest frame implies.
  /// `step`: of a sequence, else 0.
  bool stack_is_true(const Drawn& drawn, std::span<const std::uint8_t> stacks, std::size_t item,
                     std::size_t step, Identity& newest);
  Judged judge(const Drawn& drawn, std::size_t item);
  Judged judge_sequence(const Drawn& drawn, std::size_t item);
  /// Adjusts the episode of an item of `length` steps if the item ends before the episode should,
  /// and the episode may have been cut short.
  void cut_short(Judged& judged, std::uint32_t length) const;
  /// Checks position, episode id and length of an item. Like the functions below, it describes what
  /// is wrong, and returns an empty string if nothing is.
  [[nodiscard]] std::string names_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                      std::uint32_t length) const;
  [[nodiscard]] std::string sequence_lies(const Drawn& drawn, std::size_t item,
                                          const Judged& judged, std::uint32_t length) const;
  /// Checks the return and the discount of `steps` steps that begin with `first`, at this place of
  /// the batch. `ends`: a termination is among them.
  [[nodiscard]] static std::string target_lies(const Drawn& drawn, std::size_t place,
                                               const Identity& first, std::uint32_t steps,
                                               bool ends, float gamma);
  [[nodiscard]] std::string targets_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                        std::uint32_t length) const;
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
