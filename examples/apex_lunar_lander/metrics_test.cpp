#include "support/http.hpp"
#include "training.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace apex {
namespace {

/// The port in a line that a training run prints.
std::uint16_t port_in(const std::string& printed) {
  const std::string host = "http://127.0.0.1:";
  const std::size_t found = printed.find(host);
  return static_cast<std::uint16_t>(
      found == std::string::npos ? 0 : std::stoi(printed.substr(found + host.size())));
}

/// A metric's value as it is served; 0 if there is none.
double value(const std::string& text, const std::string& metric) {
  const std::size_t found = text.find("\n" + metric + " ");
  return found == std::string::npos ? 0.0 : std::stod(text.substr(found + metric.size() + 2));
}

/// Ends a training run.
struct Served {};

TEST(Metrics, AreServedWhileTrainingGoesOn) {
  Options options;
  options.actors = 1;
  options.environments = 4;
  options.warmup_steps = 200;
  options.hidden = 8;
  options.time_limit_seconds = 600.0;
  options.metrics_port = 0;
  testing::internal::CaptureStdout();
  std::uint16_t port = 0;
  const auto scrape = [&](const Snapshot& snapshot) {
    if (port == 0) {
      port = port_in(testing::internal::GetCapturedStdout());
    }
    const std::string text = reprise::test::http_get(port, "/metrics");
    EXPECT_GE(value(text, "reprise_committed_steps_total{buffer=\"replay\"}"),
              static_cast<double>(snapshot.environment_steps));
    for (const std::string metric : {
             "reprise_call_seconds_count{buffer=\"replay\",call=\"append\"}",
             "reprise_call_seconds_count{buffer=\"replay\",call=\"sample\"}",
             "reprise_call_seconds_count{buffer=\"replay\",call=\"update\"}",
             "reprise_sample_age_steps_count{buffer=\"replay\"}",
             "reprise_sample_reuse_count{buffer=\"replay\"}",
         }) {
      if (value(text, metric) == 0.0) {
        return;  // Not yet.
      }
    }
    throw Served();
  };
  EXPECT_THROW(static_cast<void>(train(options, scrape)), Served);
}

}  // namespace
}  // namespace apex
