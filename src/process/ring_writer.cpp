#include "process/ring_writer.hpp"

#include "limiter/wait.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

namespace reprise::process {
namespace {

/// How often a writer that finds room looks whether the host is gone, in nanoseconds.
constexpr std::int64_t kHostCheckInterval = 50'000'000;

/// The time in nanoseconds, exact to some milliseconds. A more exact clock would slow commits down.
std::int64_t coarse_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The reason that a refusal gives.
std::string sentence_of(const Message& refusal) {
  return {reinterpret_cast<const char*>(refusal.bytes.data()), refusal.bytes.size()};
}

/// Takes the host's answer to a greeting. Throws unless the host takes this process.
void take_welcome(Connection& made, Message& answer, const Hello& hello,
                  const std::string& address) {
  if (answer.kind == MessageKind::Refused) {
    base::refuse<std::runtime_error>(base::Call{"attach"}, sentence_of(answer));
  }
  if (answer.kind == MessageKind::Failed) {
    rethrow(answer.bytes);
  }
  const Greeting own;
  const auto greeting = value_of<Greeting>(answer.bytes);
  const auto welcome = value_of<Welcome>(answer.bytes);
  const bool greets =
      answer.kind == MessageKind::Welcome && greeting && greeting->magic == own.magic;
  if (greets && greeting->version != own.version) {
    base::refuse<std::runtime_error>(base::Call{"attach"}, "the host has reprise ",
                                     greeting->text(), ", this process ", own.text(),
                                     "; allowed: the same version");
  }
  base::require(greets && welcome, base::Call{"attach"}, "what listens at '", address,
                "' is no host");
  made.welcome = *welcome;
  const Description described = description_of(std::span(answer.bytes).subspan(sizeof(Welcome)));
  made.outline = std::make_shared<const buffer::Outline>(described.schema, described.options);
  if (hello.purpose == Purpose::Writer) {
    const RingLayout layout(made.outline->format, hello.environments, welcome->ring_rows);
    made.memory = Region::map(std::move(answer.file), layout.bytes());
  }
}

}  // namespace

bool Connection::send(MessageKind kind, Bytes bytes, limiter::Wait& wait) noexcept {
  if (!life.closed() && !channel.send(kind, bytes, -1, &wait)) {
    life.close();
  }
  return !life.closed();
}

void Connection::receive() {
  if (!channel.receive()) {
    life.close();
  }
}

void Connection::drain_messages() {
  receive();
  while (const std::optional<Message> message = channel.next()) {
    if (message->kind == MessageKind::Refused) {
      refusal = sentence_of(*message);
    }
  }
}

void no_answer(const char* call, limiter::Wait& wait) {
  const bool stopped = wait.refused() || wait.over() == limiter::WaitEnd::Stopped;
  throw std::system_error(
      stopped ? ECANCELED : ETIMEDOUT, std::generic_category(),
      base::text(call, ": the host does not answer: is a thread in Host::run, and not stopped?"));
}

std::unique_ptr<Connection> open_connection(const std::string& address, const Hello& hello,
                                            const AttachOptions& options, const base::Life* guest) {
  auto opened = std::make_unique<Connection>();
  HostWait host(guest != nullptr ? *guest : opened->life, options);
  opened->attach_options = options;
  opened->attach_options.timeout = Connection::kReplyTimeout;
  opened->channel =
      Channel(connect(address, host.wait, guest == nullptr ? IfAbsent::Wait : IfAbsent::Fail));
  opened->send(MessageKind::Hello, bytes_of(hello), host.wait);
  for (;;) {
    opened->receive();
    if (std::optional<Message> answer = opened->channel.next()) {
      take_welcome(*opened, *answer, hello, address);
      return opened;
    }
    if (opened->life.closed()) {
      base::refuse<HostGone>(base::Call{"attach"}, "the host at '", address,
                             "' is gone, or its buffer is closed");
    }
    if (host.wait.over()) {
      no_answer("attach", host.wait);
    }
    opened->channel.wait(host.wait.remaining_pause(kPollInterval));
  }
}

WriterConnection::WriterConnection(std::unique_ptr<Connection> opened, std::size_t environments)
    : connection(std::move(opened)),
      layout(connection->outline->format, environments, connection->welcome.ring_rows) {}

WriterConnection::~WriterConnection() {
  if (!connection->life.forked()) {
    connection->channel.send(
        MessageKind::Bye);  // Without a wait, because only a statistic depends on it.
  }
}

RingWriter::RingWriter(std::shared_ptr<WriterConnection> connection, std::size_t environment,
                       const WriterOptions& options)
    : StepWriter({connection->connection->outline->format,
                  connection->connection->outline->selectors, connection->connection->life},
                 options),
      connection_(std::move(connection)),
      layout_(connection_->layout),
      memory_(connection_->connection->memory.data()),
      environment_(environment),
      words_(RingLayout::words(memory_, environment)) {}

RingWriter::~RingWriter() {
  if (!connection_->connection->life.forked()) {
    cut_episode();
  }
}

void RingWriter::cut_episode() noexcept {
  if (in_episode() && position_ != 0) {
    // Only the header is written: the host may be reading the rest of the row, the observation
    // after the last step.
    write_header({.kind = StepHeader::Kind::Cut});
    words_.publish(++row_);
  }
}

void RingWriter::begin_episode() {
  connection_->connection->life.check_not_forked();
  cut_episode();
  start_episode(episodes_++);
  point_at_rows();
}

CommitStatus RingWriter::commit(End end, std::span<const float> priorities) {
  Connection& connection = *connection_->connection;
  if (const std::int64_t now = coarse_now(); now - last_host_check_ >= kHostCheckInterval) {
    last_host_check_ = now;
    connection.drain_messages();
  }
  if (connection.life.closed()) {
    check_refusal();
    return CommitStatus::Closed;
  }
  if (!has_room()) {
    if (const auto status = wait_for_room()) {
      return *status;
    }
  }
  write_header({.kind = StepHeader::Kind::Step,
                .end = static_cast<std::uint8_t>(end),
                .first = position_ == 0 ? std::uint8_t{1} : std::uint8_t{0},
                .priorities = static_cast<std::uint32_t>(priorities.size())});
  if (!priorities.empty()) {
    std::memcpy(layout_.priorities(layout_.row(memory_, environment_, row_)), priorities.data(),
                priorities.size_bytes());
  }
  ++position_;
  if (open_ + 1 < format_.window.ahead()) {
    ++open_;
  }
  if (end != End::Continue) {
    row_ += 2;
    leave_episode();
  } else {
    row_ += 1;
    go_on();
    point_at_rows();
  }
  words_.publish(row_);
  return CommitStatus::Committed;
}

/// Waits until the ring has room. Returns nothing then, or why the step is not committed. Throws if
/// the wait timed out because the host's disk is full, or if the host refused this writer's steps.
std::optional<CommitStatus> RingWriter::wait_for_room() {
  consumed_ = words_.consumed();
  if (has_room()) {
    return std::nullopt;
  }
  Connection& connection = *connection_->connection;
  limiter::WaitTerms terms(&connection.life, timeout_, stop_, hook_);
  limiter::Wait wait(terms, nullptr, nullptr);
  std::optional<limiter::WaitEnd> end;
  if (wait.refused()) {
    end = limiter::WaitEnd::Stopped;
  }
  while (!end) {
    // I11: read the messages that have come, set the flag that this guest waits, look again, and
    // only then sleep. A host that makes room after that look ends the sleep with a wake.
    connection.drain_messages();
    RingLayout::shared(memory_).waiting.begin();
    consumed_ = words_.consumed_while_waiting();
    if (has_room()) {
      return std::nullopt;
    }
    end = wait.over();
    if (!end && consumed_at_last_wake_ != consumed_) {
      connection.channel.nudge(MessageKind::Wake);  // The host may be asleep.
      consumed_at_last_wake_ = consumed_;
    }
    if (!end) {
      connection.channel.wait(wait.remaining_pause(kPollInterval));
    }
  }
  if (*end == limiter::WaitEnd::TimedOut) {
    check_disk();
  } else if (*end == limiter::WaitEnd::Closed) {
    check_refusal();
  }
  constexpr CommitStatus kAnswers[] = {CommitStatus::TimedOut, CommitStatus::Stopped,
                                       CommitStatus::Closed};
  return kAnswers[static_cast<std::size_t>(*end)];
}

void RingWriter::check_disk() const {
  // Relaxed: see SharedWords.
  const auto held =
      static_cast<HoldReason>(RingLayout::shared(memory_).held.load(base::Order::Relaxed));
  if (held == HoldReason::ByDisk) {
    throw std::system_error(ENOSPC, std::generic_category(),
                            "Writer::commit: the host has no disk space for another chunk");
  }
}

void RingWriter::check_refusal() const {
  const std::string& refusal = connection_->connection->refusal;
  if (!refusal.empty()) {
    base::refuse<std::runtime_error>(base::Call{"Writer::commit"},
                                     "the host takes no more steps of this writer: ", refusal);
  }
}

void RingWriter::write_header(const StepHeader& header) noexcept {
  std::memcpy(layout_.row(memory_, environment_, row_), &header, sizeof(header));
}

void RingWriter::point_at_rows() noexcept {
  rows[kNow] = layout_.row(memory_, environment_, row_);
  rows[kNext] = layout_.row(memory_, environment_, row_ + 1);
  rows[kState] = layout_.state(rows[kNow]);
}

}  // namespace reprise::process
