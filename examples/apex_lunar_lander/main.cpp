#include "measuring/plot.hpp"
#include "measuring/progress.hpp"
#include "measuring/report.hpp"
#include "options.hpp"
#include "tensor_threads.hpp"
#include "training.hpp"

#include <csignal>
#include <cstdio>
#include <exception>

namespace {

constexpr int kSolved = 0;
constexpr int kNotSolved = 1;
constexpr int kFailed = 2;

apex::Result train_with_progress(const apex::Options& options) {
  apex::Progress progress;
  return apex::train(options,
                     [&progress](const apex::Snapshot& snapshot) { progress.show(snapshot); });
}

int run(const apex::Options& options) {
  apex::use_one_tensor_thread();
  // A missing gnuplot is reported where it happens, not by the signal of a closed pipe.
  std::signal(SIGPIPE, SIG_IGN);
  const apex::Result result = train_with_progress(options);
  apex::print_result(options, result);
  if (!options.json_path.empty()) {
    apex::write_json(options.json_path, options, result);
  }
  if (!options.plot_path.empty()) {
    apex::draw_plot(options.plot_path, options, result);
    std::printf("Learning curve: %s\n", options.plot_path.c_str());
  }
  return result.solved ? kSolved : kNotSolved;
}

}  // namespace

int main(int argc, char** argv) {
  const apex::ParsedOptions parsed = apex::parse_options(argc, argv);
  if (parsed.exit_code >= 0) {
    return parsed.exit_code;
  }
  try {
    return run(parsed.options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "apex_lunar_lander: %s\n", error.what());
    return kFailed;
  }
}
