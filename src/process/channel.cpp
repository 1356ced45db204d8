#include "process/channel.hpp"

#include "base/text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <system_error>

namespace reprise::process {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

Address address_of(const std::string& text) {
  Address address;
  base::require(text.size() >= 2 && text.size() < sizeof(address.name.sun_path),
                base::OptionsOf{"HostOptions"}, "address is '", text,
                "'; allowed: a path or @name of 2 to ", sizeof(address.name.sun_path) - 1,
                " bytes");
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path, text.data(), text.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  if (text.front() == '@') {
    address.name.sun_path[0] = '\0';
  } else {
    ++address.bytes;
  }
  return address;
}

Descriptor make_socket() {
  Descriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) {
    throw std::system_error(errno, std::generic_category(), "a socket for other processes");
  }
  return made;
}

[[noreturn]] void fail(int error, const std::string& address, const char* what) {
  throw std::system_error(error, std::generic_category(), base::text(what, " '", address, "'"));
}

/// Sends as much of these bytes as the socket takes, and with the first of them a file, unless that
/// is -1.
ssize_t send_with(int socket, std::span<iovec> parts, int file) noexcept {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(with), &file, sizeof(int));
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

/// What is left of these bytes without the first ones.
std::span<iovec> without_front(std::span<iovec> parts, std::size_t bytes) noexcept {
  while (!parts.empty() && bytes >= parts.front().iov_len) {
    bytes -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (!parts.empty()) {
    iovec& part = parts.front();
    part = {static_cast<std::byte*>(part.iov_base) + bytes, part.iov_len - bytes};
  }
  return parts;
}

/// Takes the files that came with these bytes.
void take_files(msghdr& message, std::deque<Descriptor>& files) {
  for (cmsghdr* with = CMSG_FIRSTHDR(&message); with != nullptr;
       with = CMSG_NXTHDR(&message, with)) {
    if (with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= with->cmsg_len; at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, reinterpret_cast<const std::byte*>(with) + at, sizeof(int));
      files.emplace_back(file);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    files.emplace_back();  // The file is lost, but no bytes are: its message comes without it.
  }
}

/// Waits for these events of a socket, or until `other`, if it is not -1, can be read. Returns
/// false after the timeout.
bool wait_for(int socket, short events, std::chrono::nanoseconds timeout, int other = -1) noexcept {
  std::array<pollfd, 2> both{{{socket, events, 0}, {other, POLLIN, 0}}};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec most{seconds.count(), (timeout - seconds).count()};
  return ::ppoll(both.data(), both.size(), &most, nullptr) > 0;
}

/// Throws if the listener at the other end is another user's: once a host is gone, any user may
/// take its address.
void check_user(int socket) {
  const std::int64_t user = peer_of(socket).user;
  if (user != static_cast<std::int64_t>(::geteuid())) {
    base::refuse<std::runtime_error>(base::Call{"attach"}, "this process is of user ", ::geteuid(),
                                     ", the host of user ", user, "; allowed: the same user");
  }
}

}  // namespace

std::string absolute_address(const std::string& address) {
  static_cast<void>(address_of(address));  // Refuses a wrong length of what the caller gave.
  return address.front() == '@' ? address : std::filesystem::absolute(address).string();
}

Channel::Channel(Descriptor socket) noexcept
    : socket_(std::move(socket)),
      process_(static_cast<int>(
          ::syscall(SYS_pidfd_open, static_cast<pid_t>(peer_of(socket_.number()).process), 0U))) {}

void Channel::nudge(MessageKind kind) noexcept {
  const Head head{0, static_cast<std::uint32_t>(kind), 0};
  if (::send(socket(), &head, sizeof(head), MSG_NOSIGNAL) < 0) {
    broken_ = broken_ || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }
}

void Channel::post(MessageKind kind, Bytes front, Bytes behind, int file) {
  const Head head{static_cast<std::uint32_t>(front.size() + behind.size()),
                  static_cast<std::uint32_t>(kind), file >= 0 ? 1U : 0U};
  if (sent_ > unsent_.size() / 2) {
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent_));
    std::ranges::for_each(unsent_files_, [&](UnsentFile& one) { one.at -= sent_; });
    sent_ = 0;
  }
  // Nothing below needs memory, so the message is kept whole or, if this throws, not at all.
  unsent_.reserve(unsent_.size() + sizeof(head) + head.bytes);
  if (file >= 0) {
    // The caller may close its own descriptor before this one is sent.
    unsent_files_.push_back({unsent_.size(), Descriptor(::fcntl(file, F_DUPFD_CLOEXEC, 0))});
    broken_ = broken_ || !unsent_files_.back().file.valid();
  }
  for (const Bytes part : {std::as_bytes(std::span(&head, 1)), front, behind}) {
    unsent_.insert(unsent_.end(), part.begin(), part.end());
  }
  flush();
  broken_ = broken_ || unsent_.size() > 2 * kMaxMessageBytes;
}

void Channel::flush() noexcept {
  while (sent_ < unsent_.size() && !broken_) {
    const bool brings = !unsent_files_.empty() && unsent_files_.front().at == sent_;
    const auto next = unsent_files_.begin() + (brings ? 1 : 0);
    const std::size_t end = next == unsent_files_.end() ? unsent_.size() : next->at;
    iovec part{unsent_.data() + sent_, end - sent_};
    const ssize_t sent =
        send_with(socket(), {&part, 1}, brings ? unsent_files_.front().file.number() : -1);
    if (sent >= 0) {
      sent_ += static_cast<std::size_t>(sent);
      unsent_files_.erase(unsent_files_.begin(), next);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else {
      broken_ = errno != EINTR;
    }
  }
  unsent_.clear();
  unsent_files_.clear();
  sent_ = 0;
}

void Channel::hang_up() noexcept {
  ::shutdown(socket(), SHUT_RDWR);
}

bool Channel::send(MessageKind kind, Bytes bytes, int file, limiter::Wait* wait) noexcept {
  Head head{static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(kind),
            file >= 0 ? 1U : 0U};
  std::array<iovec, 2> parts{
      {{&head, sizeof(head)}, {const_cast<std::byte*>(bytes.data()), bytes.size()}}};
  std::span<iovec> left_parts(parts);
  while (!left_parts.empty()) {
    const ssize_t sent = send_with(socket(), left_parts, file);
    if (sent < 0) {
      if (errno == EINTR) {
        continue;
      }
      if ((errno == EAGAIN || errno == EWOULDBLOCK) && wait != nullptr && !wait->over()) {
        wait_for(socket(), POLLOUT, wait->remaining_pause(kPollInterval), process());
        continue;
      }
      broken_ = true;
      return false;
    }
    file = -1;
    left_parts = without_front(left_parts, static_cast<std::size_t>(sent));
  }
  return true;
}

bool Channel::receive() {
  received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  if (files_.size() >= kMaxFiles) {
    return false;
  }
  // Checked before the reads below, so that the reads get all that the process sent before its end.
  const bool ended = process_.valid() && wait_for(process(), POLLIN, std::chrono::nanoseconds(0));
  for (int reads = 0; reads < kReads; ++reads) {
    std::array<std::byte, 16384> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return !ended && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
    take_files(message, files_);
    if (got == 0) {
      return false;
    }
    received_.insert(received_.end(), bytes.begin(), bytes.begin() + got);
    if (received_.size() > kMaxMessageBytes + sizeof(Head)) {
      return false;
    }
    if (files_.size() >= kMaxFiles) {
      return true;
    }
  }
  return true;
}

std::optional<Message> Channel::next() {
  Head head;
  const std::size_t there = received_.size() - taken_;
  if (there < sizeof(head)) {
    return std::nullopt;
  }
  std::memcpy(&head, received_.data() + taken_, sizeof(head));
  if (there - sizeof(head) < head.bytes || files_.size() < head.files) {
    return std::nullopt;
  }
  Message message;
  message.kind = static_cast<MessageKind>(head.kind);
  const auto begin = received_.begin() + static_cast<std::ptrdiff_t>(taken_ + sizeof(head));
  message.bytes.assign(begin, begin + head.bytes);
  if (head.files != 0) {
    message.file = std::move(files_.front());
    files_.pop_front();
  }
  taken_ += sizeof(head) + head.bytes;
  return message;
}

void Channel::wait(std::chrono::nanoseconds timeout) const noexcept {
  wait_for(socket(), POLLIN, timeout, process());
}

Listener::Listener(const std::string& address)
    : address_(absolute_address(address)), creator_pid_(::getpid()), socket_(make_socket()) {
  const Address at = address_of(address_);
  if (::bind(socket(), reinterpret_cast<const sockaddr*>(&at.name), at.bytes) != 0 ||
      (address_.front() != '@' && ::chmod(address_.c_str(), S_IRUSR | S_IWUSR) != 0) ||
      ::listen(socket(), 128) != 0) {
    fail(errno, address_, "serving a buffer at");
  }
}

Listener::~Listener() {
  if (creator_pid_ != ::getpid()) {
    return;
  }
  hang_up();
  if (address_.front() != '@') {
    ::unlink(address_.c_str());
  }
}

void Listener::hang_up() noexcept {
  ::shutdown(socket(), SHUT_RDWR);  // Closing is not enough: a forked child may have a copy.
  while (accept().valid()) {        // Accepts and closes those that wait.
  }
}

Descriptor Listener::accept() const noexcept {
  return Descriptor(::accept4(socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

Descriptor Listener::copy() const noexcept {
  return Descriptor(::fcntl(socket(), F_DUPFD_CLOEXEC, 0));
}

Peer peer_of(int socket) noexcept {
  ucred who{};
  socklen_t bytes = sizeof(who);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) {
    return {-1, -1};
  }
  return {who.pid, static_cast<std::int64_t>(who.uid)};
}

Descriptor connect(const std::string& address, limiter::Wait& wait, IfAbsent if_absent) {
  constexpr const char* kWhat = "attaching to a buffer at";
  const Address at = address_of(address);
  for (;;) {
    Descriptor made = make_socket();
    if (::connect(made.number(), reinterpret_cast<const sockaddr*>(&at.name), at.bytes) == 0) {
      check_user(made.number());
      return made;
    }
    const int error = errno;
    const bool absent = error == ECONNREFUSED || error == ENOENT;
    const bool busy = error == EAGAIN || error == EINTR;
    if (!busy && !(absent && if_absent == IfAbsent::Wait)) {
      fail(error, address, kWhat);
    }
    if (const auto end = wait.over()) {
      fail(end == limiter::WaitEnd::Stopped ? ECANCELED : error, address, kWhat);
    }
    wait.pause(std::chrono::milliseconds(5));
  }
}

}  // namespace reprise::process
