#include "select/candidates.hpp"

#include "base/text.hpp"

#include <stdexcept>

namespace reprise::select {
namespace {

constexpr std::uint32_t kMostCompared = 256;

std::uint32_t checked(const char* strategy, std::uint32_t compared) {
  if (compared < 1 || compared > kMostCompared) {
    throw std::invalid_argument(
        base::text(strategy, "::candidates is ", compared, "; allowed: 1 to ", kMostCompared));
  }
  return compared;
}

}  // namespace

Candidates::Candidates(const char* strategy, std::uint32_t compared, std::uint32_t chunks)
    : compared_(checked(strategy, compared)), members_(chunks), entries_(chunks) {}

}  // namespace reprise::select
