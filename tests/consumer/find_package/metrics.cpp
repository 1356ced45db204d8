// Links the optional library; the quickstart needs the buffer alone.
#include <reprise/metrics.hpp>

int main() {
  const reprise::metrics::Metrics metrics;
  return metrics.collectable() == nullptr ? 1 : 0;
}
