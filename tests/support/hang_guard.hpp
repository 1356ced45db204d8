#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace reprise::test {

/// Ends the program with a message if its scope is not left in time, so that a lost wake-up is a
/// failure with a name and not a test run that never ends.
class HangGuard {
 public:
  explicit HangGuard(std::string what, std::chrono::seconds limit = std::chrono::seconds(60))
      : what_(std::move(what)), thread_([this, limit] { watch(limit); }) {}
  ~HangGuard() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    finished_.notify_one();
    thread_.join();
  }
  HangGuard(const HangGuard&) = delete;
  HangGuard& operator=(const HangGuard&) = delete;

 private:
  void watch(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    const auto deadline = std::chrono::system_clock::now() + limit;
    if (!finished_.wait_until(lock, deadline, [this] { return done_; })) {
      std::fprintf(stderr, "hung for %lld s: %s\n", static_cast<long long>(limit.count()),
                   what_.c_str());
      std::abort();
    }
  }

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::thread thread_;  // Last: it reads the members above.
};

}  // namespace reprise::test
