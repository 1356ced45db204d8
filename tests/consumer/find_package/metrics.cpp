// Links reprise::metrics, which the quickstart does not need.
#include <reprise/metrics.hpp>

int main() {
  const reprise::metrics::Metrics metrics;
  return metrics.collectable() == nullptr ? 1 : 0;
}
