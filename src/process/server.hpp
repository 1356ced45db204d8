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

/// Serves a buffer to guests, each connection by a session. One thread runs it at a time.
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
    bool here = true;  ///< Else only what it has published is left.
    bool bye = false;  ///< It closed the connection by itself.
  };

  void wait(std::chrono::nanoseconds timeout);
  void accept();
  /// True if there were messages.
  bool receive(Guest& guest);
  [[nodiscard]] bool handle(Guest& guest, const Message& message);
  [[nodiscard]] bool greet(Guest& guest, const Message& message);
  [[nodiscard]] std::unique_ptr<Session> open(const Hello& hello, Welcome& welcome, int& memory);
  [[nodiscard]] Session::Did serve(Guest& guest);
  void lose(Guest& guest) noexcept;
  void take_the_rest();
  void count();

  const std::shared_ptr<buffer::BufferCore> core_;
  const std::size_t ring_rows_;  ///< 0: by their bytes.
  const std::size_t max_batch_bytes_;
  const Service service_;  ///< May be empty.
  Listener listener_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<pollfd> polled_;   ///< The listener, and two for each guest.
  bool changed_ = false;         ///< Who is here, since it was counted.
  std::uint64_t processes_ = 0;  ///< As counted last.
};

}  // namespace reprise::process
