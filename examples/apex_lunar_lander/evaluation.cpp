#include "evaluation.hpp"

#include "lunar_lander.hpp"
#include "random.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace apex {
namespace {

/// Actors use the streams from 0.
constexpr std::uint64_t kFirstStream = std::uint64_t{1} << 32U;

float play_greedily(ActorNetwork& network, std::uint64_t seed) {
  LunarLander lander(seed);
  std::array<float, LunarLander::kObservations> state = {};
  std::array<float, LunarLander::kActions> values = {};
  lander.reset(state);
  float sum = 0.0F;
  LunarLander::Outcome outcome;
  while (outcome.end == reprise::End::Continue) {
    network.evaluate(state, values);
    outcome = lander.step(static_cast<std::int32_t>(best_action(values)), state);
    sum += outcome.reward;
  }
  return sum;
}

}  // namespace

std::uint64_t FreshSeeds::next() {
  return stream_seed(run_seed_, kFirstStream + given_++);
}

Score evaluate(ActorNetwork& network, FreshSeeds& seeds, std::size_t episodes) {
  std::vector<float> returns(episodes);
  for (float& episode_return : returns) {
    episode_return = play_greedily(network, seeds.next());
  }
  const auto count = static_cast<float>(episodes);
  const float mean = std::accumulate(returns.begin(), returns.end(), 0.0F) / count;
  float squares = 0.0F;
  for (const float episode_return : returns) {
    squares += (episode_return - mean) * (episode_return - mean);
  }
  return {.episodes = episodes,
          .mean = mean,
          .deviation = episodes < 2 ? 0.0F : std::sqrt(squares / (count - 1.0F))};
}

}  // namespace apex
