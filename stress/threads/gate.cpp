#include "threads/gate.hpp"

#include <utility>

namespace stress {

Gate::Presence::Presence(Gate& gate) : gate_(gate) {
  std::unique_lock lock(gate_.mutex_);
  gate_.opened_.wait(lock, [this] { return !gate_.closed(); });
  ++gate_.present_;
}

Gate::Presence::~Presence() {
  const std::lock_guard lock(gate_.mutex_);
  --gate_.present_;
  gate_.parked_all_.notify_all();
}

void Gate::park() {
  std::unique_lock lock(mutex_);
  ++parked_;
  parked_all_.notify_all();
  opened_.wait(lock, [this] { return !closed(); });
  --parked_;
}

bool Gate::close(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  closed_.store(true, std::memory_order_relaxed);
  return parked_all_.wait_for(lock, patience, [this] { return parked_ == present_; });
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  closed_.store(false, std::memory_order_relaxed);
  opened_.notify_all();
}

void Threads::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  threads_.emplace_back([this, work = std::move(work)] {
    work();
    const std::lock_guard lock(mutex_);
    --running_;
    done_.notify_all();
  });
}

bool Threads::join(std::chrono::seconds patience) {
  {
    std::unique_lock lock(mutex_);
    if (!done_.wait_for(lock, patience, [this] { return running_ == 0; })) {
      return false;
    }
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
  return true;
}

}  // namespace stress
