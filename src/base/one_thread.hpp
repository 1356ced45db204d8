#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

namespace reprise::base {

/// Detects, in REPRISE_DCHECK builds, two threads inside one object that belongs to one thread at a
/// time. Objects may move between threads; calls may not overlap.
class OneThread {
 public:
  class Inside {
   public:
    Inside(OneThread& one, const char* what) : one_(one) {
      // Relaxed: only overlap matters, and no data is passed on.
      if (kDetects && one_.inside_.exchange(true, std::memory_order_relaxed)) {
        throw std::logic_error(std::string(what) + ": used by a second thread at the same time");
      }
    }
    ~Inside() {
      if (kDetects) {
        one_.inside_.store(false, std::memory_order_relaxed);
      }
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    OneThread& one_;
  };

 private:
#if defined(REPRISE_DCHECK)
  static constexpr bool kDetects = true;
#else
  static constexpr bool kDetects = false;
#endif
  std::atomic<bool> inside_{false};
};

}  // namespace reprise::base
