#include "base/life.hpp"

#include "base/text.hpp"

#include <pthread.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <utility>

namespace reprise::base {
namespace {

/// How many forks lie between the first process and this one, counted from the first `Life` on.
/// Every commit reads it, so nothing that is written shares its cache line.
struct alignas(kCacheLine) Forks {
  std::atomic<std::uint32_t> count{0};
};
constinit Forks forks;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// Returns the count of forks. The first call installs the handler that counts.
const std::atomic<std::uint32_t>& counted_forks() {
  // With glibc a library that is unloaded takes its handler with it. With another C library it must
  // stay loaded, as a later fork would call the handler.
  static const bool installed = [] {
    const auto count = [] { forks.count.fetch_add(1, std::memory_order_relaxed); };
    if (::pthread_atfork(nullptr, nullptr, count) != 0) {
      throw std::bad_alloc();
    }
    return true;
  }();
  static_cast<void>(installed);
  return forks.count;
}

}  // namespace

Life::Life()
    : forks_(counted_forks()),
      forks_when_made_(forks_.load(std::memory_order_relaxed)),
      creator_pid_(::getpid()) {}

void Life::close() noexcept {
  if (forked()) {
    return;
  }
  // C1: release; partner: closed. The flag comes first, then the wakes (I11): a sleeper whose
  // ticket is older than the wake does not sleep, and a sleeper with a later ticket sees the flag
  // (E2). A thread that registers an event too late for the wakes takes the mutex later, and sees
  // the flag.
  closed_.store(1, Order::Release);
  const MutexLock lock(mutex_);
  for (const WokenByClose* woken = first_; woken != nullptr; woken = woken->next_) {
    woken->event_.wake_all();
  }
}

Life::WokenByClose::WokenByClose(Life& life, Event& event) noexcept : life_(life), event_(event) {
  const MutexLock lock(life_.mutex_);
  next_ = std::exchange(life_.first_, this);
}

Life::WokenByClose::~WokenByClose() {
  if (life_.forked()) {
    return;  // In the child the mutex may be locked for ever.
  }
  const MutexLock lock(life_.mutex_);
  WokenByClose** at = &life_.first_;
  while (*at != this) {
    at = &(*at)->next_;
  }
  *at = next_;
}

void Life::throw_forked() const {
  throw std::logic_error(
      base::text("the replay buffer was made in process ", creator_pid_, " and is used in process ",
                 ::getpid(),
                 ", a fork of it: make the buffer after the fork, or share it in "
                 "the process that has it (`Host`, in Python `share`) and "
                 "`attach` in this one"));
}

}  // namespace reprise::base
