#include "measuring/evaluation.hpp"

#include "lunar_lander.hpp"
#include "random.hpp"

#include <deque>

namespace apex {
namespace {

/// Actors use the streams from 0.
constexpr std::uint64_t kFirstStream = std::uint64_t{1} << 32U;

}  // namespace

std::uint64_t FreshSeeds::next() {
  return stream_seed(run_seed_, kFirstStream + given_++);
}

Score evaluate(Network network, FreshSeeds& seeds, std::size_t episodes) {
  const c10::InferenceMode no_graph;
  std::deque<LunarLander> landers;
  const auto count = static_cast<std::int64_t>(episodes);
  torch::Tensor states =
      torch::zeros({count, static_cast<std::int64_t>(LunarLander::kObservations)});
  const auto state = [&states](std::size_t e) {
    return std::span(states.data_ptr<float>() + e * LunarLander::kObservations,
                     LunarLander::kObservations);
  };
  for (std::size_t e = 0; e < episodes; ++e) {
    landers.emplace_back(seeds.next()).reset(state(e));
  }
  torch::Tensor returns = torch::zeros({count});
  std::vector<bool> over(episodes);
  for (std::size_t left = episodes; left != 0;) {
    const torch::Tensor actions = network->forward(states).argmax(1);
    for (std::size_t e = 0; e < episodes; ++e) {
      if (over[e]) {
        continue;
      }
      const auto action = static_cast<std::int32_t>(actions.data_ptr<std::int64_t>()[e]);
      const LunarLander::Outcome outcome = landers[e].step(action, state(e));
      returns.data_ptr<float>()[e] += outcome.reward;
      if (outcome.end != reprise::End::Continue) {
        over[e] = true;
        --left;
      }
    }
  }
  return {.episodes = episodes,
          .mean = returns.mean().item<float>(),
          .deviation = episodes < 2 ? 0.0F : returns.std().item<float>()};
}

}  // namespace apex
