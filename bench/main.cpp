// The main program of Google Benchmark with three switches of ours. It also reports facts on which
// the figures depend and which the framework leaves out: compiler, asserts and instruction set.

#include "records.hpp"

#include <benchmark/benchmark.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "g++ " __VERSION__;
#else
constexpr const char* kCompiler = "unknown";
#endif

/// Removes the switch `name` from the arguments. Returns whether it was among them.
bool take_switch(int& count, char** arguments, std::string_view name) {
  char** const end = std::remove(arguments, arguments + count, name);
  const bool taken = end != arguments + count;
  count = static_cast<int>(end - arguments);
  *end = taken ? nullptr : *end;
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  // Ignores AVX-512 on a machine that has it.
  if (take_switch(argc, argv, "--without_avx512")) {
    constexpr std::int64_t kBetterThanAvx2 = HWY_AVX2 - 1;  // The bits of better targets are lower.
    hwy::DisableTargets(kBetterThanAvx2);
  }
  // Runs the records, and nothing else, because their buffers take gigabytes.
  const bool quick_records = take_switch(argc, argv, "--quick_records");
  if (take_switch(argc, argv, "--records") || quick_records) {
    bench::add_records(quick_records);
    benchmark::SetBenchmarkFilter("^records/");
  }
  benchmark::AddCustomContext("compiler", kCompiler);
#if defined(NDEBUG)
  benchmark::AddCustomContext("asserts", "off");
#else
  benchmark::AddCustomContext("asserts", "on");
#endif
  const std::int64_t targets = hwy::SupportedTargets();
  // Chooses the instruction set last, because each call of SupportedTargets chooses anew, from all
  // instruction sets of the machine.
  hwy::GetChosenTarget().Update(targets);
  benchmark::AddCustomContext("instructions", hwy::TargetName(targets & -targets));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
