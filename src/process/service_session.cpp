#include "process/service_session.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <span>

namespace reprise::process {
namespace {

/// Answers of at most this many bytes are sent in the message.
constexpr std::size_t kSmall = 4096;

}  // namespace

Blob AnswerMemory::allocate(std::size_t bytes) {
  std::size_t place = 0;
  std::byte* data = nullptr;
  if (bytes > kSmall) {
    const base::MutexLock lock(mutex_);
    place = free_place(bytes);
    if (place < places_.size()) {
      places_[place].kept = true;
      data = places_[place].memory.data();
    }
  }
  if (data == nullptr) {
    return Blob(bytes);
  }
  // The mutex is not held here, because destroying the blob locks it.
  return {std::shared_ptr<std::byte>(data, [self = shared_from_this(), place](
                                               const std::byte* /*data*/) { self->let_go(place); }),
          bytes};
}

/// Returns the number of a free place with at least `bytes` bytes of memory, which may be made for
/// it; `ServiceAnswer::kPlaces` if no place is free.
std::size_t AnswerMemory::free_place(std::size_t bytes) {
  const auto is_free = [](const Place& place) { return !place.kept && !place.unread; };
  auto found = std::ranges::find_if(
      places_, [&](const Place& place) { return is_free(place) && place.memory.size() >= bytes; });
  if (found == places_.end()) {
    found = std::ranges::find_if(places_, is_free);
    if (found == places_.end()) {
      if (places_.size() == ServiceAnswer::kPlaces) {
        return places_.size();
      }
      found = places_.emplace(places_.end());
    }
    found->memory = Region::make(std::bit_ceil(bytes));
    found->mapped_by_guest = false;
  }
  return static_cast<std::size_t>(found - places_.begin());
}

void AnswerMemory::let_go(std::size_t place) noexcept {
  const base::MutexLock lock(mutex_);
  places_[place].kept = false;
}

ServiceAnswer AnswerMemory::give(const Blob& answer, int& file) {
  ServiceAnswer head{.bytes = answer.bytes().size()};
  const base::MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(places_, [&](const Place& place) {
    return place.kept && place.memory.data() == answer.bytes().data();
  });
  if (found != places_.end()) {
    head.place = static_cast<std::uint64_t>(found - places_.begin());
    found->unread = true;
    if (!found->mapped_by_guest) {
      found->mapped_by_guest = true;
      head.memory_bytes = found->memory.size();
      file = found->memory.file();
    }
  }
  return head;
}

void AnswerMemory::take_back(std::uint64_t places) noexcept {
  const base::MutexLock lock(mutex_);
  for (std::size_t place = 0; place < places_.size(); ++place) {
    if ((places >> place & 1U) != 0) {
      places_[place].unread = false;
    }
  }
}

bool ServiceSession::handle(const Message& message, Channel& channel) {
  const auto call = value_of<ServiceCall>(message.bytes);
  if (message.kind != MessageKind::Call || !call) {
    return false;
  }
  memory_->take_back(call->read);
  try {
    const Bytes asked = std::span(message.bytes).subspan(sizeof(ServiceCall));
    answer(call->number, service_(asked, [&](std::size_t n) { return memory_->allocate(n); }),
           channel);
  } catch (const std::exception& error) {
    channel.post(MessageKind::Failed, failure_of(call->number, error), {});
  }
  return true;
}

Session::Progress ServiceSession::serve(Channel* channel) {
  if (channel == nullptr || !channel->unsent()) {
    return Progress::Nothing;
  }
  channel->flush();
  return channel->unsent() ? Progress::Waits : Progress::Something;
}

void ServiceSession::answer(std::uint64_t number, Blob bytes, Channel& channel) {
  int file = -1;
  ServiceAnswer head = memory_->give(bytes, file);
  if (head.place == ServiceAnswer::kInline && head.bytes > kSmall) {
    // The answer is not in a place: the service did not ask for memory, or no place was free.
    Blob copy = memory_->allocate(bytes.bytes().size());
    std::ranges::copy(std::as_const(bytes).bytes(), copy.bytes().begin());
    bytes = copy;
    head = memory_->give(bytes, file);
  }
  head.number = number;
  const bool behind = head.place == ServiceAnswer::kInline;
  channel.post(MessageKind::Answered, bytes_of(head),
               behind ? std::as_const(bytes).bytes() : Bytes(), file);
}

}  // namespace reprise::process
