#pragma once

#include "base/memory.hpp"
#include "base/sync.hpp"

#include <cstdint>

namespace reprise::buffer {

/// Whether a buffer is open or closed, and whether this is still the process that made it. Any
/// thread.
///
/// A forked child has a copy of every lock but not the threads that held them, so whoever locks or
/// waits there may do so for ever. The word lives on a page that the system zeroes in a child: to
/// notice the fork costs no more than to notice that the buffer is closed. Where the system has no
/// such pages (before Linux 4.14), calls that may wait ask for the process id instead.
class Life {
 public:
  /// std::bad_alloc if there is no page to be had. With `wipe` false as on a system that cannot
  /// wipe it.
  explicit Life(bool wipe = true);

  /// C1: acquire; partner: close. What the closer did before is seen by whoever sees it closed.
  [[nodiscard]] bool closed() const noexcept {
    return word().load(base::Order::Acquire) == kClosed;
  }
  /// C1: release; partner: closed. Not in a forked child, which would read as closed then.
  void close() noexcept { word().store(kClosed, base::Order::Release); }

  /// Whether this is a forked child, as far as a load tells. Relaxed: the child begins with one
  /// thread, and the page never changes later.
  [[nodiscard]] bool forked_by_page() const noexcept {
    return word().load(base::Order::Relaxed) == kForked;
  }
  /// Whether this is a forked child; a system call where there are no such pages.
  [[nodiscard]] bool forked() const noexcept {
    return forked_by_page() || (!wiped_ && process_id() != maker_);
  }

  /// std::logic_error in a forked child, naming both processes and what to do.
  void check() const {
    if (forked()) {
      refuse();
    }
  }
  void check_page() const {
    if (forked_by_page()) {
      refuse();
    }
  }

 private:
  using Word = base::StdSync::Atomic<std::uint32_t>;
  static constexpr std::uint32_t kForked = 0;  ///< What a wiped page says.
  static constexpr std::uint32_t kOpen = 1;
  static constexpr std::uint32_t kClosed = 2;

  static std::int64_t process_id() noexcept;
  [[noreturn]] void refuse() const;
  [[nodiscard]] Word& word() const noexcept { return *word_; }

  base::Region page_;
  Word* const word_;  ///< On the page.
  const bool wiped_;
  const std::int64_t maker_;
};

}  // namespace reprise::buffer
