#include "base/divider.hpp"
#include "sampler/sampler_core.hpp"

#include <algorithm>
#include <stop_token>
#include <thread>

namespace reprise::sampler {
namespace {

/// A sampler that was woken for less than it needs naps unregistered before it registers again, so
/// that filling a buffer does not cost a wake per commit.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(100);

/// Why the wait ends without a batch.
void explain(SampleStatus& status, SampleStatus::Code code, limiter::Limiter::Answer answer,
             const limiter::Limiter& limiter) noexcept {
  using Answer = limiter::Limiter::Answer;
  status.code = code;
  status.held_by_ratio = answer == Answer::AheadOfInserts;
  status.held_by_queue = answer == Answer::TooFewItems && limiter.is_queue();
  if (status.held_by_ratio) {
    status.balance = limiter.balance();
  }
}

}  // namespace

SamplerCore::Takes SamplerCore::takes(std::size_t n, const SampleOptions& options) const noexcept {
  // Without any limit nobody waits for items either.
  if (core_->limiter().is_unlimited()) {
    return {};
  }
  return {snapshot_draw_.distinct(n, options.draws),
          snapshot_draw_.counts_draws(options.draws) ? n : 0};
}

/// What the buffer has of what a batch takes.
SamplerCore::Takes SamplerCore::has(const Takes& takes) const noexcept {
  return {core_->shards().items(), takes.draws == 0 ? 0 : core_->shards().draws_left()};
}

/// How many items there have to be before a batch can be drawn, as far as what is there tells.
std::size_t SamplerCore::items_for(const Takes& takes, const Takes& has) const noexcept {
  const std::size_t missing =
      takes.draws <= has.draws
          ? 0
          : base::divide_up(takes.draws - has.draws, core_->options().max_times_sampled);
  return std::max(takes.items, missing == 0 ? 0 : has.items + missing);
}

/// Counts the batch as sampled if it is admitted now.
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

/// Whether the wait is over, stopped or timed out; explains it then.
bool SamplerCore::ended(base::Clock::time_point deadline, const std::stop_token& stop,
                        limiter::Limiter::Answer answer, limiter::WaitMeter::Wait& wait,
                        SampleStatus& status) {
  const bool stopped = stop.stop_requested();
  if (!stopped && base::Clock::now() < deadline) {
    return false;
  }
  explain(status, stopped ? SampleStatus::Code::Stopped : SampleStatus::Code::TimedOut, answer,
          core_->limiter());
  stopped ? wait.stopped() : wait.timed_out();
  return true;
}

/// Waits until the buffer has what the batch takes and the limiter admits it, and counts it as
/// sampled.
void SamplerCore::wait(const Takes& takes, const SampleOptions& options, SampleStatus& status) {
  using Answer = limiter::Limiter::Answer;
  using Code = SampleStatus::Code;
  limiter::Limiter& limiter = core_->limiter();
  status.needed = std::max(limiter.needed(status.batch), takes.items);

  core_->shards().ingest_pending();
  if (core_->closed()) {
    status.code = Code::Closed;
    return;
  }
  const Answer answer = admit(takes, status);
  if (answer == Answer::Admitted) {
    return;
  }
  limiter::HookedWait hooked(options.hook);
  if (hooked.refused_to_begin()) {
    explain(status, Code::Stopped, answer, limiter);
  } else {
    wait_until_admitted(takes, options, hooked, answer, status);
  }
}

/// `wait` once there is something to wait for.
void SamplerCore::wait_until_admitted(const Takes& takes, const SampleOptions& options,
                                      limiter::HookedWait& hooked, limiter::Limiter::Answer answer,
                                      SampleStatus& status) {
  using Answer = limiter::Limiter::Answer;
  using Code = SampleStatus::Code;
  const auto admitted = [&] {
    answer = admit(takes, status);
    return answer == Answer::Admitted;
  };
  const std::chrono::nanoseconds waited_before = status.waited;
  limiter::WaitMeter::Wait wait(answer == Answer::AheadOfInserts ? core_->samplers_for_limiter
                                                                 : core_->samplers_for_items);
  const std::stop_callback wake_on_stop(options.stop, [this] { core_->items_event.wake_all(); });
  limiter::Demand::Call call(core_->demand);
  if (!deadline_) {
    deadline_ = base::deadline_after(options.timeout);
  }
  const base::Clock::time_point deadline = *deadline_;
  for (;;) {
    {
      // I11: register, look again, only then sleep.
      const base::Event::Registration registration(core_->items_event);
      const std::uint32_t ticket = registration.ticket();
      core_->shards().drain();
      if (core_->closed()) {
        status.code = Code::Closed;
      } else if (!admitted()) {
        if (const Takes has = this->has(takes); !has.covers(takes)) {
          call.make(items_for(takes, has));
          // Samplers that ask for items are progress for writers held by a ratio (E1).
          core_->room_event.wake_registered();
        }
        if (!ended(deadline, options.stop, answer, wait, status)) {
          registration.wait(ticket, hooked.until(deadline));
        }
      }
      status.waited = waited_before + wait.elapsed();
      if (status.code != Code::Ok || answer == Answer::Admitted) {
        return;
      }
    }
    core_->shards().ingest_pending();
    if (!core_->closed() && admitted()) {
      status.waited = waited_before + wait.elapsed();
      return;
    }
    if (core_->closed() || options.stop.stop_requested()) {
      continue;
    }
    if (hooked.refused()) {
      explain(status, Code::Stopped, answer, core_->limiter());
      wait.stopped();
      status.waited = waited_before + wait.elapsed();
      return;
    }
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace reprise::sampler
