#include "measuring/metrics_server.hpp"

#include <prometheus/exposer.h>

#include <cstdio>
#include <string>

namespace apex {

MetricsServer::MetricsServer(reprise::ReplayBuffer& replay, std::uint16_t port)
    : meter_(metrics_.watch(replay)),
      exposer_(std::make_unique<prometheus::Exposer>("127.0.0.1:" + std::to_string(port))) {
  exposer_->RegisterCollectable(metrics_.collectable());
  std::printf("Metrics: http://127.0.0.1:%d/metrics\n", exposer_->GetListeningPorts().front());
  std::fflush(stdout);
}

MetricsServer::~MetricsServer() = default;

}  // namespace apex
