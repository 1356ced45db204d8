#pragma once

#include "process/channel.hpp"
#include "process/messages.hpp"
#include "process/region.hpp"
#include "process/ring.hpp"
#include "sampler/sampler_core.hpp"
#include "writer/writer_core.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::process {

/// The hook of writers of guests. It ends every wait before it begins, because the serving thread
/// has other guests, unless a later `time` is set: then waits may last until that time.
class WaitUntil final : public WaitHook {
 public:
  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override {
    return base::Clock::now() < time;
  }
  base::Clock::time_point time = base::Clock::time_point::min();
};

/// The host's part of one connection. Only the serving thread calls it.
class Session {
 public:
  Session() = default;
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Does what a message asks for. Returns false if a guest must not send such a message now.
  [[nodiscard]] virtual bool handle(const Message& message, Channel& channel) = 0;
  /// What a session found to do in a round.
  enum class Progress : std::uint8_t {
    Nothing,
    Waits,  ///< Nothing now; the session waits for the rate limiter, room or items.
    Something,
    ReachedLimit,  ///< Something, and the session stopped because others have to be served too.
  };
  /// Does what needs no message, such as taking steps. `channel`: null once the guest is gone.
  [[nodiscard]] virtual Progress serve(Channel* channel) = 0;
  /// After the guest is gone: whether the session has nothing left to do.
  [[nodiscard]] virtual bool finished() const noexcept { return true; }
  /// Notes that the guest is gone. `died`: it did not close the connection by itself.
  virtual void guest_left(bool /*died*/) noexcept {}
  /// Lets the next calls of `serve` wait for room until this time, because they are the last ones.
  virtual void set_wait_deadline(base::Clock::time_point /*until*/) noexcept {}
  /// Gives up the session's places in the rate limiter's lines: while no thread serves, they would
  /// hold up other calls.
  virtual void pause() noexcept {}
};

/// Answers calls for updates and statistics. They come over a guest's own connection, and calls for
/// updates also over those of its samplers.
class CallSession : public Session {
 public:
  explicit CallSession(std::shared_ptr<buffer::BufferCore> core) noexcept
      : core_(std::move(core)) {}

  [[nodiscard]] bool handle(const Message& message, Channel& channel) override;
  [[nodiscard]] Progress serve(Channel* /*channel*/) override { return Progress::Nothing; }

 protected:
  /// Runs `call` and returns its result. If it throws, sends the exception as the answer and
  /// returns true.
  template <class Call>
  static bool guarded(std::uint64_t number, Channel& channel, const Call& call);

  const std::shared_ptr<buffer::BufferCore> core_;
};

/// Answers the draws of one sampler, and updates.
class DrawSession final : public CallSession {
 public:
  DrawSession(std::shared_ptr<buffer::BufferCore> core, const SamplerOptions& options,
              std::size_t selector, std::size_t max_batch_bytes)
      : CallSession(core),
        max_batch_bytes_(max_batch_bytes),
        sampler_(core, options, selector),
        batch_(core->schema(), core->window(), nullptr, options.unique_frames) {}

  [[nodiscard]] bool handle(const Message& message, Channel& channel) override;
  /// Tries again to make a draw that has to wait.
  [[nodiscard]] Progress serve(Channel* channel) override;
  void pause() noexcept override { sampler_.give_up(); }

 private:
  struct Draw {
    SampleCall call;
    SampleOptions options;
    base::Clock::time_point began;
    base::Clock::time_point deadline;
  };
  void begin(const SampleCall& call);
  /// Tries to make the draw. Returns whether it has sent an answer.
  bool attempt(Channel& channel, bool cancelled);
  void end_draw() noexcept;

  const std::size_t max_batch_bytes_;
  sampler::SamplerCore sampler_;
  Region memory_;
  window::BatchStore batch_;  ///< A batch over the shared memory.
  std::optional<Draw> draw_;  ///< The draw that waits.
};

/// Takes the steps of a guest's writers from their rings.
class WriterSession final : public Session {
 public:
  /// Throws `std::runtime_error` if the buffer has fewer writers left, and `std::system_error`
  /// without memory.
  WriterSession(std::shared_ptr<buffer::BufferCore> core, std::size_t environments,
                std::size_t rows);
  ~WriterSession() override;

  [[nodiscard]] std::size_t rows() const noexcept { return layout_.rows(); }
  [[nodiscard]] int memory() const noexcept { return memory_.file(); }

  [[nodiscard]] bool handle(const Message& message, Channel& channel) override;
  [[nodiscard]] Progress serve(Channel* channel) override;
  /// Whether every published step has been taken, and the episodes have ended.
  [[nodiscard]] bool finished() const noexcept override;
  void guest_left(bool died) noexcept override;
  void set_wait_deadline(base::Clock::time_point until) noexcept override {
    wait_until_.time = until;
  }
  void pause() noexcept override;

 private:
  /// The steps of one environment, on their way from its ring to a writer.
  struct Stream {
    std::unique_ptr<writer::WriterCore> writer;
    std::uint64_t row = 0;  ///< The next row to take.
    /// The header of that row's step, if the step was written to the writer and its commit found no
    /// room so far.
    std::optional<StepHeader> refused;
    std::uint64_t end = 0;  ///< Rows published when the guest left.
  };
  /// How many steps are taken from a ring before other rings are looked at.
  static constexpr std::size_t kSteps = 256;

  [[nodiscard]] std::size_t take(std::size_t environment);
  void end_episodes() noexcept;
  [[nodiscard]] std::uint64_t published(std::size_t environment) const noexcept;
  [[nodiscard]] bool take_step(std::size_t environment, std::byte* row, const StepHeader& header);
  [[nodiscard]] std::vector<float> priorities(const Stream& stream, std::byte* row,
                                              const StepHeader& header) const;
  [[nodiscard]] static HoldReason lacking(const Stream& stream) noexcept;
  void publish_held(HoldReason held) noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  WaitUntil wait_until_;
  const RingLayout layout_;
  Region memory_;
  std::vector<Stream> streams_;
  HoldReason held_ = HoldReason::No;  ///< What `publish_held` last told the guest.
  bool guest_left_ = false;           ///< Whether the guest is gone.
  bool died_ = false;
};

}  // namespace reprise::process
