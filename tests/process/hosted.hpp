#pragma once

#include <reprise/guest.hpp>
#include <reprise/host.hpp>

#include "testing/test.hpp"

namespace reprise::test {

/// A buffer, and a thread that serves it to guests.
struct Hosted {
  explicit Hosted(ReplayBuffer& buffer, const HostOptions& options = {})
      : replay(buffer), host(buffer, options) {}

  void serve() {
    thread = std::jthread([this](const std::stop_token& stop) { host.run(stop); });
  }
  /// Waits until the buffer has `steps` committed steps, whether their items are decided or not.
  void wait_for_steps(std::uint64_t steps) const {
    yield_while([&] { return replay.stats().committed_steps < steps; });
  }
  [[nodiscard]] const std::string& address() const { return host.address(); }

  ReplayBuffer& replay;
  Host host;
  std::jthread thread;
};

/// A line whose buffer a thread serves, and a guest attached to it.
struct SharedNumberedBuffer : NumberedBuffer {
  explicit SharedNumberedBuffer(const Options& options = SmallOptions{},
                                const HostOptions& how = {}, const AttachOptions& as = {})
      : NumberedBuffer(options),
        hosted(replay, how),
        guest((hosted.serve(), attach(hosted.address(), as))) {}

  Hosted hosted;
  Guest guest;
};

}  // namespace reprise::test
