#include "shared_buffer.hpp"

#include <reprise/reprise.hpp>

#include <pthread.h>

#include <cmath>
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

void SharedBuffer::refuse_beside_restore(const char* call) {
  throw std::logic_error(std::string(call) +
                         ": ReplayBuffer.restore of this buffer is under way in another thread");
}

SharedBuffer::Restoring::Restoring(SharedBuffer& shared) : restoring_(shared.restoring_) {
  if (shared.restoring_) {
    refuse_beside_restore("ReplayBuffer.restore");
  }
  if (shared.calls_ != 0) {
    throw std::logic_error("ReplayBuffer.restore: " + std::to_string(shared.calls_) +
                           (shared.calls_ == 1 ? " other call of this buffer, its writers or "
                                                 "samplers is under way"
                                               : " other calls of this buffer, its writers or "
                                                 "samplers are under way") +
                           "; allowed: none");
  }
  restoring_ = true;
}

SharedBuffer::~SharedBuffer() {
  buffer.close();
}

void SharedBuffer::read_rules() {
  rules_.clear();
  needs_priorities_ = false;
  for (const Selector& selector : buffer.options().selectors) {
    Selector present = selector;
    if (const auto* const proportional = selector.target<Proportional>()) {
      Proportional changed = *proportional;
      changed.alpha = buffer.alpha(rules_.size());
      present = changed;
    }
    rules_.push_back(present.make_selector_rule());
    needs_priorities_ = needs_priorities_ || rules_.back()->needs_caller();
  }
}

void SharedBuffer::check_priorities(std::optional<std::span<const float>> given, std::size_t items,
                                    const char* call) const {
  const std::string name = std::string(call) + ": ";
  const std::span<const float> priorities = given.value_or(std::span<const float>());
  if (!given || (needs_priorities_ && priorities.empty())) {
    if (needs_priorities_ && items != 0) {
      throw std::invalid_argument(name +
                                  "no priorities; initial='from_caller' takes one for each "
                                  "of the " +
                                  std::to_string(items) + " items decided");
    }
    return;
  }
  if (priorities.size() != items) {
    throw std::invalid_argument(name + std::to_string(priorities.size()) +
                                " priorities; this call decides " + std::to_string(items) +
                                " items");
  }
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    bool fine = std::isfinite(priorities[i]) && priorities[i] >= 0.0F;
    for (const auto& rule : rules_) {
      fine = fine && rule->weighable(priorities[i]);
    }
    if (!fine) {
      throw std::invalid_argument(name + "priorities[" + std::to_string(i) + "] is " +
                                  std::to_string(priorities[i]) +
                                  "; allowed: at least 0, with a finite weight");
    }
  }
}

}  // namespace reprise::python
