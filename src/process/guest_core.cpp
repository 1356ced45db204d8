#include "process/guest_core.hpp"

#include "window/batch_access.hpp"

#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace reprise::process {
namespace {

/// How long a cancelled request still waits for the host's answer, because the host may be stopped.
constexpr std::chrono::nanoseconds kCancelTimeout = std::chrono::milliseconds(200);
/// How long a thread sleeps before it looks again whether another thread's call has ended.
constexpr std::chrono::nanoseconds kLockRetryInterval = std::chrono::microseconds(100);
/// How often a thread looks for an answer before it sleeps. Most answers come sooner than a thread
/// wakes up.
constexpr int kLooks = 100;

}  // namespace

/// Waits for the answer to the last request. Returns nothing if the wait ends before it comes.
std::optional<Message> Caller::answer(limiter::Wait& wait) {
  for (int looks = 1;; ++looks) {
    connection_->receive();
    while (std::optional<Message> message = connection_->channel.next()) {
      // A late answer to an earlier request, which was given up, is dropped.
      if (value_of<std::uint64_t>(message->bytes) != number_) {
        continue;
      }
      if (message->kind == MessageKind::Failed) {
        rethrow(message->bytes);
      }
      return message;
    }
    if (wait.over()) {
      return std::nullopt;
    }
    if (looks < kLooks) {
      std::this_thread::yield();
    } else {
      connection_->channel.wait(wait.remaining_pause(kPollInterval));
    }
  }
}

std::optional<Message> Caller::cancel() {
  HostWait host(life(), {.timeout = kCancelTimeout});
  connection_->send(MessageKind::Cancel, bytes_of(number_), host.wait);
  return answer(host.wait);
}

UpdateResult Caller::update(std::span<const ItemKey> keys, std::span<const float> priorities,
                            std::size_t selector, limiter::Wait& wait) {
  base::require(keys.size() == priorities.size(), base::Call{"update_priorities"}, keys.size(),
                " keys and ", priorities.size(), " priorities; allowed: as many of each");
  constexpr std::size_t kMaxKeys =
      (Channel::kMaxMessageBytes - sizeof(UpdateCall)) / (sizeof(ItemKey) + sizeof(float));
  base::require(keys.size() <= kMaxKeys, base::Call{"update_priorities"}, keys.size(),
                " keys; allowed: up to ", kMaxKeys, " in one call of a guest");
  const std::vector<std::byte> behind = joined(std::as_bytes(keys), std::as_bytes(priorities));
  const std::optional<Message> message =
      ask(MessageKind::Update, UpdateCall{.selector = selector, .keys = keys.size()}, behind, wait);
  const auto answer = message ? value_of<UpdateAnswer>(message->bytes) : std::nullopt;
  return answer ? answer->result
                : UpdateResult{.applied = 0, .stale = life().closed() ? keys.size() : 0};
}

void Caller::farewell() noexcept {
  if (!life().forked()) {
    // Sent without waiting, because only a statistic depends on the message.
    connection_->channel.send(MessageKind::Bye);
  }
}

DrawClient::DrawClient(std::unique_ptr<Connection> opened, const SamplerOptions& options,
                       std::size_t selector)
    : caller_(std::move(opened)),
      selector_(selector),
      unique_frames_(options.unique_frames),
      store_(new window::BatchStore(caller_.outline().format.schema,
                                    caller_.outline().format.window, nullptr,
                                    options.unique_frames)),
      batch_(window::BatchAccess::batch(store_)) {}

SampleCall DrawClient::call_of(std::size_t n, const SampleOptions& options) const {
  const window::Targets targets = store_->window().targets(options.n_step, options.discount);
  return {.items = n,
          .timeout_ns = options.timeout.count(),
          .memory_bytes = memory_.size(),
          .beta = options.beta,
          .n_step = targets.n_step,
          .discount = targets.discount,
          .normalise = options.normalise,
          .draws = options.draws,
          .gather = options.gather ? std::uint8_t{1} : std::uint8_t{0}};
}

void DrawClient::check(const window::BatchStore& batch, std::size_t n,
                       const SampleOptions& options) {
  check(batch, 0, n);
  SampleCall call = call_of(n, options);
  call.only_checks = 1;
  HostWait host = caller_.host_wait();
  static_cast<void>(caller_.ask(MessageKind::Sample, call, {}, host.wait));
}

SampleStatus DrawClient::draw(std::size_t n, const SampleOptions& options) {
  base::require(options.timeout.count() >= 0, base::OptionsOf{"SampleOptions"}, "timeout is ",
                options.timeout.count(), " ns; allowed: at least 0");
  // The host ends the wait. In case the host is stopped, this process ends it a little later.
  const std::chrono::nanoseconds patience =
      options.timeout >= kNoTimeout - Connection::kReplyTimeout
          ? kNoTimeout
          : options.timeout + Connection::kReplyTimeout;
  limiter::WaitTerms terms(&caller_.life(), patience, options.stop, options.hook);
  limiter::Wait wait(terms, nullptr, nullptr);
  const bool stopped = wait.refused() || options.stop.stop_requested();
  SampleCall call = call_of(n, options);
  call.timeout_ns = stopped ? 0 : call.timeout_ns;
  std::optional<Message> message = caller_.ask(MessageKind::Sample, call, {}, wait);
  if (!message && !caller_.life().closed()) {
    message = caller_.cancel();
  }
  const auto answer = message ? value_of<SampleAnswer>(message->bytes) : std::nullopt;
  if (!answer) {
    SampleStatus status = outlook(n);
    if (status.code != SampleStatus::Code::Closed &&
        (wait.refused() || options.stop.stop_requested())) {
      status.code = SampleStatus::Code::Stopped;
    }
    status.waited = wait.waited();
    return status;
  }
  if (answer->memory_bytes != 0) {
    memory_ = Region::map(std::move(message->file), answer->memory_bytes);
  }
  SampleStatus status = answer->status;
  if (status.code == SampleStatus::Code::TimedOut && stopped) {
    status.code = SampleStatus::Code::Stopped;
  }
  {
    const base::MutexLock lock(mutex_);
    last_ = status;
  }
  if (status.code == SampleStatus::Code::Ok) {
    if (memory_.size() < store_->block_bytes(n)) {
      base::refuse<std::runtime_error>("the host answered with a batch that it has no memory for");
    }
    store_->lay_over(memory_.data(), n);
    store_->size = n;
  }
  return status;
}

Batch DrawClient::make_batch(std::size_t n, std::pmr::memory_resource* memory) const {
  const buffer::Format& format = caller_.outline().format;
  return window::BatchAccess::make(format.schema, format.window, n, memory, unique_frames_);
}

/// The counts that the host told last, because this process knows no newer ones.
SampleStatus DrawClient::outlook(std::size_t n) const {
  caller_.life().check_not_forked();
  SampleStatus status;
  {
    const base::MutexLock lock(mutex_);
    status = last_;
  }
  status.code = caller_.life().closed() ? SampleStatus::Code::Closed : SampleStatus::Code::TimedOut;
  status.batch = status.possible = n;
  return status;
}

void DrawClient::check(const window::BatchStore& batch, std::size_t offset, std::size_t n) const {
  const buffer::Format& format = caller_.outline().format;
  batch.check_places("GuestSampler::sample_into", format.schema, format.window, offset, n);
}

std::unique_ptr<Connection> GuestCore::open(const Hello& hello) {
  life_.check_not_forked();
  try {
    if (!closed()) {
      return open_connection(address_, hello, attach_options_, &life_);
    }
  } catch (const HostGone&) {
    life_.close();
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::connection_refused) {
      life_.close();  // A host that closes refuses connections before it hangs up on its guests.
    } else if (!closed()) {  // A host hangs up on its guests before it removes its socket's file.
      throw;
    }
  }
  base::refuse<std::runtime_error>(base::Call{"Guest"}, "it is closed, or its host is gone");
}

bool GuestCore::try_lock(limiter::Wait& wait) {
  while (!mutex_.try_lock()) {
    if (wait.over()) {
      return false;
    }
    wait.pause(kLockRetryInterval);
  }
  return true;
}

UpdateResult GuestCore::update(std::span<const ItemKey> keys, std::span<const float> priorities,
                               std::size_t selector) {
  life_.check_not_forked();  // In a forked child the mutex may be locked for ever.
  HostWait host(life_, attach_options_);
  if (!try_lock(host.wait)) {
    return {.applied = 0, .stale = life_.closed() ? keys.size() : 0};
  }
  const ScopedUnlock unlock(mutex_, caller_);
  return caller_.update(keys, priorities, selector, host.wait);
}

/// Ends the waits of calls that are under way, but does not wait for the calls to end: this may be
/// called from the hook of such a call.
void GuestCore::close() noexcept {
  if (!life_.forked()) {
    life_.close();
    if (mutex_.try_lock()) {  // Otherwise the call under way says farewell.
      const ScopedUnlock unlock(mutex_, caller_);
    }
  }
}

/// Looks whether the host is gone, unless another call is under way, which looks by itself.
bool GuestCore::closed() noexcept {
  if (!life_.closed() && !life_.forked() && mutex_.try_lock()) {
    try {
      caller_.check_host();
    } catch (const std::bad_alloc&) {  // The next call will notice if the host is gone.
    }
    mutex_.unlock();
  }
  return life_.closed();
}

Stats GuestCore::stats() {
  life_.check_not_forked();
  HostWait host(life_, attach_options_);
  std::optional<Message> message;
  if (try_lock(host.wait)) {
    const ScopedUnlock unlock(mutex_, caller_);
    struct {
      std::uint64_t number = 0;
    } const call;
    message = caller_.ask(MessageKind::AskStats, call, {}, host.wait);
  }
  if (!message && !life_.closed()) {
    no_answer("Guest::stats", host.wait);
  }
  if (!message) {
    base::refuse<std::runtime_error>(base::Call{"Guest::stats"}, "the host is gone");
  }
  return stats_of(std::span(message->bytes).subspan(sizeof(std::uint64_t)));
}

}  // namespace reprise::process
