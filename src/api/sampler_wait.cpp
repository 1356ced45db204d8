#include "api/sampler_core.hpp"

#include <algorithm>
#include <stop_token>
#include <thread>

namespace reprise::detail {
namespace {

/// A sampler that was woken for less than it needs naps unregistered before it registers again, so
/// that filling a buffer does not cost a wake per commit.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(100);

}  // namespace

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
    status.items = core_->windows();
    answer = status.items < distinct
                 ? Answer::TooFewItems
                 : limiter.admit_samples(n, [&] { return status.items = core_->counted(); });
    return answer == Answer::Admitted;
  };
  const auto explained = [&](Code code) {
    status.code = code;
    status.held_by_ratio = answer == Answer::AheadOfInserts;
    status.held_by_queue = answer == Answer::TooFewItems && limiter.is_queue();
    if (status.held_by_ratio) {
      status.balance = limiter.balance();
    }
  };

  core_->ingest_pending();
  if (core_->closed()) {
    status.code = Code::Closed;
    return status;
  }
  if (admitted()) {
    return status;
  }
  api::WaitMeter::Wait wait(answer == Answer::AheadOfInserts ? core_->samplers_for_limiter
                                                             : core_->samplers_for_items);
  const std::stop_callback wake_on_stop(options.stop, [this] { core_->items_event.wake_all(); });
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
        if (options.stop.stop_requested()) {
          explained(Code::Stopped);
          wait.stopped();
        } else if (base::Clock::now() < deadline) {
          registration.wait(ticket, deadline);
        } else {
          explained(Code::TimedOut);
          wait.timed_out();
        }
      }
      status.waited = wait.elapsed();
      if (status.code != Code::Ok || answer == Answer::Admitted) {
        return status;
      }
    }
    core_->ingest_pending();
    if (!core_->closed() && admitted()) {
      status.waited = wait.elapsed();
      return status;
    }
    if (!core_->closed() && !options.stop.stop_requested()) {
      std::this_thread::sleep_for(kNap);
    }
  }
}

}  // namespace reprise::detail
