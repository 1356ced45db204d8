#pragma once

#include <reprise/host.hpp>

#include "buffer/buffer_core.hpp"
#include "process/session.hpp"

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace reprise::process {

/// Serves a buffer to guests, with a session for each connection. One thread runs it at a time.
class Server {
 public:
  Server(std::shared_ptr<buffer::BufferCore> core, const HostOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return listener_.address(); }
  void run(const std::stop_token& stop);

 private:
  /// A connection, from its greeting to the last step that its guest has published.
  struct Guest {
    Channel channel;
    std::int64_t process = 0;
    std::unique_ptr<Session> session = nullptr;
    /// False once its connection has ended. Steps that it published may still have to be taken.
    bool connected = true;
    bool closed_by_guest = false;  ///< Whether the guest closed the connection by itself.
  };

  /// What `serve_guests` has done: whether any guest sent messages, and the most that a session
  /// did.
  struct Served {
    bool heard = false;
    Session::Progress most = Session::Progress::Nothing;
  };
  /// Guests by whether they are connected.
  enum class Guests : std::uint8_t { All, Gone };

  void wait(std::chrono::nanoseconds timeout);
  [[nodiscard]] Served serve_guests();
  void end_connections();
  void accept();
  /// Handles a guest's messages. Returns whether messages came or the guest is gone.
  bool receive(Guest& guest);
  [[nodiscard]] bool handle(Guest& guest, const Message& message);
  [[nodiscard]] bool greet(Guest& guest, const Message& message);
  [[nodiscard]] std::unique_ptr<Session> open(const Hello& hello, Welcome& welcome, int& memory);
  [[nodiscard]] Session::Progress serve(Guest& guest);
  void on_disconnect(Guest& guest) noexcept;
  void take_remaining_steps(Guests of);
  void count();

  const std::shared_ptr<buffer::BufferCore> core_;
  const std::size_t ring_rows_;  ///< Rows of each ring; 0: the size of a step decides.
  const std::size_t max_batch_bytes_;
  const Service service_;  ///< May be empty.
  Listener listener_;
  Descriptor spare_;  ///< A descriptor in reserve, for `accept`.
  std::vector<std::unique_ptr<Guest>> guests_;
  /// The listener, and the descriptors of guests that are `connected`.
  std::vector<pollfd> polled_;
  bool full_ = false;            ///< Whether a process could not be accepted, nor told why.
  bool changed_ = false;         ///< Whether guests came or left since the last `count`.
  std::uint64_t processes_ = 0;  ///< How many processes the last `count` found.
};

}  // namespace reprise::process
