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

/// Ends every wait before it begins: the serving thread has other guests.
class NeverWait final : public WaitHook {
 public:
  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override {
    return false;
  }
};

/// What the host does for one connection. The thread that serves.
class Session {
 public:
  Session() = default;
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Does what a message asks for. False if no guest sends such a message here.
  [[nodiscard]] virtual bool handle(const Message& message, Channel& channel) = 0;
  /// How much there was to do in a round.
  enum class Did : std::uint8_t {
    Nothing,
    Waits,  ///< Nothing, and somebody may have to wait for what it waits for.
    Something,
    AsMuchAsItMay,
  };
  /// Does what has come up without a message. `channel`: null once the guest is gone.
  [[nodiscard]] virtual Did serve(Channel* channel) = 0;
  /// Whether there is nothing left to do once the guest is gone.
  [[nodiscard]] virtual bool finished() const noexcept { return true; }
  /// The guest is gone, and has not closed the connection itself if it died.
  virtual void left(bool /*died*/) noexcept {}
  /// Nobody serves from now on, or for a while: holds up nobody else.
  virtual void pause() noexcept {}
};

/// Updates and statistics, which every connection but a writer's may ask for.
class CallSession : public Session {
 public:
  explicit CallSession(std::shared_ptr<buffer::BufferCore> core) noexcept
      : core_(std::move(core)) {}

  [[nodiscard]] bool handle(const Message& message, Channel& channel) override;
  [[nodiscard]] Did serve(Channel* /*channel*/) override { return Did::Nothing; }

 protected:
  /// Answers with what `call` throws.
  template <class Call>
  static bool guarded(std::uint64_t number, Channel& channel, const Call& call);

  const std::shared_ptr<buffer::BufferCore> core_;
};

/// The draws of one sampler, and updates.
class DrawSession final : public CallSession {
 public:
  DrawSession(std::shared_ptr<buffer::BufferCore> core, const SamplerOptions& options,
              std::size_t selector, std::size_t max_batch_bytes)
      : CallSession(core),
        max_batch_bytes_(max_batch_bytes),
        sampler_(core, options, selector),
        batch_(core->schema(), core->window(), nullptr, options.unique_frames) {}

  [[nodiscard]] bool handle(const Message& message, Channel& channel) override;
  /// Tries a draw that has to wait once more.
  [[nodiscard]] Did serve(Channel* channel) override;
  void pause() noexcept override { sampler_.give_up(); }

 private:
  struct Draw {
    SampleCall call;
    SampleOptions options;
    base::Clock::time_point began;
    base::Clock::time_point deadline;
  };
  void begin(const SampleCall& call);
  /// True once the draw is answered.
  bool attempt(Channel& channel, bool last);
  void end_draw() noexcept;

  const std::size_t max_batch_bytes_;
  sampler::SamplerCore sampler_;
  Region memory_;
  window::BatchStore batch_;  ///< Over the memory.
  std::optional<Draw> draw_;  ///< Under way.
};

/// Takes the steps of a guest's writers from their rings.
class WriterSession final : public Session {
 public:
  /// `std::runtime_error` if the buffer has not as many writers left; `std::system_error` without
  /// memory.
  WriterSession(std::shared_ptr<buffer::BufferCore> core, std::size_t environments,
                std::size_t rows);
  ~WriterSession() override;

  [[nodiscard]] std::size_t rows() const noexcept { return layout_.rows(); }
  [[nodiscard]] int memory() const noexcept { return memory_.file(); }

  [[nodiscard]] bool handle(const Message& message, Channel& channel) override;
  [[nodiscard]] Did serve(Channel* channel) override;
  /// Whether every published step has been taken, and the episodes have ended.
  [[nodiscard]] bool finished() const noexcept override;
  void left(bool died) noexcept override;
  void pause() noexcept override;

 private:
  struct Stream {
    std::unique_ptr<writer::WriterCore> writer;
    std::uint64_t row = 0;  ///< The next one to be taken.
    /// Of the step of the row, if that is in the writer's hands and was refused so far.
    std::optional<StepHeader> refused;
    std::uint64_t end = 0;  ///< Rows published when the guest left.
  };
  /// Steps that are taken from a ring before others have their turn.
  static constexpr std::size_t kSteps = 256;

  [[nodiscard]] std::size_t take(std::size_t environment);
  void end_episodes() noexcept;
  [[nodiscard]] std::uint64_t published(std::size_t environment) const noexcept;
  [[nodiscard]] bool take_step(std::size_t environment, std::byte* row, const StepHeader& header);
  [[nodiscard]] std::vector<float> priorities(const Stream& stream, std::byte* row,
                                              const StepHeader& header) const;
  void tell(Held held) noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  NeverWait never_wait_;
  const RingLayout layout_;
  Region memory_;
  std::vector<Stream> streams_;
  Held held_ = Held::No;  ///< As the guest was told.
  bool left_ = false;     ///< The guest is gone.
  bool died_ = false;
};

}  // namespace reprise::process
