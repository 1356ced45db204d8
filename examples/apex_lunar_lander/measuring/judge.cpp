#include "measuring/judge.hpp"

#include "tensor_threads.hpp"

#include <chrono>

namespace apex {
namespace {

constexpr std::size_t kScreeningEpisodes = 20;
constexpr std::size_t kFinalEpisodes = 100;

}  // namespace

Judge::Judge(const Options& options, const NetworkBoard& board)
    : options_(options), board_(board), network_(board.shape()), seeds_(options.seed) {}

void Judge::start() {
  if (!verdict_.valid()) {
    verdict_ = std::async(std::launch::async, [this] {
      use_one_tensor_thread();
      return try_newest();
    });
  }
}

bool Judge::passed() {
  return verdict_.valid() &&
         verdict_.wait_for(std::chrono::seconds(0)) == std::future_status::ready && verdict_.get();
}

void Judge::judge_last() {
  if (verdict_.valid()) {
    verdict_.get();
  }
  board_.fetch(network_, version_);
  run_final_test();
}

bool Judge::try_newest() {
  if (!board_.fetch(network_, version_) ||
      evaluate(network_, seeds_, kScreeningEpisodes).mean < options_.screen_score) {
    return false;
  }
  run_final_test();
  return score_.mean >= options_.target_score;
}

void Judge::run_final_test() {
  score_ = evaluate(network_, seeds_, kFinalEpisodes);
  ++final_tests_;
}

}  // namespace apex
