#include "api/sampler_core.hpp"

#include <algorithm>
#include <optional>
#include <thread>

namespace reprise::detail {
namespace {

/// A sampler that was woken for less than it needs naps unregistered before it registers again, so
/// that filling a buffer does not cost a wake per commit.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(100);

}  // namespace

/// Waits until there are so many different items and the limiter admits n, and counts these as
/// sampled.
SampleStatus SamplerCore::wait(std::size_t n, std::size_t distinct,
                               std::chrono::nanoseconds timeout) {
  using Answer = api::Limiter::Answer;
  using Code = SampleStatus::Code;
  api::Limiter& limiter = core_->limiter();
  SampleStatus status;
  Answer answer = Answer::TooFewItems;
  const auto admitted = [&] {
    status.items = core_->samplable();
    status.needed = std::max(limiter.min_size(), distinct);
    answer = status.items < distinct ? Answer::TooFewItems : limiter.admit_samples(n, status.items);
    status.held_by_ratio = answer == Answer::AheadOfInserts;
    if (answer == Answer::Admitted && limiter.limits_inserts()) {
      // Counted samples are the progress that writers wait for (E1).
      core_->room_event.wake_registered();
    }
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
  api::WaitMeter::Wait wait(answer == Answer::AheadOfInserts ? core_->samplers_for_limiter
                                                             : core_->samplers_for_items);
  const base::Clock::time_point deadline = base::deadline_after(timeout);
  for (;;) {
    {
      // I11: register, look again, only then sleep.
      const base::Event::Registration registration(core_->items_event);
      const std::uint32_t ticket = registration.ticket();
      core_->drain();
      if (core_->closed()) {
        status.code = Code::Closed;
      } else if (!admitted()) {
        if (base::Clock::now() < deadline) {
          registration.wait(ticket, deadline);
          status.code = Code::Ok;
        } else {
          status.code = Code::TimedOut;
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
    if (!core_->closed()) {
      std::this_thread::sleep_for(kNap);
    }
  }
}

}  // namespace reprise::detail
