#include "support/http.hpp"
#include "training.hpp"

#include <gtest/gtest.h>

#include <string>

namespace apex {
namespace {

double value(const std::string& text, const std::string& name) {
  const std::size_t found = text.find("\n" + name + " ");
  return found == std::string::npos ? -1.0 : std::stod(text.substr(found + name.size() + 2));
}

/// The port in a line that a training run prints.
std::uint16_t port_in(const std::string& printed) {
  const std::string host = "http://127.0.0.1:";
  const std::size_t found = printed.find(host);
  return static_cast<std::uint16_t>(
      found == std::string::npos ? 0 : std::stoi(printed.substr(found + host.size())));
}

TEST(Metrics, AreServedWhileTrainingGoesOn) {
  Options options;
  options.actors = 1;
  options.environments = 4;
  options.warmup_steps = 200;
  options.hidden = 8;
  options.time_limit_seconds = 2.0;
  options.metrics_port = 0;
  testing::internal::CaptureStdout();
  std::uint16_t port = 0;
  std::string last;
  const Result result = train(options, [&](const Snapshot& snapshot) {
    if (port == 0) {
      port = port_in(testing::internal::GetCapturedStdout());
    }
    last = reprise::test::http_get(port, "/metrics");
    const double steps = value(last, "reprise_committed_steps_total{buffer=\"replay\"}");
    EXPECT_GE(steps, static_cast<double>(snapshot.environment_steps));
  });
  for (const std::string call : {"append", "sample", "update"}) {
    EXPECT_GT(value(last, "reprise_call_seconds_count{buffer=\"replay\",call=\"" + call + "\"}"),
              0.0)
        << call;
  }
  EXPECT_GT(value(last, "reprise_sample_age_steps_count{buffer=\"replay\"}"), 0.0);
  EXPECT_GT(value(last, "reprise_sample_reuse_count{buffer=\"replay\"}"), 0.0);
  EXPECT_GT(result.replay.sampled_batches, 0U);
}

}  // namespace
}  // namespace apex
