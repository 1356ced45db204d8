#pragma once

#include "limiter/wait.hpp"
#include "process/region.hpp"
#include "record/bytes.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace reprise::process {

using record::Bytes;

/// The kinds of messages. The first ones are the same in every version.
enum class MessageKind : std::uint32_t {  // NOLINT(performance-enum-size): as it is sent.
  Hello = 1,
  Welcome = 2,
  Refused = 3,  ///< Why the host refuses, in a sentence.
  Wake,         ///< To the host: look at the rings. To a guest: there is room.
  Bye,          ///< The guest closes the connection by itself.
  Sample,
  Cancel,
  Sampled,
  Update,
  Updated,
  AskStats,
  Stats,
  Failed,  ///< A request threw.
  Call,
  Answered,
};

struct Message {
  MessageKind kind = MessageKind::Wake;
  std::vector<std::byte> bytes;
  /// The file that came with the message; not valid if this process had no descriptor left for it.
  Descriptor file;
};

/// How long a waiting process sleeps before it checks for a stop request, which wakes nobody.
inline constexpr std::chrono::nanoseconds kPollInterval = std::chrono::milliseconds(10);

/// One end of a connection between two processes: whole messages in both directions, over a Unix
/// socket. The other end is gone once it hangs up or its process has ended; the hang-up alone would
/// not show that, because a forked child may have a copy of the socket. One thread at a time.
class Channel {
 public:
  Channel() noexcept = default;
  explicit Channel(Descriptor socket) noexcept;

  [[nodiscard]] int socket() const noexcept { return socket_.number(); }
  /// A descriptor that is readable once the process at the other end has ended; -1 if the system
  /// has no such descriptors.
  [[nodiscard]] int process() const noexcept { return process_.number(); }

  /// Sends a message. Returns false if the other end is gone, or has not taken the whole message
  /// when `wait` ends; without a `wait` it has to take the message at once. After that the channel
  /// cannot be used.
  bool send(MessageKind kind, Bytes bytes = {}, int file = -1,
            limiter::Wait* wait = nullptr) noexcept;
  /// Sends a message without bytes to wake the other end. If the socket is full of earlier
  /// messages, it sends nothing, because they wake the other end as well.
  void nudge(MessageKind kind) noexcept;
  /// Sends a message with the bytes of `front` and then `behind`, as far as the socket takes them,
  /// and keeps the rest for `flush`. The channel breaks if too much is kept.
  void post(MessageKind kind, Bytes front, Bytes behind, int file = -1);
  /// Sends as much as the socket takes of what `post` has kept.
  void flush() noexcept;
  /// Whether `post` has kept anything.
  [[nodiscard]] bool unsent() const noexcept { return !unsent_.empty(); }
  /// Ends the connection, also for forked children that have a copy of it.
  void hang_up() noexcept;
  /// Whether a `send` has failed.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// Reads the bytes and files that have come, up to a megabyte and `kMaxFiles` files, without
  /// waiting. Before the call, `next` must have returned all whole messages. Returns false if the
  /// other end is gone, or sent too much for a message; even then `next` may return whole messages.
  [[nodiscard]] bool receive();
  /// Returns the next whole message that has been received, or nothing.
  [[nodiscard]] std::optional<Message> next();
  /// Waits until something has come, the other end is gone, or the timeout is over.
  void wait(std::chrono::nanoseconds timeout) const noexcept;

  static constexpr std::size_t kMaxMessageBytes = std::size_t{256} << 20U;  ///< Of one message.

 private:
  struct Head {
    std::uint32_t bytes = 0;
    std::uint32_t kind = 0;
    std::uint32_t files = 0;
  };
  static constexpr std::size_t kMaxFiles = 4;  ///< Files of messages that `next` has not returned.
  static constexpr int kReads = 64;  ///< The most reads, of 16 KiB, in a call of `receive`.

  Descriptor socket_;
  Descriptor process_;  ///< A pidfd of the other process.
  std::vector<std::byte> received_;
  std::size_t taken_ = 0;  ///< How much of `received_` is in messages that `next` has returned.
  std::deque<Descriptor> files_;
  struct UnsentFile {
    std::size_t at = 0;  ///< Where its message begins in `unsent_`.
    Descriptor file;
  };
  std::vector<std::byte> unsent_;
  std::deque<UnsentFile> unsent_files_;
  std::size_t sent_ = 0;  ///< How much of `unsent_` was sent.
  bool broken_ = false;
};

/// Returns an address that names the same listener in every working directory: a path becomes
/// absolute.
[[nodiscard]] std::string absolute_address(const std::string& address);

/// A socket at which guests attach.
class Listener {
 public:
  /// Throws `std::invalid_argument` for an address that is too short or too long, and
  /// `std::system_error` naming the address if the system refuses it.
  explicit Listener(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int socket() const noexcept { return socket_.number(); }
  /// A path is absolute.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// Refuses every process that wants to attach, also those that wait to be accepted.
  void hang_up() noexcept;
  /// Returns the socket of the next process that wants to attach; not valid, with the reason in
  /// `errno`, if there is no such process, or no file descriptor for it.
  [[nodiscard]] Descriptor accept() const noexcept;
  /// Returns another descriptor of the socket; not valid if the process has none left.
  [[nodiscard]] Descriptor copy() const noexcept;

 private:
  const std::string address_;
  const std::int64_t creator_pid_;  ///< The id of the process that made the listener.
  Descriptor socket_;
};

/// The process at the other end of a socket.
struct Peer {
  std::int64_t process = 0;
  std::int64_t user = 0;
};
[[nodiscard]] Peer peer_of(int socket) noexcept;

/// What `connect` does while there is no listener.
enum class IfAbsent : std::uint8_t { Fail, Wait };
/// Returns a socket connected to the listener at an address. Waits until the listener has room.
/// Throws `std::system_error`, which names the address, if it cannot connect, and
/// `std::runtime_error` if the listener is another user's.
[[nodiscard]] Descriptor connect(const std::string& address, limiter::Wait& wait,
                                 IfAbsent if_absent);

}  // namespace reprise::process
