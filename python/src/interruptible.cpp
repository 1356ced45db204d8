#include "interruptible.hpp"

namespace reprise::python {
namespace {

/// The end of the work, and the exception that ended it.
class Outcome {
 public:
  void end(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    ended_ = true;
    changed_.notify_one();
  }
  [[nodiscard]] bool wait(std::chrono::nanoseconds most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [this] { return ended_; });
  }
  /// Call it after the end.
  void rethrow() const {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace

void run_interruptibly(const std::function<void(std::stop_token)>& work) {
  Outcome outcome;
  std::optional<py::error_already_set> raised;
  {
    std::optional<Released> released(std::in_place);
    std::jthread thread([&](const std::stop_token& stop) {
      std::exception_ptr failure;
      try {
        work(stop);
      } catch (...) {
        failure = std::current_exception();
      }
      outcome.end(std::move(failure));
    });
    while (!outcome.wait(kSlice)) {
      released.reset();
      if (!raised && PyErr_CheckSignals() != 0) {
        raised.emplace();
        thread.request_stop();
      }
      released.emplace();
    }
    thread.join();
  }
  if (raised) {
    throw py::error_already_set(*raised);
  }
  outcome.rethrow();
}

}  // namespace reprise::python
