// Draws by a selector of the user's own. Exits with 0 if draws are in proportion to the weights.
#include <reprise/reprise.hpp>

#include "capped.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <set>
#include <vector>

namespace {

constexpr std::size_t kItems = 1'000;
constexpr std::size_t kDraws = 100'000;
// The priorities that items get in turn.
constexpr std::array<float, 4> kErrors = {0.01F, 1.0F, 10.0F, 100.0F};

/// Prints the counts of draws; returns whether each is within 5 standard deviations of its
/// expectation.
bool print_and_check(const std::array<double, kErrors.size()>& drawn,
                     const std::array<float, kErrors.size()>& weights) {
  double total = 0.0;
  for (const float weight : weights) {
    total += double{weight};
  }
  bool fits = true;
  for (std::size_t k = 0; k < kErrors.size(); ++k) {
    const double expected = double{kDraws} * double{weights[k]} / total;
    std::printf("error %6.2f: drawn %.0f times, expected %.0f\n", double{kErrors[k]}, drawn[k],
                expected);
    fits = fits && std::abs(drawn[k] - expected) < 5.0 * std::sqrt(expected);
  }
  return fits;
}

}  // namespace

int main() {
  reprise::Schema schema;
  const auto kind = schema.column<std::uint32_t>("kind");
  reprise::ReplayBuffer replay(
      schema, {.capacity_steps = kItems, .selectors = {Capped{}}, .chunk_steps = 16, .shards = 4});
  auto writer = replay.writer();
  writer.begin_episode();
  for (std::uint32_t i = 0; i < kItems; ++i) {
    writer.now(kind) = i % kErrors.size();
    writer.commit(reprise::End::Continue, std::span(&kErrors.at(i % kErrors.size()), 1));
  }
  auto sampler = replay.sampler({.seed = 1});
  const auto draw = [&] {
    std::array<double, kErrors.size()> drawn{};
    const auto batch = sampler.sample(kDraws, {.draws = reprise::Draws::Independent});
    for (const std::uint32_t k : batch->now(kind)) {
      drawn.at(k) += 1.0;
    }
    return drawn;
  };
  const float capped = std::pow(11.0F, 0.4F);
  bool good =
      print_and_check(draw(), {std::pow(1.01F, 0.4F), std::pow(2.0F, 0.4F), capped, capped});

  const auto all = sampler.sample(kItems, {.draws = reprise::Draws::WithoutReplacement});
  good = good && std::set(all->keys().begin(), all->keys().end()).size() == kItems;
  replay.update_priorities(all->keys(), std::vector<float>(kItems));
  std::puts("and after all priorities were set to 0:");
  good = print_and_check(draw(), {1.0F, 1.0F, 1.0F, 1.0F}) && good;
  return good ? 0 : 1;
}
