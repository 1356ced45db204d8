#include <reprise/guest.hpp>

#include "base/life.hpp"
#include "base/mutex.hpp"
#include "process/messages.hpp"
#include "process/region.hpp"
#include "process/ring_writer.hpp"

#include <poll.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

namespace reprise {

using process::Channel;
using process::Message;
using process::MessageKind;
using process::Region;
using process::ServiceAnswer;
using process::ServiceCall;

struct ServiceClient::State : std::enable_shared_from_this<State> {
  explicit State(Channel connected) : channel(std::move(connected)) {}

  [[nodiscard]] std::optional<Message> answer() REPRISE_EXCLUDES(mutex);
  /// Returns the bytes of an answer. Throws what the service threw.
  [[nodiscard]] Blob bytes_of(Message& message) REPRISE_EXCLUDES(mutex);
  [[nodiscard]] std::shared_ptr<Region> memory_of(const ServiceAnswer& answer, Message& message)
      REPRISE_EXCLUDES(mutex);
  void close_if_broken() REPRISE_REQUIRES(mutex);

  base::Life life;  ///< Closed once the host is known to be gone.
  base::Mutex mutex;
  Channel channel REPRISE_GUARDED_BY(mutex);
  bool welcome REPRISE_GUARDED_BY(mutex) = false;  ///< Whether the host accepted this client.
  /// Shared pointers, because answers keep their memory.
  std::array<std::shared_ptr<Region>, ServiceAnswer::kPlaces> places REPRISE_GUARDED_BY(mutex);
  std::uint64_t read REPRISE_GUARDED_BY(mutex) = 0;  ///< As in `ServiceCall`.
};

namespace {

Channel connected(const std::string& address) {
  const base::Life life;
  process::HostWait host(life, {.timeout = std::chrono::nanoseconds(0)});
  return Channel(process::connect(address, host.wait, process::IfAbsent::Fail));
}

}  // namespace

ServiceClient::ServiceClient(const std::string& address)
    : state_(std::make_shared<State>(connected(address))) {
  const base::MutexLock lock(state_->mutex);
  state_->channel.post(MessageKind::Hello,
                       process::bytes_of(process::Hello{.purpose = process::Purpose::Service}), {});
}

ServiceClient::ServiceClient(ServiceClient&&) noexcept = default;
ServiceClient& ServiceClient::operator=(ServiceClient&&) noexcept = default;

ServiceClient::~ServiceClient() {
  if (state_ && !state_->life.forked()) {
    const base::MutexLock lock(state_->mutex);
    state_->channel.hang_up();  // Answers that still exist keep the state.
  }
}

void ServiceClient::ask(std::uint64_t number, std::span<const std::byte> call) {
  state_->life.check_not_forked();
  const base::MutexLock lock(state_->mutex);
  const ServiceCall head{.number = number, .read = std::exchange(state_->read, 0)};
  state_->channel.post(MessageKind::Call, process::bytes_of(head), call);
  state_->close_if_broken();
}

std::optional<ServiceClient::Answer> ServiceClient::take() {
  state_->life.check_not_forked();
  std::optional<Message> message = state_->answer();
  if (!message) {
    return std::nullopt;
  }
  Answer answer;
  answer.number = process::value_of<std::uint64_t>(message->bytes).value_or(0);
  try {
    answer.bytes = state_->bytes_of(*message);
  } catch (...) {
    answer.error = std::current_exception();
  }
  return answer;
}

bool ServiceClient::closed() const noexcept {
  return state_->life.closed();
}

/// Returns the next answer that has come, or nothing.
std::optional<Message> ServiceClient::State::answer() {
  const base::MutexLock lock(mutex);
  channel.flush();
  bool more = !life.closed();
  for (;;) {
    while (std::optional<Message> message = channel.next()) {
      if (welcome &&
          (message->kind == MessageKind::Answered || message->kind == MessageKind::Failed)) {
        return message;
      }
      welcome = message->kind == MessageKind::Welcome;
      if (!welcome) {
        life.close();
      }
    }
    if (!more) {
      close_if_broken();
      return std::nullopt;
    }
    more = false;
    if (!channel.receive()) {
      life.close();
    }
  }
}

void ServiceClient::State::close_if_broken() {
  if (channel.broken()) {
    life.close();
  }
}

Blob ServiceClient::State::bytes_of(Message& message) {
  if (message.kind == MessageKind::Failed) {
    process::rethrow(message.bytes);
  }
  const auto answer = process::value_of<ServiceAnswer>(message.bytes);
  if (answer && answer->place < ServiceAnswer::kPlaces) {
    std::shared_ptr<Region> memory = memory_of(*answer, message);
    std::byte* const data = memory->data();
    // Once no copy of the answer is left, the host may use the place again.
    const auto has_read = [self = shared_from_this(), memory = std::move(memory),
                           place = answer->place](const std::byte* /*data*/) {
      if (!self->life.forked()) {
        const base::MutexLock lock(self->mutex);
        self->read |= std::uint64_t{1} << place;
      }
    };
    return {std::shared_ptr<std::byte>(data, has_read), static_cast<std::size_t>(answer->bytes)};
  }
  if (!answer || message.bytes.size() - sizeof(ServiceAnswer) != answer->bytes) {
    base::refuse<std::runtime_error>("the host answered ", message.bytes.size(), " bytes");
  }
  const auto whole = std::make_shared<std::vector<std::byte>>(std::move(message.bytes));
  return {std::shared_ptr<std::byte>(whole, whole->data() + sizeof(ServiceAnswer)),
          static_cast<std::size_t>(answer->bytes)};
}

std::shared_ptr<Region> ServiceClient::State::memory_of(const ServiceAnswer& answer,
                                                        Message& message) {
  const base::MutexLock lock(mutex);
  std::shared_ptr<Region>& memory = places[answer.place];
  if (answer.memory_bytes != 0) {
    memory = std::make_shared<Region>(Region::map(std::move(message.file), answer.memory_bytes));
  }
  if (!memory || memory->size() < answer.bytes) {
    base::refuse<std::runtime_error>("the host answered in memory that it did not give");
  }
  return memory;
}

bool ServiceClient::wait(std::span<ServiceClient* const> clients,
                         std::chrono::nanoseconds timeout) {
  std::vector<pollfd> polled;
  for (ServiceClient* const client : clients) {
    State& state = *client->state_;
    state.life.check_not_forked();
    const base::MutexLock lock(state.mutex);
    const short events = state.channel.unsent() ? POLLIN | POLLOUT : POLLIN;
    polled.push_back({state.life.closed() ? -1 : state.channel.socket(), events, 0});
    polled.push_back({state.life.closed() ? -1 : state.channel.process(), POLLIN, 0});
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec most{seconds.count(), (timeout - seconds).count()};
  return ::ppoll(polled.data(), polled.size(), &most, nullptr) > 0;
}

}  // namespace reprise
