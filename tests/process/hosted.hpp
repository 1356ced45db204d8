#pragma once

#include <reprise/guest.hpp>
#include <reprise/host.hpp>

#include "testing/test.hpp"

namespace reprise::test {

/// A buffer, its host and, after `serve`, a thread that serves guests.
struct Hosted {
  explicit Hosted(ReplayBuffer& buffer, const HostOptions& options = {})
      : replay(buffer), host(buffer, options) {}

  void serve() {
    thread = std::jthread([this](const std::stop_token& stop) { host.run(stop); });
  }
  /// Waits until the host has committed `steps` steps to the buffer. Some may not be items yet.
  void wait_for_steps(std::uint64_t steps) const {
    yield_while([&] { return replay.stats().committed_steps < steps; });
  }
  [[nodiscard]] const std::string& address() const { return host.address(); }

  ReplayBuffer& replay;
  Host host;
  std::jthread thread;
};

/// A numbered buffer that a thread serves, with an attached guest.
struct SharedNumberedBuffer : NumberedBuffer {
  explicit SharedNumberedBuffer(const Options& options = SmallOptions{},
                                const HostOptions& host_options = {},
                                const AttachOptions& guest_options = {})
      : NumberedBuffer(options),
        hosted(replay, host_options),
        guest((hosted.serve(), attach(hosted.address(), guest_options))) {}

  Hosted hosted;
  Guest guest;
};

}  // namespace reprise::test
