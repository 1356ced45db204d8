#include "base/life.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <unistd.h>
#define REPRISE_HAS_FORK 1
#else
#define REPRISE_HAS_FORK 0
#endif

namespace reprise::base {
namespace {

/// Forks that lie behind this process, from the first `Life` on.
constinit std::atomic<std::uint32_t> forks{0};

/// `forks`, with the handler installed.
const std::atomic<std::uint32_t>& counted_forks() {
#if REPRISE_HAS_FORK
  // A library that is unloaded takes its handler with it.
  static const bool installed = [] {
    const auto count = [] { forks.fetch_add(1, std::memory_order_relaxed); };
    if (::pthread_atfork(nullptr, nullptr, count) != 0) {
      throw std::bad_alloc();
    }
    return true;
  }();
  static_cast<void>(installed);
#endif
  return forks;
}

std::int64_t process_id() noexcept {
#if REPRISE_HAS_FORK
  return ::getpid();
#else
  return 0;
#endif
}

}  // namespace

Life::Life()
    : forks_(counted_forks()),
      made_at_(forks_.load(std::memory_order_relaxed)),
      maker_(process_id()) {}

void Life::close() noexcept {
  if (forked()) {
    return;
  }
  // C1: release; partner: closed. The flag comes first, then the wakes (I11): a sleeper whose
  // ticket is older than the wake does not sleep, and one with a later ticket sees the flag (E2).
  // An event that is registered too late for the wakes is so after the flag, by the mutex.
  closed_.store(1, Order::Release);
  const MutexLock lock(mutex_);
  for (Event* const event : events_) {
    event->wake_all();
  }
}

Life::WokenByClose::WokenByClose(Life& life, Event& event) : life_(life), event_(event) {
  const MutexLock lock(life_.mutex_);
  life_.events_.push_back(&event_);
}

Life::WokenByClose::~WokenByClose() {
  if (life_.forked()) {
    return;  // The mutex may be held for ever.
  }
  const MutexLock lock(life_.mutex_);
  life_.events_.erase(std::find(life_.events_.begin(), life_.events_.end(), &event_));
}

void Life::refuse() const {
  throw std::logic_error(base::text("the replay buffer was made in process ", maker_,
                                    " and is used in process ", process_id(),
                                    ", a fork of it: make the buffer after the fork"));
}

}  // namespace reprise::base
