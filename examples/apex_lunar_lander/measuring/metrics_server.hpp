#pragma once

#include <reprise/metrics.hpp>

#include <cstdint>
#include <memory>

namespace apex {

/// Measures the calls of a buffer and serves its metrics to this machine alone, until destroyed.
class MetricsServer {
 public:
  /// `port`: 0 for any that is free. Prints the address. `std::system_error` for one in use.
  MetricsServer(reprise::ReplayBuffer& replay, std::uint16_t port);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  [[nodiscard]] reprise::metrics::Meter& meter() { return meter_; }

 private:
  class Server;

  reprise::metrics::Metrics metrics_;
  reprise::metrics::Meter meter_;
  std::unique_ptr<Server> server_;
};

}  // namespace apex
