#pragma once

#include <reprise/batch_source.hpp>
#include <reprise/detail/blob.hpp>
#include <reprise/options.hpp>
#include <reprise/sampler.hpp>
#include <reprise/schema.hpp>
#include <reprise/window.hpp>
#include <reprise/writer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

/// The guest's side of `reprise/host.hpp`: uses a buffer of another process of this machine.
///
/// Not stable: calls may change with any version.
namespace reprise {

namespace process {
class GuestCore;
class DrawClient;
}  // namespace process

/// Draws batches from the buffer of a host.
///
/// Thread safety: one thread at a time. Lifetime: may outlive its guest.
class GuestSampler final : public BatchSource {
 public:
  GuestSampler(GuestSampler&&) noexcept;
  GuestSampler& operator=(GuestSampler&&) noexcept;
  ~GuestSampler() override;

  /// As `Sampler::sample`, but the host draws and copies rows into memory of this batch. The status
  /// is `Closed` once the host is gone. Errors: those that `Sampler::sample` throws in the host,
  /// with the same messages; `std::invalid_argument` for a batch of more than
  /// `HostOptions::max_batch_bytes`; `std::bad_alloc`, `std::system_error` without memory. Cost:
  /// two messages over a socket, some 10 us, on top of the draw.
  SampleResult sample(std::size_t n, const SampleOptions& options = {}) &;
  /// The result would outlive its sampler: give the sampler a name.
  SampleResult sample(std::size_t, const SampleOptions& = {}) && = delete;
  /// As `Sampler::sample_into`. It costs one more copy of the rows than `sample`.
  SampleStatus sample_into(Batch& batch, std::size_t offset, std::size_t n,
                           const SampleOptions& options = {});

  [[nodiscard]] Batch make_batch(std::size_t n,
                                 std::pmr::memory_resource* memory = nullptr) const override;
  SampleStatus sample_into(Batch& batch, const SampleOptions& options = {}) override;
  UpdateResult update_priorities(std::span<const ItemKey> keys,
                                 std::span<const float> priorities) override;
  /// Costs two messages over the socket.
  void check(const Batch& batch, const SampleOptions& options) const override;
  /// The status that the host's last answer reported.
  [[nodiscard]] SampleStatus outlook(std::size_t n) const override;

 private:
  friend class Guest;
  explicit GuestSampler(std::unique_ptr<process::DrawClient> client) noexcept;

  std::unique_ptr<process::DrawClient> client_;
};

/// Options of `attach`.
struct AttachOptions {
  /// How long it may take until a host listens at the address and answers.
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  /// A stop request, from any thread, ends attaching, and later soon ends every wait of a call of
  /// the guest for its host. Draws and commits have options of their own for that.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.
  /// Asked every 50 ms while a call waits for the host, by several threads at once if several wait.
  /// The hook has to outlive the guest and its samplers. Null for no hook.
  WaitHook* hook = nullptr;
};

/// A buffer of another process: makes writers and samplers of it for this process.
///
/// Thread safety: every method from any thread. Lifetime: its writers and samplers may outlive it.
/// Fork: as `ReplayBuffer`; a child has to attach anew. Waits: a host that runs answers within
/// microseconds; for a stopped host (`SIGSTOP`) calls wait up to 30 seconds, or until the stop
/// token or hook of `AttachOptions` ends the wait. Calls that return something then throw
/// `std::system_error`, with `std::errc::timed_out` or `operation_canceled`.
class Guest {
 public:
  Guest(Guest&&) noexcept;
  Guest& operator=(Guest&&) noexcept;
  ~Guest();

  /// The schema of the host's buffer.
  [[nodiscard]] const Schema& schema() const noexcept;
  /// The window of the host's buffer.
  [[nodiscard]] const Window& window() const noexcept;

  /// How many writers of the host's buffer may be alive at once, in all processes together.
  [[nodiscard]] std::size_t max_writers() const noexcept;

  /// A writer for one environment. As `ReplayBuffer::writer`, but: `Committed` means that the step
  /// will be in the buffer, whatever becomes of this process, unless the host ends before it has
  /// taken the step; `Writer::episode_id` counts this writer's own episodes, from 0. A commit waits
  /// while the host has yet to take `HostOptions::ring_steps` of this writer's steps; it throws
  /// `std::runtime_error` if the host gives the writer up, because its memory is damaged. Errors:
  /// `std::runtime_error` if the host has no writer left (`Options::max_writers`) or is gone.
  [[nodiscard]] Writer writer(const WriterOptions& options = {});
  /// Writers for this many environments, which share a connection.
  [[nodiscard]] VectorWriter vector_writer(std::size_t environments,
                                           const WriterOptions& options = {},
                                           AutoReset auto_reset = AutoReset::Disabled);
  /// A sampler for the selector with this number. Of the options, `memory`, `resume` and
  /// `parallel_gather_bytes` are not used. Errors: as `SelectorHandle::sampler`, and
  /// `std::invalid_argument` for an unknown selector; `std::runtime_error` if the host is gone.
  [[nodiscard]] GuestSampler sampler(const SamplerOptions& options = {}, std::size_t selector = 0);

  /// As `SelectorHandle::update`: the host has applied the updates when the call returns. All keys
  /// are stale once the host is gone. If the wait for the host ends before its answer, no key
  /// counts as applied or stale, and the host may apply them later.
  UpdateResult update_priorities(std::span<const ItemKey> keys, std::span<const float> priorities,
                                 std::size_t selector = 0);
  /// Statistics of the host's buffer. `std::runtime_error` if the host is gone.
  [[nodiscard]] Stats stats() const;

  /// Closes the guest's own connection, and ends the waits of other threads' calls. Writers and
  /// samplers have connections of their own.
  void close() noexcept;
  /// Whether `close` was called, or the host is gone.
  [[nodiscard]] bool closed() const noexcept;

 private:
  friend class process::GuestCore;
  explicit Guest(std::shared_ptr<process::GuestCore> core) noexcept;
  [[nodiscard]] std::vector<Writer> writers(std::size_t environments, const WriterOptions& options);

  std::shared_ptr<process::GuestCore> core_;
};

/// Attaches to the host at an address (`Host::address`). Errors: `std::system_error` if none
/// listens there and answers; `std::runtime_error` if the host refuses, with the reason, for
/// example that the versions of reprise differ.
[[nodiscard]] Guest attach(const std::string& address, const AttachOptions& options = {});

/// Calls the service of a host (`HostOptions::service`) in another process of this machine.
///
/// Several calls may be under way. Only `wait` waits for the host.
///
/// Thread safety: every method from any thread. Fork: a child gets `std::logic_error`.
class ServiceClient {
 public:
  /// Connects to the host at this address. `std::system_error` if nobody listens there. If the host
  /// has no service or another version, `closed` returns true later.
  explicit ServiceClient(const std::string& address);
  ServiceClient(ServiceClient&&) noexcept;
  ServiceClient& operator=(ServiceClient&&) noexcept;
  ~ServiceClient();

  /// Sends a call under a number of the caller's choice. What the socket does not take at once is
  /// sent by later calls of any method.
  void ask(std::uint64_t number, std::span<const std::byte> call);
  /// An answer to a call.
  struct Answer {
    std::uint64_t number = 0;  ///< The number of the call.
    Blob bytes = {};  ///< Memory of the host, valid as long as there are copies of the blob.
    /// What the service threw in place of an answer, or `std::system_error` if this process has no
    /// file descriptor left for the answer's memory.
    std::exception_ptr error = nullptr;
  };
  /// An answer that has come, in any order; nothing if there is none.
  [[nodiscard]] std::optional<Answer> take();
  /// Whether the host is gone: calls without an answer will have none.
  [[nodiscard]] bool closed() const noexcept;
  /// Waits until `take` or `closed` of a client may return another value; false after the timeout.
  static bool wait(std::span<ServiceClient* const> clients, std::chrono::nanoseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise
