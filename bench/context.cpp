// Adds to every report what the figures depend on and the framework does not say.

#include <benchmark/benchmark.h>

namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "g++ " __VERSION__;
#else
constexpr const char* kCompiler = "unknown";
#endif

[[maybe_unused]] const bool kAdded = [] {
  benchmark::AddCustomContext("compiler", kCompiler);
#if defined(NDEBUG)
  benchmark::AddCustomContext("asserts", "off");
#else
  benchmark::AddCustomContext("asserts", "on");
#endif
  return true;
}();

}  // namespace
