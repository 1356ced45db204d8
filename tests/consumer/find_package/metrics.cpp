// Links the installed reprise::metrics.
#include <reprise/metrics.hpp>

int main() {
  const reprise::metrics::Metrics metrics;
  return metrics.collectable() == nullptr ? 1 : 0;
}
