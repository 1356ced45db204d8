// reprise-stress: checks a replay buffer under actors and learners that come and go. See --help.

#include "program/options.hpp"
#include "program/report.hpp"
#include "program/schedule.hpp"
#include "testing/library.hpp"

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  try {
    const stress::ParsedOptions parsed = stress::parse_options(argc, argv);
    if (parsed.exit_code >= 0) {
      return parsed.exit_code;
    }
    stress::set_schedule(parsed.options.schedule);
    std::printf("command  ");  // First, so that the output of a crash shows it too.
    for (int i = 0; i < argc; ++i) {
      std::printf(" %s", argv[i]);
    }
    std::printf("\n");
    std::fflush(stdout);
    stress::Tally tally;
    stress::run(parsed.options, tally);
    stress::print_summary(tally);
    return tally.findings.violations() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::invalid_argument& error) {
    // Only the buffer can check some options, such as whether a window fits into a chunk.
    std::fprintf(stderr, "reprise-stress: %s\n", error.what());
    return stress::kBadUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise-stress: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
