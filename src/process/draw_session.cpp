#include "buffer/update.hpp"
#include "process/session.hpp"

#include <algorithm>
#include <exception>
#include <limits>

namespace reprise::process {
template <class Call>
bool CallSession::guarded(std::uint64_t number, Channel& channel, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    channel.send(MessageKind::Failed, failure_of(number, error));
  }
  return true;
}

bool CallSession::handle(const Message& message, Channel& channel) {
  const std::optional<std::uint64_t> number = value_of<std::uint64_t>(message.bytes);
  if (!number) {
    return false;
  }
  if (message.kind == MessageKind::AskStats) {
    channel.send(MessageKind::Stats, joined(*number, bytes_of(core_->stats())));
    return true;
  }
  const auto call = value_of<UpdateCall>(message.bytes);
  constexpr std::size_t kEach = sizeof(ItemKey) + sizeof(float);
  if (message.kind != MessageKind::Update || !call ||
      (message.bytes.size() - sizeof(UpdateCall)) % kEach != 0 ||
      (message.bytes.size() - sizeof(UpdateCall)) / kEach != call->keys) {
    return false;
  }
  std::vector<ItemKey> keys(call->keys);
  std::vector<float> priorities(call->keys);
  if (!keys.empty()) {
    const std::byte* const at = message.bytes.data() + sizeof(UpdateCall);
    std::memcpy(static_cast<void*>(keys.data()), at, keys.size() * sizeof(ItemKey));
    std::memcpy(priorities.data(), at + keys.size() * sizeof(ItemKey),
                priorities.size() * sizeof(float));
  }
  return guarded(*number, channel, [&] {
    const UpdateResult result = buffer::update(*core_, keys, priorities, call->selector);
    channel.send(MessageKind::Updated, bytes_of(UpdateAnswer{.number = *number, .result = result}));
    return true;
  });
}

bool DrawSession::handle(const Message& message, Channel& channel) {
  if (message.kind == MessageKind::Cancel) {
    if (draw_ && value_of<std::uint64_t>(message.bytes) == draw_->call.number) {
      return guarded(draw_->call.number, channel,
                     [&] { return attempt(channel, /*cancelled=*/true); });
    }
    return true;
  }
  if (message.kind != MessageKind::Sample) {
    return CallSession::handle(message, channel);
  }
  const auto call = value_of<SampleCall>(message.bytes);
  if (!call) {
    return false;
  }
  end_draw();  // Of an earlier call, which the guest has given up.
  return guarded(call->number, channel, [&] {
    begin(*call);
    if (call->only_checks != 0) {
      draw_.reset();
      channel.send(MessageKind::Sampled,
                   bytes_of(SampleAnswer{.number = call->number, .memory_bytes = 0, .status = {}}));
    } else {
      attempt(channel, /*cancelled=*/false);
    }
    return true;
  });
}

/// Checks the call, and gets memory for its batch.
void DrawSession::begin(const SampleCall& call) {
  const auto n = static_cast<std::size_t>(call.items);
  SampleOptions options;
  options.beta = call.beta;
  options.normalise = call.normalise;
  options.draws = call.draws;
  options.gather = call.gather != 0;
  if (call.n_step != 0) {
    options.n_step = call.n_step;
    options.discount = call.discount;
  }
  options.timeout = std::chrono::nanoseconds(call.timeout_ns);
  base::require(call.normalise <= Normalise::Not && call.draws <= Draws::Epoch,
                base::OptionsOf{"SampleOptions"}, "normalise or draws is of no known kind");
  base::require(n != 0, base::Call{"sample"}, "0 items; allowed: at least 1");
  const std::size_t bytes = batch_.block_bytes(n);
  base::require(bytes <= max_batch_bytes_, base::Call{"sample"}, "a batch of ", n, " items takes ",
                bytes, " bytes; allowed: up to the host's max_batch_bytes, which is ",
                max_batch_bytes_);
  if (bytes > memory_.size()) {
    memory_ = Region::make(bytes);
  }
  batch_.lay_over(memory_.data(), n);
  sampler_.check(batch_, 0, n, options);
  const base::Clock::time_point now = base::Clock::now();
  const base::Clock::time_point deadline = base::deadline_after(options.timeout);
  draw_ = Draw{.call = call, .options = options, .began = now, .deadline = deadline};
}

/// Tries to draw. `cancelled`: the guest has cancelled the draw, so this attempt has to end it.
bool DrawSession::attempt(Channel& channel, bool cancelled) {
  using Code = SampleStatus::Code;
  SampleStatus status;
  try {
    status = sampler_.poll(batch_, 0, static_cast<std::size_t>(draw_->call.items), draw_->options);
  } catch (...) {
    end_draw();
    throw;
  }
  const base::Clock::time_point now = base::Clock::now();
  if (status.code == Code::Stopped) {
    if (!cancelled && now < draw_->deadline) {
      return false;
    }
    status.code = cancelled ? Code::Stopped : Code::TimedOut;
  }
  status.waited = now - draw_->began;
  // Memory only ever grows, so a guest that names its size has this memory already.
  const bool shared = draw_->call.memory_bytes == memory_.size();
  channel.send(MessageKind::Sampled,
               bytes_of(SampleAnswer{.number = draw_->call.number,
                                     .memory_bytes = shared ? 0 : memory_.size(),
                                     .status = status}),
               shared ? -1 : memory_.file());
  end_draw();
  return true;
}

void DrawSession::end_draw() noexcept {
  sampler_.give_up();
  draw_.reset();
}

Session::Progress DrawSession::serve(Channel* channel) {
  if (!draw_ || channel == nullptr) {
    return Progress::Nothing;
  }
  bool answered = false;
  const std::uint64_t number = draw_->call.number;
  static_cast<void>(guarded(number, *channel, [&] {
    answered = attempt(*channel, /*cancelled=*/false);
    return true;
  }));
  return answered ? Progress::Something : Progress::Waits;
}

}  // namespace reprise::process
