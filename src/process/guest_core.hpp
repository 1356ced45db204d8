#pragma once

#include <reprise/guest.hpp>

#include "base/mutex.hpp"
#include "limiter/wait.hpp"
#include "process/ring_writer.hpp"
#include "window/batch_store.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace reprise::process {

/// Makes the requests of one connection, one after the other. One thread at a time.
class Caller {
 public:
  explicit Caller(std::unique_ptr<Connection> opened) noexcept : connection_(std::move(opened)) {}

  [[nodiscard]] const buffer::Outline& outline() const noexcept { return *connection_->outline; }
  [[nodiscard]] base::Life& life() noexcept { return connection_->life; }
  [[nodiscard]] const base::Life& life() const noexcept { return connection_->life; }

  /// Sends a request with the bytes of `call` and then `behind`. Returns the answer, or nothing if
  /// the host is gone or `wait` is over before. Throws what the host threw.
  template <class Call>
  [[nodiscard]] std::optional<Message> ask(MessageKind kind, Call call, Bytes behind,
                                           limiter::Wait& wait) {
    connection_->life.check_not_forked();
    call.number = ++number_;
    connection_->send(kind, joined(call, behind), wait);
    return answer(wait);
  }
  /// Cancels the last request. Returns its answer, if the host sends one in time.
  [[nodiscard]] std::optional<Message> cancel();
  /// The wait for requests that the host answers at once.
  [[nodiscard]] HostWait host_wait() const { return {life(), connection_->attach_options}; }
  /// As `ReplayBuffer::update_priorities`. All keys are stale once the host is gone. If `wait` is
  /// over before the host has answered, no key counts as applied or stale.
  UpdateResult update(std::span<const ItemKey> keys, std::span<const float> priorities,
                      std::size_t selector, limiter::Wait& wait);
  /// Closes `life` if the host is gone.
  void check_host() { connection_->receive(); }
  /// Tells the host that the connection ends on purpose.
  void farewell() noexcept;

 private:
  [[nodiscard]] std::optional<Message> answer(limiter::Wait& wait);

  const std::unique_ptr<Connection> connection_;
  std::uint64_t number_ = 0;  ///< The number of the last request.
};

/// The implementation of `GuestSampler`.
class DrawClient {
 public:
  DrawClient(std::unique_ptr<Connection> opened, const SamplerOptions& options,
             std::size_t selector);

  /// Draws into the memory that the host shares; `own` is the batch in that memory.
  [[nodiscard]] SampleStatus draw(std::size_t n, const SampleOptions& options);
  [[nodiscard]] const Batch& own() const noexcept { return batch_; }
  [[nodiscard]] window::BatchStore& own_store() noexcept { return *store_; }
  [[nodiscard]] Batch make_batch(std::size_t n, std::pmr::memory_resource* memory) const;
  [[nodiscard]] SampleStatus outlook(std::size_t n) const REPRISE_EXCLUDES(mutex_);
  /// Throws `std::invalid_argument` for places that the batch does not have.
  void check(const window::BatchStore& batch, std::size_t offset, std::size_t n) const;
  /// Throws what drawing a whole batch would throw in the host.
  void check(const window::BatchStore& batch, std::size_t n, const SampleOptions& options);
  [[nodiscard]] UpdateResult update(std::span<const ItemKey> keys,
                                    std::span<const float> priorities) {
    HostWait host = caller_.host_wait();
    return caller_.update(keys, priorities, selector_, host.wait);
  }
  ~DrawClient() { caller_.farewell(); }
  DrawClient(const DrawClient&) = delete;
  DrawClient& operator=(const DrawClient&) = delete;

 private:
  [[nodiscard]] SampleCall call_of(std::size_t n, const SampleOptions& options) const;

  Caller caller_;
  const std::size_t selector_;
  const bool unique_frames_;
  Region memory_;  ///< The memory of the batch, which the host fills.
  window::BatchStore* store_;
  Batch batch_;
  mutable base::Mutex mutex_;                     ///< For `outlook`, which any thread may call.
  SampleStatus last_ REPRISE_GUARDED_BY(mutex_);  ///< From the host's last answer.
};

/// Unlocks, at the end of a scope, a mutex that its thread has locked. If the guest was closed
/// meanwhile, it tells the host before.
class REPRISE_SCOPED_CAPABILITY ScopedUnlock {
 public:
  ScopedUnlock(base::Mutex& mutex, Caller& caller) REPRISE_REQUIRES(mutex)
      : mutex_(mutex), caller_(caller) {}
  ~ScopedUnlock() REPRISE_RELEASE() {
    if (caller_.life().closed()) {
      caller_.farewell();
    }
    mutex_.unlock();
  }
  ScopedUnlock(const ScopedUnlock&) = delete;
  ScopedUnlock& operator=(const ScopedUnlock&) = delete;

 private:
  base::Mutex& mutex_;
  Caller& caller_;
};

/// The implementation of `Guest`. Any thread.
class GuestCore {
 public:
  GuestCore(std::string address, std::unique_ptr<Connection> opened)
      : address_(std::move(address)),
        outline_(opened->outline),
        attach_options_(opened->attach_options),
        caller_(std::move(opened)) {}
  ~GuestCore() { close(); }
  GuestCore(const GuestCore&) = delete;
  GuestCore& operator=(const GuestCore&) = delete;

  [[nodiscard]] static Guest guest(const std::string& address, std::unique_ptr<Connection> opened) {
    return Guest(std::make_shared<GuestCore>(address, std::move(opened)));
  }

  [[nodiscard]] const buffer::Outline& outline() const noexcept { return *outline_; }
  /// Opens another connection to the host. Throws `std::runtime_error` once the guest is closed.
  [[nodiscard]] std::unique_ptr<Connection> open(const Hello& hello) REPRISE_EXCLUDES(mutex_);
  UpdateResult update(std::span<const ItemKey> keys, std::span<const float> priorities,
                      std::size_t selector) REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] Stats stats() REPRISE_EXCLUDES(mutex_);
  void close() noexcept REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] bool closed() noexcept REPRISE_EXCLUDES(mutex_);

 private:
  /// Locks the connection for a call; returns false if the wait ends while another thread has it.
  [[nodiscard]] bool try_lock(limiter::Wait& wait) REPRISE_TRY_ACQUIRE(true, mutex_);

  const std::string address_;
  const std::shared_ptr<const buffer::Outline> outline_;
  const AttachOptions attach_options_;
  base::Mutex mutex_;
  Caller caller_ REPRISE_GUARDED_BY(mutex_);
  base::Life& life_ = caller_.life();
};

}  // namespace reprise::process
