#pragma once

#include <reprise/guest.hpp>

#include "buffer/outline.hpp"
#include "process/channel.hpp"
#include "process/messages.hpp"
#include "process/ring.hpp"
#include "writer/step_writer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::process {

/// The wait of a guest's call for its host.
struct HostWait {
  HostWait(const base::Life& life, AttachOptions options)
      : attach_options(std::move(options)),
        terms(&life, attach_options.timeout, attach_options.stop, attach_options.hook),
        wait(terms, nullptr, nullptr) {}

  const AttachOptions attach_options;
  limiter::WaitTerms terms;
  limiter::Wait wait;
};

/// A guest's end of a connection that the host has accepted. One thread at a time.
struct Connection {
  Channel channel;
  std::shared_ptr<const buffer::Outline> outline;
  Welcome welcome;
  Region memory;    ///< The rings of a writer; empty for other purposes.
  base::Life life;  ///< Closed once the host is known to be gone.

  /// Sends a message. The host counts as gone if it has not taken the whole message when the wait
  /// ends. Returns false if it is gone.
  bool send(MessageKind kind, Bytes bytes, limiter::Wait& wait) noexcept;
  /// Takes what has come, and closes `life` if the host is gone.
  void receive();
  /// As `receive`, for a writer: drops wakes, which only say that there may be room, and keeps the
  /// text of a refusal.
  void drain_messages();
  std::string refusal;  ///< Why the host has ended a writer's connection, if it said why.

  AttachOptions attach_options;  ///< How calls wait for the host.
  static constexpr std::chrono::nanoseconds kReplyTimeout = std::chrono::seconds(30);
};

/// Throws the `std::system_error` of a call that got no answer although the host is not gone.
[[noreturn]] void no_answer(const char* call, limiter::Wait& wait);

/// Thrown if the host hangs up before it has accepted the connection.
struct HostGone : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Asks the host at an address for a connection. `guest`: the life of a guest that asks for a
/// further connection; closing the guest ends the wait. For a first connection it is null, and the
/// call also waits for a host to listen. Throws `std::system_error` if no host listens or answers,
/// `HostGone` if the host hangs up, and `std::runtime_error` with the reason if the host refuses.
[[nodiscard]] std::unique_ptr<Connection> open_connection(const std::string& address,
                                                          const Hello& hello,
                                                          const AttachOptions& options,
                                                          const base::Life* guest = nullptr);

/// The connection of a guest's writer, or of all writers of a vector writer, with the layout of its
/// memory.
struct WriterConnection {
  WriterConnection(std::unique_ptr<Connection> opened, std::size_t environments);
  ~WriterConnection();
  WriterConnection(const WriterConnection&) = delete;
  WriterConnection& operator=(const WriterConnection&) = delete;

  const std::unique_ptr<Connection> connection;
  const RingLayout layout;
};

/// One writer of a guest: appends an environment's episodes to its ring.
///
/// ```
///   consumed ............. row         row + 1    row + 2, row + 3
///   not taken by the host  now         next       free
/// ```
/// A commit waits until two rows behind `next` are free, and only then takes its step. So `now` and
/// `next` always have rows, also after the end of an episode, which takes two rows.
///
/// One thread at a time.
class RingWriter final : public writer::StepWriter {
 public:
  RingWriter(std::shared_ptr<WriterConnection> connection, std::size_t environment,
             const WriterOptions& options);
  /// Ends an open episode as truncated, also if other writers keep the connection.
  ~RingWriter() override;
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  void begin_episode() override;
  CommitStatus commit(End end, std::span<const float> priorities) override;

 private:
  static constexpr std::uint64_t kRowsAhead = 4;  ///< Rows from `row_` on that have to be free.

  [[nodiscard]] bool has_room() noexcept { return row_ + kRowsAhead <= consumed_ + layout_.rows(); }
  [[nodiscard]] std::optional<CommitStatus> wait_for_room();
  void cut_episode() noexcept;
  void check_disk() const;
  void check_refusal() const;
  void write_header(const StepHeader& header) noexcept;
  void point_at_rows() noexcept;

  const std::shared_ptr<WriterConnection> connection_;
  const RingLayout& layout_;
  std::byte* const memory_;
  const std::size_t environment_;
  RingLayout::Words& words_;
  std::uint64_t row_ = 0;       ///< The row of the current step.
  std::uint64_t consumed_ = 0;  ///< The ring's `consumed` when it was last read.
  /// The ring's `consumed` when the last `Wake` was sent; before the first one a number above all.
  std::uint64_t consumed_at_last_wake_ = ~std::uint64_t{0};
  std::uint64_t episodes_ = 0;        ///< How many episodes were begun.
  std::int64_t last_host_check_ = 0;  ///< When `commit` last looked whether the host is gone.
};

}  // namespace reprise::process
