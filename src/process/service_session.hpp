#pragma once

#include <reprise/host.hpp>

#include "base/mutex.hpp"
#include "process/session.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::process {

/// Memory for answers to one guest: places that both processes have mapped. A place is free once
/// the guest has read its answer and the service no longer keeps it. Any thread.
class AnswerMemory : public std::enable_shared_from_this<AnswerMemory> {
 public:
  /// Returns memory in a free place, which gets more if it has too little. For a small answer, or
  /// if no place is free, returns memory that only this process has. Throws `std::system_error` if
  /// memory cannot be shared, and `std::bad_alloc` without memory.
  [[nodiscard]] Blob allocate(std::size_t bytes) REPRISE_EXCLUDES(mutex_);
  /// Returns the message that tells the guest where an answer is. If the guest does not have that
  /// memory yet, sets `file` to the file of the memory.
  [[nodiscard]] ServiceAnswer give(const Blob& answer, int& file) REPRISE_EXCLUDES(mutex_);
  /// Frees places whose answers the guest has read.
  void take_back(std::uint64_t places) noexcept REPRISE_EXCLUDES(mutex_);

 private:
  struct Place {
    Region memory;
    bool kept = false;             ///< Whether the service keeps the answer.
    bool unread = false;           ///< Whether the guest has yet to read the answer.
    bool mapped_by_guest = false;  ///< Whether the guest has this memory.
  };
  [[nodiscard]] std::size_t free_place(std::size_t bytes) REPRISE_REQUIRES(mutex_);
  void let_go(std::size_t place) noexcept REPRISE_EXCLUDES(mutex_);

  base::Mutex mutex_;
  std::vector<Place> places_ REPRISE_GUARDED_BY(mutex_);
};

/// Hands the calls of one guest to the service.
class ServiceSession final : public Session {
 public:
  explicit ServiceSession(Service service)
      : service_(std::move(service)), memory_(std::make_shared<AnswerMemory>()) {}

  [[nodiscard]] bool handle(const Message& message, Channel& channel) override;
  /// Sends what the guest's socket had no room for.
  [[nodiscard]] Progress serve(Channel* channel) override;

 private:
  void answer(std::uint64_t number, Blob bytes, Channel& channel);

  const Service service_;
  const std::shared_ptr<AnswerMemory> memory_;
};

}  // namespace reprise::process
