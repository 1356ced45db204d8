#pragma once

#include <reprise/metrics.hpp>

#include "testing/fixtures/http.hpp"
#include "testing/test.hpp"

#include <prometheus/exposer.h>

#include <sstream>

namespace reprise::metrics {

/// The server of all tests. It is never destroyed, because its destructor takes seconds. The
/// metrics of a test are removed from the server when the test's `Metrics` is destroyed.
inline prometheus::Exposer& server() {
  static auto& exposer = *new prometheus::Exposer("127.0.0.1:0", 1);
  return exposer;
}

/// Metrics of buffers, and the values that the server gives for them.
class ServedMetrics {
 public:
  ServedMetrics() { server().RegisterCollectable(metrics.collectable()); }

  [[nodiscard]] std::string text() const {
    return test::http_get(static_cast<std::uint16_t>(server().GetListeningPorts().front()),
                          "/metrics");
  }
  /// The served values, by metric and labels written as in reprise_items{buffer="replay"}.
  [[nodiscard]] std::map<std::string, double> values() const {
    std::map<std::string, double> values;
    std::istringstream lines(text());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("reprise_")) {
        const std::size_t end = line.rfind(' ');
        values[line.substr(0, end)] = std::stod(line.substr(end + 1));
      }
    }
    return values;
  }
  /// One of `values()`; NaN if the server does not have it.
  [[nodiscard]] double value(const std::string& name) const {
    const auto all = values();
    const auto named = all.find(name);
    return named == all.end() ? std::nan("") : named->second;
  }

  Metrics metrics;
};

/// The number of values in each bucket of a histogram, by the bucket's upper bound. Empty buckets
/// are left out.
using Buckets = std::map<double, double>;
inline Buckets buckets(const ServedMetrics& served, const std::string& name,
                       const std::string& labels) {
  Buckets result;
  double before = 0.0;
  std::map<double, double> cumulative;  // The server gives the number of values up to each bound.
  const std::string start = name + "_bucket{" + labels + ",le=\"";
  for (const auto& [key, value] : served.values()) {
    if (key.starts_with(start)) {
      cumulative[std::stod(key.substr(start.size()))] = value;
    }
  }
  for (const auto& [bound, value] : cumulative) {
    if (value != before) {
      result[bound] = value - before;
      before = value;
    }
  }
  return result;
}

constexpr const char* kReplay = "buffer=\"replay\"";

/// Appends like `NumberedBuffer::append`, but commits through the meter.
inline CommitStatus append(test::NumberedBuffer& line, Meter& meter, Writer& writer,
                           std::uint64_t number, End end = End::Continue,
                           std::span<const float> priorities = {}) {
  if (!writer.in_episode()) {
    writer.begin_episode();
    writer.now(line.id) = number;
  }
  writer.now(line.action) = number;
  writer.now(line.reward) = static_cast<float>(number);
  writer.next(line.id) = number + 1;
  return meter.commit(writer, end, priorities);
}

/// A buffer whose calls are measured and whose metrics are served.
struct MeasuredBuffer {
  explicit MeasuredBuffer(Options options = test::SmallOptions{}) : line(std::move(options)) {}

  CommitStatus append(std::uint64_t number, End end, std::span<const float> priorities = {}) {
    return metrics::append(line, meter, writer, number, end, priorities);
  }
  /// Appends steps first to first + count - 1 in one episode, and leaves it open.
  void append_many(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t number = first; number < first + count; ++number) {
      EXPECT_EQ(append(number, End::Continue), CommitStatus::Committed);
    }
  }

  ServedMetrics served;
  test::NumberedBuffer line;
  Meter meter = served.metrics.watch(line.replay);
  Writer writer = line.replay.writer();
  Sampler sampler = line.replay.sampler();
};

}  // namespace reprise::metrics
