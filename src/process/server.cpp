#include "process/server.hpp"

#include "api/access.hpp"
#include "base/text.hpp"
#include "process/service_session.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace reprise {
namespace process {
namespace {

/// The shortest and longest pause of the serving thread while nothing comes; each pause is twice
/// the one before.
constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(50);
constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(2);
/// How long the last rounds of `run` may wait for chunks, all together.
constexpr std::chrono::nanoseconds kLastWait = std::chrono::seconds(1);
/// How long steps of writers that are gone may wait for chunks before a new writer is refused. It
/// is short, because other guests wait meanwhile.
constexpr std::chrono::nanoseconds kWaitForPlaces = std::chrono::milliseconds(10);
/// Enough rounds to take all that a ring can hold. There is a bound, because the guest may go on
/// writing.
constexpr std::size_t kRounds = 4096;
/// Default size of the memory of a writer's ring, or of all rings of a vector writer.
constexpr std::size_t kRingBytes = std::size_t{4} << 20U;

std::string chosen_address(const HostOptions& options) {
  if (!options.address.empty()) {
    return options.address;
  }
  std::random_device source;
  return base::text("@reprise-", std::uint64_t{source()} << 32U | source());
}

std::size_t checked_rows(const HostOptions& options) {
  base::require(options.ring_steps == 0 ||
                    (options.ring_steps >= 8 && options.ring_steps <= std::size_t{1} << 20U),
                base::OptionsOf{"HostOptions"}, "ring_steps is ", options.ring_steps,
                "; allowed: 0, and 8 to ", std::size_t{1} << 20U);
  return options.ring_steps == 0 ? 0 : std::bit_ceil(options.ring_steps);
}

/// Whether the last call failed because the process, or the system, has no file descriptor left.
bool no_descriptor_left() noexcept {
  return errno == EMFILE || errno == ENFILE;
}

void refuse(Channel& channel, std::string_view why) noexcept {
  channel.send(MessageKind::Refused, std::as_bytes(std::span(why.data(), why.size())));
}

}  // namespace

Server::Server(std::shared_ptr<buffer::BufferCore> core, const HostOptions& options)
    : core_(std::move(core)),
      ring_rows_(checked_rows(options)),
      max_batch_bytes_(options.max_batch_bytes),
      service_(options.service),
      listener_(chosen_address(options)),
      spare_(listener_.copy()) {
  core_->life().check_not_forked();
}

Server::~Server() {
  if (!core_->life().forked()) {
    std::ranges::for_each(guests_, [](const auto& guest) { guest->channel.hang_up(); });
  }
  // Relaxed, because this is only a statistic.
  core_->counters.guests.fetch_sub(processes_, std::memory_order_relaxed);
}

void Server::run(const std::stop_token& stop) {
  struct Paused {
    Server& server;
    ~Paused() {
      for (const auto& guest : server.guests_) {
        if (guest->session) {
          guest->session->pause();
        }
      }
    }
  } const paused{*this};
  std::chrono::nanoseconds pause(0);
  while (!stop.stop_requested()) {
    core_->life().check_not_forked();
    if (core_->closed()) {
      end_connections();
      return;
    }
    wait(pause);
    auto [heard, most] = serve_guests();
    if (full_ || (polled_.front().revents & POLLIN) != 0) {
      accept();
      heard = heard || !full_;
    }
    if (changed_) {
      count();
    }
    if (most == Session::Progress::ReachedLimit) {
      pause = std::chrono::nanoseconds(0);
    } else if (heard || most != Session::Progress::Nothing) {
      pause = kShortest;
    } else {
      pause = std::clamp(2 * pause, kShortest, kLongest);
    }
  }
  take_remaining_steps(Guests::All);
}

/// Ends all connections, which guests notice at once, and lets no process attach any more.
void Server::end_connections() {
  spare_ = Descriptor();  // `hang_up` needs a free descriptor.
  listener_.hang_up();
  std::ranges::for_each(guests_, [](const auto& guest) { guest->channel.hang_up(); });
  guests_.clear();
  count();
}

/// Receives and serves, as `wait` has found, and forgets guests that are gone.
Server::Served Server::serve_guests() {
  Served served;
  std::size_t at = 1;
  for (const auto& owner : guests_) {
    Guest& guest = *owner;
    if (guest.connected) {
      int events = polled_[at++].revents;
      if (guest.channel.process() >= 0) {
        events |= polled_[at++].revents;
      }
      served.heard = (events != 0 && receive(guest)) || served.heard;
    }
    served.most = std::max(served.most, serve(guest));
    if (guest.channel.broken()) {
      on_disconnect(guest);
    }
  }
  std::erase_if(guests_, [](const auto& guest) {
    return !guest->connected && (!guest->session || guest->session->finished());
  });
  return served;
}

/// Takes the steps that guests have published, as far as there is room: of all guests at the end of
/// `run`, or of those that have left, so that their sessions end and a new writer finds a place.
void Server::take_remaining_steps(Guests of) {
  const base::Clock::time_point until =
      base::Clock::now() + (of == Guests::Gone ? kWaitForPlaces : kLastWait);
  for (const auto& guest : guests_) {
    if (!guest->session || (of == Guests::Gone && guest->connected)) {
      continue;
    }
    // A step that finds no room here is not tried again. So the session waits a little for a chunk:
    // chunks cannot be freed while another thread holds the shard's lock.
    guest->session->set_wait_deadline(until);
    for (std::size_t rounds = 0; rounds < kRounds; ++rounds) {
      if (serve(*guest) != Session::Progress::ReachedLimit) {
        break;
      }
    }
    if (guest->session) {
      guest->session->set_wait_deadline(base::Clock::time_point::min());
      if (of == Guests::Gone && guest->session->finished()) {
        guest->session.reset();
      }
    }
  }
}

/// Waits until a guest sends something or is gone, or a process wants to attach.
void Server::wait(std::chrono::nanoseconds timeout) {
  polled_.clear();
  // A process that cannot be accepted would end every wait, so the listener is left out then.
  polled_.push_back({full_ ? -1 : listener_.socket(), POLLIN, 0});
  for (const auto& guest : guests_) {
    if (guest->connected) {  // With guests that are gone the list could be too long for poll.
      polled_.push_back({guest->channel.socket(), POLLIN, 0});
      if (guest->channel.process() >= 0) {
        polled_.push_back({guest->channel.process(), POLLIN, 0});
      }
    }
  }
  const timespec most{0, timeout.count()};
  if (::ppoll(polled_.data(), polled_.size(), &most, nullptr) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "Host::run: waiting for guests");
    }
    std::ranges::for_each(polled_, [](pollfd& polled) { polled.revents = 0; });
  }
}

/// Accepts all processes that want to attach, or refuses them. If no descriptor is left, it closes
/// `spare_` to accept one process, and to tell it so.
void Server::accept() {
  for (;;) {
    if (!spare_.valid()) {
      spare_ = listener_.copy();
    }
    Descriptor socket = listener_.accept();
    if (!socket.valid() && no_descriptor_left()) {
      spare_ = Descriptor();  // Closes the descriptor in reserve.
      socket = listener_.accept();
    }
    if (!socket.valid()) {
      full_ = errno != EAGAIN;
      return;
    }
    const Peer peer = peer_of(socket.number());
    Channel channel(std::move(socket));
    if (peer.user != static_cast<std::int64_t>(::geteuid())) {
      refuse(channel, base::text("this process is of user ", peer.user, ", the host of user ",
                                 ::geteuid(), "; allowed: the same user"));
      continue;
    }
    if (channel.process() < 0 && no_descriptor_left()) {
      refuse(channel, "the host has no file descriptor left");
      continue;
    }
    changed_ = true;
    guests_.push_back(
        std::make_unique<Guest>(Guest{.channel = std::move(channel), .process = peer.process}));
  }
}

bool Server::receive(Guest& guest) {
  bool heard = false;
  try {
    const bool open = guest.channel.receive();
    while (std::optional<Message> message = guest.channel.next()) {
      heard = true;
      if (!handle(guest, *message) || guest.channel.broken()) {
        on_disconnect(guest);
        return true;
      }
    }
    if (!open) {
      on_disconnect(guest);
    }
  } catch (const std::exception&) {  // No memory is left for what a guest sends.
    on_disconnect(guest);
  }
  return heard || !guest.connected;
}

bool Server::handle(Guest& guest, const Message& message) {
  if (message.kind == MessageKind::Bye) {
    guest.closed_by_guest = true;
    // The guest's hang-up may not show, because a forked child may have a copy of its socket.
    return false;
  }
  return guest.session ? guest.session->handle(message, guest.channel) : greet(guest, message);
}

bool Server::greet(Guest& guest, const Message& message) {
  const auto greeting = value_of<Greeting>(message.bytes);
  const auto hello = value_of<Hello>(message.bytes);
  Welcome welcome;
  if (message.kind != MessageKind::Hello || !greeting ||
      greeting->magic != welcome.greeting.magic) {
    return false;
  }
  if (greeting->version != welcome.greeting.version) {
    refuse(guest.channel, base::text("this process has reprise ", greeting->text(), ", the host ",
                                     welcome.greeting.text(), "; allowed: the same version"));
    return false;
  }
  if (!hello || hello->purpose > Purpose::Service) {
    return false;
  }
  try {
    int memory = -1;
    guest.session = open(*hello, welcome, memory);
    guest.channel.send(MessageKind::Welcome, joined(welcome, described(*core_)), memory);
  } catch (const std::exception& error) {
    guest.channel.send(MessageKind::Failed, failure_of(/*number=*/0, error));
    return false;
  }
  return true;
}

std::unique_ptr<Session> Server::open(const Hello& hello, Welcome& welcome, int& memory) {
  if (hello.purpose == Purpose::Writer) {
    const auto environments = static_cast<std::size_t>(hello.environments);
    base::require(environments != 0 && environments <= core_->options().max_writers,
                  "a guest wants ", environments, " writers; allowed: 1 to max_writers, which is ",
                  core_->options().max_writers);
    if (core_->slots().alive() + environments > core_->options().max_writers) {
      take_remaining_steps(Guests::Gone);
    }
    auto session = std::make_unique<WriterSession>(
        core_, environments,
        ring_rows_ != 0 ? ring_rows_
                        : RingLayout::rows_for(core_->format(), environments, kRingBytes));
    welcome.ring_rows = session->rows();
    memory = session->memory();
    return session;
  }
  if (hello.purpose == Purpose::Sampler) {
    SamplerOptions options;
    options.seed = hello.seed;
    options.fresh = hello.fresh;
    options.unique_frames = hello.unique_frames != 0;
    const auto selector = static_cast<std::size_t>(hello.selector);
    static_cast<void>(core_->selectors().at(selector));
    return std::make_unique<DrawSession>(core_, options, selector, max_batch_bytes_);
  }
  if (hello.purpose == Purpose::Service) {
    base::require(service_ != nullptr, base::OptionsOf{"HostOptions"}, "service is empty");
    return std::make_unique<ServiceSession>(service_);
  }
  return std::make_unique<CallSession>(core_);
}

Session::Progress Server::serve(Guest& guest) {
  if (!guest.session) {
    return Session::Progress::Nothing;
  }
  try {
    return guest.session->serve(guest.connected ? &guest.channel : nullptr);
  } catch (const std::exception& error) {
    // The guest's memory is damaged, or memory is short for what the guest asks. The buffer is as
    // it was.
    refuse(guest.channel, error.what());
    on_disconnect(guest);
    guest.session.reset();
    return Session::Progress::Something;
  }
}

/// Handles the end of a connection. The session stays, because that of a writer may still have
/// steps to take.
void Server::on_disconnect(Guest& guest) noexcept {
  if (guest.connected) {
    guest.connected = false;
    changed_ = true;
    if (guest.session) {
      guest.session->guest_left(!guest.closed_by_guest);
    }
    guest.channel.hang_up();
    guest.channel = Channel();
  }
}

/// Counts the processes that are attached, for the statistics.
void Server::count() {
  std::set<std::int64_t> attached;
  for (const auto& guest : guests_) {
    if (guest->connected) {
      attached.insert(guest->process);
    }
  }
  // Relaxed, because this is only a statistic. The difference wraps around if processes have left.
  core_->counters.guests.fetch_add(attached.size() - processes_, std::memory_order_relaxed);
  processes_ = attached.size();
  changed_ = false;
}

}  // namespace process

Host::Host(ReplayBuffer& buffer, const HostOptions& options)
    : server_(std::make_unique<process::Server>(detail::Access::core(buffer), options)) {}
Host::~Host() = default;

const std::string& Host::address() const noexcept {
  return server_->address();
}

void Host::run(std::stop_token stop) {
  server_->run(stop);
}

}  // namespace reprise
