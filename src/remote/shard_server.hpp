#pragma once

#include "base/event.hpp"
#include "base/mutex.hpp"
#include "buffer/buffer_core.hpp"
#include "remote/exchange.hpp"
#include "sampler/sampler_core.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::remote {

/// Answers the requests of clients for one buffer. Each request is executed once: in case it comes
/// again, its answer is kept until a later request of the client confirms that the client has it.
/// Any thread; one exchange at a time.
class ShardServer {
 public:
  /// Throws as `ReplayShard`.
  ShardServer(std::shared_ptr<buffer::BufferCore> core, std::optional<std::uint64_t> seed,
              std::uint64_t incarnation, std::chrono::nanoseconds forgotten);

  [[nodiscard]] std::uint64_t incarnation() const noexcept { return incarnation_; }
  [[nodiscard]] Blob exchange(Bytes request, const BlobAllocator& room, WaitHook* hook)
      REPRISE_EXCLUDES(mutex_);

 private:
  struct Request;
  /// The answers that a client has not confirmed, and when it was last heard of.
  struct Client {
    std::map<std::uint64_t, Blob> answers;
    /// The numbers of the requests whose answers it waits for; the last one is its newest request.
    std::vector<std::uint64_t> waits;
    base::Clock::time_point last_heard;
  };
  [[nodiscard]] Request parse(Bytes blob) const;
  [[nodiscard]] Blob answer(const Request& request, const BlobAllocator& room, WaitHook* hook)
      REPRISE_REQUIRES(mutex_);
  [[nodiscard]] Client& client_of(const Request& request) REPRISE_REQUIRES(mutex_);
  [[nodiscard]] DrawStatus draw(const Request& request, std::size_t draw, std::byte* place,
                                base::Clock::time_point deadline, WaitHook* hook)
      REPRISE_REQUIRES(mutex_);
  [[nodiscard]] AnswerHead totals(std::size_t selector) const;

  const std::shared_ptr<buffer::BufferCore> core_;
  const std::uint64_t fingerprint_;
  const std::uint64_t incarnation_;
  const BatchKinds kinds_;
  const std::chrono::nanoseconds forgotten_;
  base::Mutex mutex_;
  std::map<std::uint64_t, Client> clients_ REPRISE_GUARDED_BY(mutex_);
  base::Clock::time_point last_sweep_
      REPRISE_GUARDED_BY(mutex_);  ///< When silent clients were looked for.
  /// One sampler for each selector.
  std::vector<std::unique_ptr<sampler::SamplerCore>> samplers_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::remote
