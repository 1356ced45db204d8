#include "base/divider.hpp"
#include "sampler/sampler_core.hpp"

#include <algorithm>
#include <thread>

namespace reprise::sampler {
namespace {

/// A sampler that was woken and still lacks items sleeps this long before it registers again, so
/// that filling a buffer does not cost a wake per commit.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(100);

/// Writes into the status why there is no batch.
void explain(SampleStatus& status, limiter::WaitEnd end, limiter::Limiter::Answer answer,
             const limiter::Limiter& limiter) noexcept {
  using Answer = limiter::Limiter::Answer;
  using Code = SampleStatus::Code;
  if (end == limiter::WaitEnd::Closed) {
    status.code = Code::Closed;
    return;
  }
  status.code = end == limiter::WaitEnd::Stopped ? Code::Stopped : Code::TimedOut;
  status.held_by_ratio = answer == Answer::AheadOfInserts;
  status.held_by_queue = answer == Answer::TooFewItems && limiter.is_queue();
  if (status.held_by_ratio) {
    status.balance = limiter.balance();
  }
}

}  // namespace

SamplerCore::Takes SamplerCore::takes(std::size_t n, const SampleOptions& options) const noexcept {
  // With `Unlimited` nobody waits, not even for items.
  if (core_->limiter().is_unlimited()) {
    return {};
  }
  return {snapshot_draw_.distinct(n, options.draws),
          snapshot_draw_.counts_draws(options.draws) ? n : 0};
}

/// The items and draws that the buffer has.
SamplerCore::Takes SamplerCore::has(const Takes& takes) const noexcept {
  return {core_->shards().items(), takes.draws == 0 ? 0 : core_->shards().draws_left()};
}

/// An estimate of how many items the buffer has to have before the batch can be drawn, for the
/// demand: it assumes that new items have all their draws left.
std::size_t SamplerCore::items_for(const Takes& takes, const Takes& has) const noexcept {
  const std::size_t missing =
      takes.draws <= has.draws
          ? 0
          : base::divide_up(takes.draws - has.draws, core_->options().max_times_sampled);
  return std::max(takes.items, missing == 0 ? 0 : has.items + missing);
}

/// Asks for admission once; if it is granted, the limiter has counted the batch as sampled.
limiter::Limiter::Answer SamplerCore::admit(const Takes& takes, SampleStatus& status) noexcept {
  const Takes has = this->has(takes);
  status.items = has.items;
  status.draws = takes.draws == 0 ? status.batch : std::min(has.draws, status.batch);
  if (!has.covers(takes)) {
    return limiter::Limiter::Answer::TooFewItems;
  }
  return core_->limiter().admit_samples(status.batch,
                                        [&] { return status.items = core_->counted(); });
}

/// Waits until the buffer has the items and draws of the batch and the limiter has admitted and
/// counted it.
void SamplerCore::wait(const Takes& takes, limiter::WaitTerms& terms, SampleStatus& status) {
  status.needed = std::max(core_->limiter().needed(status.batch), takes.items);

  core_->shards().ingest_pending();
  if (core_->closed()) {
    status.code = SampleStatus::Code::Closed;
    return;
  }
  const limiter::Limiter::Answer answer = admit(takes, status);
  if (answer != limiter::Limiter::Answer::Admitted) {
    wait_until_admitted(takes, terms, answer, status);
  }
}

/// The part of `wait` after a first look that was not admitted.
void SamplerCore::wait_until_admitted(const Takes& takes, limiter::WaitTerms& terms,
                                      limiter::Limiter::Answer answer, SampleStatus& status) {
  using Answer = limiter::Limiter::Answer;
  limiter::Wait wait(
      terms,
      answer == Answer::AheadOfInserts ? &core_->samplers_for_limiter : &core_->samplers_for_items,
      &core_->items_event);
  if (wait.refused()) {
    explain(status, limiter::WaitEnd::Stopped, answer, core_->limiter());
    return;
  }
  const auto admitted = [&] {
    answer = core_->closed() ? answer : admit(takes, status);
    return answer == Answer::Admitted;
  };
  const std::chrono::nanoseconds waited_before = status.waited;
  limiter::Demand::Call call(core_->demand);
  for (;;) {
    {
      // I11: register, look again, only then sleep.
      const base::Event::Registration registration(core_->items_event);
      const std::uint32_t ticket = registration.ticket();
      core_->shards().drain();
      if (admitted()) {
        break;
      }
      if (const Takes has = this->has(takes); !has.covers(takes)) {
        call.make(items_for(takes, has));
        // E1: a demand is progress for writers that a ratio holds.
        core_->room_event.wake_registered();
      }
      if (const auto end = wait.over()) {
        explain(status, *end, answer, core_->limiter());
        break;
      }
      wait.sleep(registration, ticket);
    }
    core_->shards().ingest_pending();
    if (admitted()) {
      break;
    }
    std::this_thread::sleep_for(kNap);
  }
  status.waited = waited_before + wait.waited();
}

}  // namespace reprise::sampler
