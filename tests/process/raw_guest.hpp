#pragma once

#include "process/hosted.hpp"
#include "process/messages.hpp"
#include "process/ring_writer.hpp"
#include "testing/test.hpp"

#include <sys/socket.h>
#include <sys/un.h>

namespace reprise::test {

/// A guest's writer without checks: tests write what they want into the shared memory.
class RawWriter {
 public:
  explicit RawWriter(const std::string& address, std::size_t environments = 1)
      : connection(process::open_connection(
            address, {.purpose = process::Purpose::Writer, .environments = environments},
            {.timeout = std::chrono::seconds(60)})),
        layout(connection->outline->format, environments, connection->welcome.ring_rows),
        memory(connection->memory.data()) {}

  [[nodiscard]] process::RingLayout::Words& words(std::size_t environment = 0) const {
    return process::RingLayout::words(memory, environment);
  }
  [[nodiscard]] std::byte* row(std::uint64_t row, std::size_t environment = 0) const {
    return layout.row(memory, environment, row);
  }
  void header(std::uint64_t at, const process::StepHeader& header,
              std::size_t environment = 0) const {
    std::memcpy(row(at, environment), &header, sizeof(header));
  }
  /// Whether the host has ended the connection.
  [[nodiscard]] bool is_disconnected() const {
    connection->drain_messages();
    return connection->life.closed();
  }

  std::unique_ptr<process::Connection> connection;
  process::RingLayout layout;
  std::byte* memory;
};

/// A connection to the host at this address, without a greeting.
inline process::Channel raw_channel(const std::string& address) {
  const base::Life life;
  process::HostWait host(life, {.timeout = std::chrono::seconds(60)});
  return process::Channel(process::connect(address, host.wait, process::IfAbsent::Wait));
}

/// Waits for the next message; none if the other end has hung up.
inline std::optional<process::Message> answer(process::Channel& channel) {
  for (;;) {
    const bool open = channel.receive();
    std::optional<process::Message> message = channel.next();
    if (message || !open) {
      return message;
    }
    channel.wait(std::chrono::milliseconds(10));
  }
}

/// A served buffer with one guest that keeps to the protocol, beside the hostile guests of a test.
struct HostileFixture : SharedNumberedBuffer {
  explicit HostileFixture(const Options& options = SmallOptions{},
                          const HostOptions& host_options = {.ring_steps = 16})
      : SharedNumberedBuffer(options, host_options) {}
  /// Expects the host to answer, and to have no other guest.
  void expect_served() { EXPECT_EQ(guest.stats().guests, 1U); }
  /// Waits until the buffer has no writers. The steps of all hostile guests are counted then.
  void wait_until_no_writers() {
    yield_while([&] { return replay.stats().writers != 0; });
  }
  [[nodiscard]] std::uint64_t committed() const { return replay.stats().committed_steps; }
};

}  // namespace reprise::test
