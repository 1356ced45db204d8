#pragma once

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "options.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stress {

/// Discount per step of every run.
inline constexpr float kDiscount = 0.99F;

/// Judges sampled windows by the laws of the world. One thread at a time.
///
/// Once `closing` is set, episodes may end as truncated before their time: the writers' answer
/// to `close`, which a draw in flight may still see.
class WindowCheck {
 public:
  WindowCheck(const World& world, const Options& options, const std::atomic<bool>& closing,
              Findings& findings);

  /// Reports what is wrong; tells which item is which. Valid until the next call.
  std::span<const Judged> check(const Drawn& drawn);

 private:
  /// Every frame of one stack is legible; the newest says what the others have to be.
  bool stack_is_true(const Drawn& drawn, const Strided<std::uint8_t>& stacks, std::size_t item,
                     Identity& newest);
  Judged judge(const Drawn& drawn, std::size_t item);
  /// In words, what is wrong with a legible item; empty if nothing.
  [[nodiscard]] std::string lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                const Identity& next) const;
  [[nodiscard]] std::string numbers_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                        std::uint32_t length) const;

  const World world_;
  const Checks checks_;
  const std::uint32_t n_step_;
  const std::atomic<bool>& closing_;
  Findings& findings_;
  std::vector<Judged> judged_;
};

}  // namespace stress
