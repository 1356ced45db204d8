#include "api/sampler_core.hpp"

#include <algorithm>
#include <stop_token>
#include <thread>

namespace reprise::detail {
namespace {

/// A sampler that was woken for less than it needs naps unregistered before it registers again, so
/// that filling a buffer does not cost a wake per commit.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(100);

/// Why the wait ends without a batch.
void explain(SampleStatus& status, SampleStatus::Code code, api::Limiter::Answer answer,
             const api::Limiter& limiter) noexcept {
  using Answer = api::Limiter::Answer;
  status.code = code;
  status.held_by_ratio = answer == Answer::AheadOfInserts;
  status.held_by_queue = answer == Answer::TooFewItems && limiter.is_queue();
  if (status.held_by_ratio) {
    status.balance = limiter.balance();
  }
}

}  // namespace

/// Counts n as sampled if they are admitted now. `items`: those that were counted.
api::Limiter::Answer SamplerCore::admit(std::size_t n, std::size_t distinct,
                                        std::size_t& items) noexcept {
  items = core_->windows();
  if (items < distinct) {
    return api::Limiter::Answer::TooFewItems;
  }
  return core_->limiter().admit_samples(n, [&] { return items = core_->counted(); });
}

/// Whether the wait is over, stopped or timed out; explains it then.
bool SamplerCore::ended(base::Clock::time_point deadline, const std::stop_token& stop,
                        api::Limiter::Answer answer, api::WaitMeter::Wait& wait,
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

/// Waits until there are as many different items as the draw takes and the limiter admits n, and
/// counts these as sampled.
SampleStatus SamplerCore::wait(std::size_t n, const SampleOptions& options) {
  using Answer = api::Limiter::Answer;
  using Code = SampleStatus::Code;
  api::Limiter& limiter = core_->limiter();
  SampleStatus status;
  // Without any limit nobody waits for items either.
  const std::size_t distinct =
      limiter.is_unlimited() ? 0 : snapshot_draw_.distinct(n, options.draws);
  status.needed = std::max(limiter.needed(n), distinct);
  Answer answer = Answer::TooFewItems;
  const auto admitted = [&] {
    answer = admit(n, distinct, status.items);
    return answer == Answer::Admitted;
  };

  core_->ingest_pending();
  if (core_->closed()) {
    status.code = Code::Closed;
    return status;
  }
  if (admitted()) {
    return status;
  }
  api::HookedWait hooked(options.hook);
  if (hooked.refused_to_begin()) {
    explain(status, Code::Stopped, answer, limiter);
  } else {
    wait_until_admitted(n, distinct, options, hooked, answer, status);
  }
  return status;
}

/// The same once there is something to wait for.
void SamplerCore::wait_until_admitted(std::size_t n, std::size_t distinct,
                                      const SampleOptions& options, api::HookedWait& hooked,
                                      api::Limiter::Answer answer, SampleStatus& status) {
  using Answer = api::Limiter::Answer;
  using Code = SampleStatus::Code;
  const auto admitted = [&] {
    answer = admit(n, distinct, status.items);
    return answer == Answer::Admitted;
  };
  api::WaitMeter::Wait wait(answer == Answer::AheadOfInserts ? core_->samplers_for_limiter
                                                             : core_->samplers_for_items);
  const std::stop_callback wake_on_stop(options.stop, [this] { core_->items_event.wake_all(); });
  api::Demand::Call call(core_->demand);
  const base::Clock::time_point deadline = base::deadline_after(options.timeout);
  for (;;) {
    {
      // I11: register, look again, only then sleep.
      const base::Event::Registration registration(core_->items_event);
      const std::uint32_t ticket = registration.ticket();
      core_->drain();
      if (core_->closed()) {
        status.code = Code::Closed;
      } else if (!admitted()) {
        if (status.items < distinct) {
          call.make(distinct);
          // Samplers that ask for items are progress for writers held by a ratio (E1).
          core_->room_event.wake_registered();
        }
        if (!ended(deadline, options.stop, answer, wait, status)) {
          registration.wait(ticket, hooked.until(deadline));
        }
      }
      status.waited = wait.elapsed();
      if (status.code != Code::Ok || answer == Answer::Admitted) {
        return;
      }
    }
    core_->ingest_pending();
    if (!core_->closed() && admitted()) {
      status.waited = wait.elapsed();
      return;
    }
    if (core_->closed() || options.stop.stop_requested()) {
      continue;
    }
    if (hooked.refused()) {
      explain(status, Code::Stopped, answer, core_->limiter());
      wait.stopped();
      status.waited = wait.elapsed();
      return;
    }
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace reprise::detail
