#pragma once

#include "base/event.hpp"
#include "base/mutex.hpp"
#include "buffer/buffer_core.hpp"
#include "remote/exchange.hpp"
#include "sampler/sampler_core.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::remote {

/// Answers the requests of clients for one buffer. Any thread; one request at a time.
class ShardServer {
 public:
  /// Throws as `ReplayShard`.
  ShardServer(std::shared_ptr<buffer::BufferCore> core, std::uint64_t seed,
              std::uint64_t incarnation);

  [[nodiscard]] std::uint64_t incarnation() const noexcept { return incarnation_; }
  [[nodiscard]] Blob exchange(Bytes request) REPRISE_EXCLUDES(mutex_);

 private:
  struct Request;
  [[nodiscard]] Request parse(Bytes blob) const;
  [[nodiscard]] DrawStatus draw(const Request& request, std::size_t draw, std::byte* place,
                                base::Clock::time_point deadline) REPRISE_REQUIRES(mutex_);
  [[nodiscard]] AnswerHead totals(std::size_t selector) const;

  const std::shared_ptr<buffer::BufferCore> core_;
  const std::uint64_t fingerprint_;
  const std::uint64_t incarnation_;
  const BatchKinds kinds_;
  base::Mutex mutex_;
  /// One sampler for each selector.
  std::vector<std::unique_ptr<sampler::SamplerCore>> samplers_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::remote
