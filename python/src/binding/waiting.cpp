#include "waiting.hpp"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace reprise::python {

namespace {

/// A wait without a timeout warns after this long.
constexpr std::chrono::seconds kWarnAfter{5};

/// Whether this thread is in `stats_for_message`, which does not wait for another process that
/// answers late.
thread_local bool only_for_message = false;

}  // namespace

std::optional<Stats> stats_for_message(const std::function<Stats()>& stats) noexcept {
  std::optional<Stats> stats_now;
  only_for_message = true;
  try {
    stats_now = stats();
  } catch (...) {  // The message does without statistics.
  }
  only_for_message = false;
  return stats_now;
}

SignalHook::SignalHook(std::function<Stats()> stats)
    : stats_(std::move(stats)), owner_process_(::getpid()) {}

std::string SignalHook::reason(std::chrono::nanoseconds waited) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
  std::string text = "a call has waited for " + std::to_string(seconds) + " s and has no timeout";
  const std::optional<Stats> stats = stats_for_message(stats_);
  if (!stats) {
    return text;
  }
  text += "; " + std::to_string(stats->items) + " items and " + std::to_string(stats->writers) +
          " open writers are there, and " + std::to_string(stats->sampled_batches) +
          " batches were drawn";
  if (stats->outdated_items != 0) {
    text += "; " + std::to_string(stats->outdated_items) +
            " more are outdated: over max_staleness behind version " +
            std::to_string(stats->version);
  }
  return text + ". Rate limiter: " + stats->limiter;
}

bool SignalHook::keep_waiting(std::chrono::nanoseconds waited) noexcept {
  if (!waiting_ || failure_) {
    return false;
  }
  if (waited == std::chrono::nanoseconds(0)) {
    if (std::exchange(before_first_wait_, false)) {
      start_ = Clock::now();
      return true;
    }
    return Clock::now() - start_ < timeout_;
  }
  // The warning is made before the GIL is taken, because making it takes the locks of shards.
  std::string warning;
  const bool warns = !warned_ && timeout_ == kNoTimeout && waited >= kWarnAfter;
  if (warns && ::getpid() == owner_process_) {
    warned_ = true;
    try {
      warning = reason(waited);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  const PyGILState_STATE state = PyGILState_Ensure();
  try {
    check_signals();
    if (!warning.empty() && PyErr_WarnEx(PyExc_RuntimeWarning, warning.c_str(), 1) != 0) {
      throw nb::python_error();
    }
  } catch (...) {
    failure_ = std::current_exception();
  }
  PyGILState_Release(state);
  // A child that a handler forked must not go on, because locks may be held there for ever.
  return !failure_ && ::getpid() == owner_process_;
}

void SignalHook::rethrow() {
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

namespace {

/// The exception that a handler raised while this thread waited for another process.
thread_local std::exception_ptr raised;

}  // namespace

HostHook& HostHook::instance() noexcept {
  static HostHook hook;
  return hook;
}

bool HostHook::keep_waiting(std::chrono::nanoseconds waited) noexcept {
  if (waited == std::chrono::nanoseconds(0)) {
    return true;
  }
  if (only_for_message) {
    return false;
  }
  const ::pid_t process = ::getpid();
  const PyGILState_STATE state = PyGILState_Ensure();
  try {
    check_signals();
  } catch (...) {
    raised = std::current_exception();
  }
  PyGILState_Release(state);
  return !raised && ::getpid() == process;
}

void HostHook::rethrow() {
  if (raised) {
    std::rethrow_exception(std::exchange(raised, nullptr));
  }
}

struct OwnThread::Run {
  std::function<void(std::stop_token)> work;
  std::exception_ptr failure;  ///< Written by the worker thread.
  std::jthread thread;
};

OwnThread::OwnThread(std::function<void(std::stop_token)> work)
    : run_(std::make_shared<Run>()), owner_process_(::getpid()) {
  run_->work = std::move(work);
  run_->thread = std::jthread([run = run_.get()](const std::stop_token& stop) {
    try {
      run->work(stop);
    } catch (...) {
      run->failure = std::current_exception();
    }
  });
}

void OwnThread::end() noexcept {
  if (!run_->thread.joinable()) {
    return;
  }
  if (::getpid() != owner_process_) {
    static_cast<void>(new std::shared_ptr<Run>(run_));  // A forked child never destroys the Run.
    return;
  }
  run_->thread.request_stop();
  const GilRelease released;
  run_->thread.join();
}

void OwnThread::rethrow() const {
  if (run_->failure) {
    std::rethrow_exception(run_->failure);
  }
}

void run_interruptibly(const std::function<void(std::stop_token)>& work) {
  struct Run {
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
    std::exception_ptr failure;
    std::jthread thread;
  };
  auto run = std::make_unique<Run>();
  std::exception_ptr interrupt;
  const ::pid_t owner_process = ::getpid();
  {
    std::optional<GilRelease> released(std::in_place);
    run->thread = std::jthread([&work, run = run.get()](const std::stop_token& stop) {
      std::exception_ptr thrown;
      try {
        work(stop);
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(run->mutex);
      run->failure = std::move(thrown);
      run->ended = true;
      run->changed.notify_one();
    });
    const auto wait = [&] {
      std::unique_lock lock(run->mutex);
      return run->changed.wait_for(lock, kSlice, [&] { return run->ended; });
    };
    while (!wait()) {
      released.reset();
      if (!interrupt) {
        try {
          check_signals();
        } catch (...) {
          interrupt = std::current_exception();
          run->thread.request_stop();
        }
      }
      if (::getpid() != owner_process) {
        // The handler of a signal forked. In the child the thread does not exist, and locks that
        // the thread held stay locked, so the Run is not destroyed.
        static_cast<void>(run.release());
        throw std::logic_error("the process was forked while a call of this object was under way");
      }
      released.emplace();
    }
    run->thread.join();
  }
  if (interrupt || run->failure) {
    std::rethrow_exception(interrupt ? interrupt : run->failure);
  }
}

void InUse::refuse(const char* class_name) {
  throw std::logic_error(std::string(class_name) +
                         " is in use by another call: one thread at a time may use it");
}

}  // namespace reprise::python
