#include "shared_buffer.hpp"

#include <pthread.h>

#include <stdexcept>
#include <string>

namespace reprise::python {

const unsigned& SharedBuffer::forks() noexcept {
  static unsigned count = 0;
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++count; });
  static_cast<void>(registered);
  return count;
}

/// `size` throws in a forked child, with a message that names the processes.
void SharedBuffer::refuse_fork() const {
  static_cast<void>(buffer.size());
}

void SharedBuffer::check_open(const char* call) const {
  if (buffer.closed()) {
    throw Closed(std::string(call) + ": the buffer is closed; no step was taken");
  }
}

void SharedBuffer::refuse_beside_restore(const char* call) {
  throw std::logic_error(std::string(call) +
                         ": ReplayBuffer.restore of this buffer is under way in another thread");
}

InUse SharedBuffer::restoring() {
  const unsigned others = calls_ - 1;
  if (others != 0) {
    throw std::logic_error("ReplayBuffer.restore: " + std::to_string(others) +
                           (others == 1 ? " other call" : " other calls") +
                           " of this buffer, its writers, samplers or prefetchers " +
                           (others == 1 ? "is" : "are") + " under way; allowed: none");
  }
  return {restoring_, "ReplayBuffer.restore"};
}

}  // namespace reprise::python
