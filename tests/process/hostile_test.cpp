#include "process/forked.hpp"
#include "process/raw_guest.hpp"
#include "testing/test.hpp"

#include <unistd.h>

// Peers that send what no guest or host of this library sends, and harm nobody else.

namespace reprise::test {
namespace {

using process::Channel;
using process::Greeting;
using process::Hello;
using process::Message;
using process::MessageKind;
using process::Purpose;
using process::SampleAnswer;
using process::SampleCall;

std::string text_of(const std::optional<Message>& message) {
  return message ? std::string(reinterpret_cast<const char*>(message->bytes.data()),
                               message->bytes.size())
                 : "";
}

void send_bytes(const Channel& channel, const std::vector<std::byte>& bytes) {
  (void)::send(channel.socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::vector<std::byte> random_bytes(Rng& rng, std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(rng.next()); });
  return bytes;
}

TEST(HostileGreeting, OfAnotherVersionIsRefusedWithAMessageThatNamesBothVersions) {
  HostileFixture world;
  const std::string own = Greeting().text();
  // The version is short, with a NUL after it, or fills its field of 24 bytes. The message is
  // whole, or has only the greeting.
  for (const bool whole : {true, false}) {
    for (const bool fills_field : {true, false}) {
      Hello hello;
      hello.greeting.version = {};
      std::ranges::fill_n(hello.greeting.version.begin(), fills_field ? 24 : 3, '9');
      hello.purpose = static_cast<Purpose>(0x39393939);
      hello.unique_frames = 0x39393939;
      hello.seed = hello.selector = hello.environments = 0x3939393939393939;
      hello.fresh = std::numeric_limits<float>::quiet_NaN();
      hello.unused = 0x39393939;
      Channel channel = raw_channel(world.hosted.address());
      channel.send(MessageKind::Hello,
                   whole ? process::bytes_of(hello) : process::bytes_of(hello.greeting));
      const auto refusal = answer(channel);
      ASSERT_TRUE(refusal);
      EXPECT_EQ(refusal->kind, MessageKind::Refused);
      EXPECT_EQ(text_of(refusal), "this process has reprise " +
                                      std::string(fills_field ? 24 : 3, '9') + ", the host " + own +
                                      "; allowed: the same version");
      EXPECT_FALSE(answer(channel)) << "the host hangs up";
    }
  }
  world.expect_served();
}

TEST(HostileGreeting, OfAHostWithAnotherOrNoVersionIsRefusedByTheGuest) {
  const std::string address = "@reprise-raw-" + std::to_string(::getpid());
  process::Listener listener(address);
  for (const bool whole : {true, false}) {
    std::jthread host([&] {
      process::Descriptor socket;
      yield_while([&] { return !(socket = listener.accept()).valid(); });
      Channel channel(std::move(socket));
      process::Welcome welcome;
      welcome.greeting.version = {};
      std::ranges::fill(welcome.greeting.version, '8');
      channel.send(MessageKind::Welcome,
                   whole ? process::bytes_of(welcome) : process::bytes_of(welcome.greeting));
    });
    expect_refusal<std::runtime_error>([&] { (void)attach(address); },
                                       {Greeting().text(), std::string(24, '8')});
  }
  std::jthread host([&] {
    process::Descriptor socket;
    yield_while([&] { return !(socket = listener.accept()).valid(); });
    Channel channel(std::move(socket));
    channel.send(MessageKind::Welcome);
  });
  expect_refusal([&] { (void)attach(address); }, {"no host"});
}

TEST(HostileMessages, EndTheirConnectionAndNoOther) {
  HostileFixture world;
  const Hello good;
  Hello unknown;
  unknown.purpose = static_cast<Purpose>(7);
  Hello no_magic;
  no_magic.greeting.magic.front() = 'R';
  Hello many;
  many.purpose = Purpose::Writer;
  many.environments = std::numeric_limits<std::uint64_t>::max();
  // Attacks of a guest: the first message is wrong, or a request after a valid greeting.
  const auto greet = [](const Hello& hello) {
    return
        [hello](Channel& channel) { channel.send(MessageKind::Hello, process::bytes_of(hello)); };
  };
  const auto greet_and_send = [&](MessageKind kind, std::vector<std::byte> bytes) {
    return [=](Channel& channel) {
      channel.send(MessageKind::Hello, process::bytes_of(good));
      (void)answer(channel);
      channel.send(kind, bytes);
    };
  };
  const process::UpdateCall too_many{.number = 1, .selector = 0, .keys = std::uint64_t{1} << 62U};
  const process::UpdateCall some{.number = 1, .selector = 0, .keys = 40};
  const std::vector<std::pair<const char*, std::function<void(Channel&)>>> cases = {
      {"no magic", greet(no_magic)},
      {"an unknown purpose", greet(unknown)},
      {"too many environments", greet(many)},
      {"no greeting", [](Channel& channel) { channel.send(MessageKind::Sample); }},
      {"half a greeting",
       [&](Channel& channel) {
         channel.send(MessageKind::Hello, process::bytes_of(good).first(sizeof(Greeting) + 1));
       }},
      {"an empty request", greet_and_send(MessageKind::Update, {})},
      {"an unknown request",
       greet_and_send(static_cast<MessageKind>(99), std::vector<std::byte>(64))},
      {"more keys than bytes", greet_and_send(MessageKind::Update, process::joined(too_many, {}))},
      {"a few keys more", greet_and_send(MessageKind::Update, process::joined(some, {}))},
      {"a draw without a sampler",
       greet_and_send(MessageKind::Sample, std::vector<std::byte>(sizeof(SampleCall)))},
      {"another greeting", greet_and_send(MessageKind::Hello, process::joined(good, {}))},
      {"a message that is too long",
       [](Channel& channel) {
         const std::array<std::uint32_t, 3> head{~0U, 1, 0};
         std::vector<std::byte> bytes(sizeof(head));
         std::memcpy(bytes.data(), head.data(), sizeof(head));
         send_bytes(channel, bytes);
         ::shutdown(channel.socket(), SHUT_WR);
       }},
  };
  for (const auto& [name, attack] : cases) {
    Channel channel = raw_channel(world.hosted.address());
    attack(channel);
    while (const auto message = answer(channel)) {
      EXPECT_TRUE(message->kind == MessageKind::Refused || message->kind == MessageKind::Failed)
          << name;
    }
    world.expect_served();
  }
}

TEST(HostileMessages, OfRandomBytesEndTheirConnection) {
  HostileFixture world;
  Rng rng(3);
  for (std::size_t i = 0; i < scaled(300, 30); ++i) {
    Channel channel = raw_channel(world.hosted.address());
    if (rng.one_in(2)) {
      Hello hello;
      hello.purpose = rng.one_in(2) ? Purpose::Sampler : Purpose::Calls;
      channel.send(MessageKind::Hello, process::bytes_of(hello));
      EXPECT_TRUE(answer(channel));
    }
    for (int k = 0; k < 3; ++k) {
      if (rng.one_in(2)) {
        channel.send(static_cast<MessageKind>(rng.below(15)), random_bytes(rng, rng.below(100)));
      } else {
        send_bytes(channel, random_bytes(rng, rng.below(40)));
      }
    }
    ::shutdown(channel.socket(), SHUT_WR);
    while (answer(channel)) {
    }
  }
  world.expect_served();
  EXPECT_EQ(world.replay.stats().writers, 0U);
}

TEST(HostilePeer, ThatIsSilentOrSendsHalfAMessageOrNeverReadsBlocksNoOther) {
  HostileFixture world;
  Channel silent = raw_channel(world.hosted.address());
  Channel half = raw_channel(world.hosted.address());
  send_bytes(half, std::vector<std::byte>(5));
  Channel deaf = raw_channel(world.hosted.address());
  deaf.send(MessageKind::Hello, process::bytes_of(Hello()));
  // Sends requests until the host disconnects a peer that does not read its answers.
  const std::uint64_t number = 1;
  const base::Life life;
  process::HostWait host(life, {.timeout = 60s});
  while (deaf.send(MessageKind::AskStats, process::bytes_of(number), -1, &host.wait)) {
  }
  world.append_many(0, 20);
  Writer writer = world.guest.writer();
  world.append_many(writer, 100, 200);
  world.hosted.wait_for_steps(220);
  GuestSampler sampler = world.guest.sampler();
  EXPECT_TRUE(sampler.sample(8));
}

TEST(HostilePeer, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can change the user of a child";
  }
  const std::string address = "@reprise-user-" + std::to_string(::getpid());
  Forked other([&] {
    constexpr uid_t kNobody = 65534;
    if (::setuid(kNobody) != 0) {
      ::_exit(1);
    }
    try {
      (void)attach(address, {.timeout = 60s});
    } catch (const std::runtime_error& error) {
      ::_exit(std::string(error.what()).find("user 65534, the host of user 0") ==
              std::string::npos);
    }
    ::_exit(1);
  });
  NumberedBuffer line;
  Hosted hosted(line.replay, {.address = address});
  hosted.serve();
  EXPECT_TRUE(other.join());
}

TEST(HostileHost, OfAnotherUserGetsNoMessage) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can change the user of a child";
  }
  const std::string address = "@reprise-other-" + std::to_string(::getpid());
  Forked other([&] {
    if (::setuid(65534) != 0) {
      ::_exit(1);
    }
    const process::Listener listener(address);
    process::Descriptor socket;
    yield_while([&] { return !(socket = listener.accept()).valid(); });
    Channel channel(std::move(socket));
    ::_exit(answer(channel).has_value());
  });
  expect_refusal<std::runtime_error>([&] { (void)attach(address, {.timeout = 60s}); },
                                     {"user 0, the host of user 65534"});
  EXPECT_TRUE(other.join()) << "the host got a message";
}

TEST(HostilePeer, CannotFillTheHostWithDescriptors) {
  HostileFixture world;
  const ProcessResources before = ProcessResources::now();
  for (const std::size_t files : {1U, 2U}) {
    for (int i = 0; i < 20; ++i) {
      Channel channel = raw_channel(world.hosted.address());
      for (int k = 0; k < 10; ++k) {
        // Sends files with the head of a message and with single bytes, but never a whole message.
        std::array<std::uint32_t, 3> head{1000, 1, 0};
        iovec part{head.data(), k == 0 ? sizeof(head) : 1};
        alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(2 * sizeof(int))> control{};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(files * sizeof(int));
        cmsghdr* const with = CMSG_FIRSTHDR(&message);
        with->cmsg_level = SOL_SOCKET;
        with->cmsg_type = SCM_RIGHTS;
        with->cmsg_len = CMSG_LEN(files * sizeof(int));
        const std::array<int, 2> sent{STDERR_FILENO, STDERR_FILENO};
        std::memcpy(CMSG_DATA(with), sent.data(), files * sizeof(int));
        (void)::sendmsg(channel.socket(), &message, MSG_NOSIGNAL);
      }
      while (answer(channel)) {
      }
    }
  }
  world.expect_served();
  EXPECT_EQ(ProcessResources::now(), before);
}

TEST(HostileDraw, ThatIsAskedForBeforeTheAnswerToAnotherReplacesIt) {
  HostileFixture world;
  Hello hello;
  hello.purpose = Purpose::Sampler;
  Channel channel = raw_channel(world.hosted.address());
  channel.send(MessageKind::Hello, process::bytes_of(hello));
  ASSERT_TRUE(answer(channel));
  const auto ask = [&](std::uint64_t number, std::chrono::nanoseconds timeout,
                       std::uint64_t memory) {
    channel.send(
        MessageKind::Sample,
        process::bytes_of(SampleCall{
            .number = number, .items = 4, .timeout_ns = timeout.count(), .memory_bytes = memory}));
  };
  // A guest whose host was stopped for long sends another draw before it has an answer.
  ask(1, 1h, 0);
  ask(2, 0ns, 0);
  auto message = answer(channel);
  ASSERT_TRUE(message);
  auto answered = process::value_of<SampleAnswer>(message->bytes);
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->number, 2U);
  EXPECT_EQ(answered->status.code, SampleStatus::Code::TimedOut);
  ask(9, 1h, 0);
  const std::uint64_t number = 9;
  channel.send(MessageKind::Cancel, process::bytes_of(number));
  message = answer(channel);
  ASSERT_TRUE(message);
  answered = process::value_of<SampleAnswer>(message->bytes);
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->status.code, SampleStatus::Code::Stopped);
  world.append_many(0, 20);
  // The host sends the memory of the batch with each answer until the guest confirms the memory,
  // because the guest may have dropped an answer.
  std::uint64_t memory = 0;
  for (std::uint64_t next = 13; next < 16; ++next) {
    ask(next, 10s, next == 15 ? memory : 0);
    message = answer(channel);
    ASSERT_TRUE(message);
    answered = process::value_of<SampleAnswer>(message->bytes);
    ASSERT_TRUE(answered);
    EXPECT_EQ(answered->status.code, SampleStatus::Code::Ok);
    EXPECT_EQ(message->file.valid(), next != 15);
    EXPECT_EQ(answered->memory_bytes != 0, next != 15);
    memory = std::max(memory, answered->memory_bytes);
  }
}

TEST(HostileDraw, WithInvalidOptionsIsRefused) {
  HostileFixture world;
  world.append_many(0, 40);
  Hello hello;
  hello.purpose = Purpose::Sampler;
  Channel channel = raw_channel(world.hosted.address());
  channel.send(MessageKind::Hello, process::bytes_of(hello));
  ASSERT_TRUE(answer(channel));
  std::vector<SampleCall> calls;
  for (const std::uint64_t items :
       {std::uint64_t{0}, std::uint64_t{1} << 40U, std::uint64_t{1} << 58U, ~std::uint64_t{0}}) {
    calls.push_back({.items = items});
  }
  for (const float beta : {-1.0F, 1.5F, std::numeric_limits<float>::quiet_NaN()}) {
    calls.push_back({.items = 4, .beta = beta});
  }
  calls.push_back({.items = 4, .timeout_ns = -1});
  calls.push_back({.items = 4, .normalise = static_cast<Normalise>(9)});
  calls.push_back({.items = 4, .draws = static_cast<Draws>(9)});
  for (std::uint64_t i = 0; i < calls.size(); ++i) {
    calls[i].number = i + 1;
    channel.send(MessageKind::Sample, process::bytes_of(calls[i]));
    const auto message = answer(channel);
    ASSERT_TRUE(message) << i;
    EXPECT_EQ(message->kind, MessageKind::Failed) << i;
    EXPECT_EQ(process::value_of<std::uint64_t>(message->bytes), i + 1);
  }
  channel.send(MessageKind::Sample, process::bytes_of(SampleCall{.number = 99, .items = 4}));
  const auto message = answer(channel);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, MessageKind::Sampled) << "the connection still works";
}

TEST(HostileDraw, OfMoreBytesThanTheHostAllowsIsRefused) {
  constexpr std::size_t kMaxBatchBytes = 64 << 10U;
  HostileFixture world(SmallOptions{}, {.max_batch_bytes = kMaxBatchBytes});
  world.append_many(0, 40);
  GuestSampler sampler = world.guest.sampler();
  for (const std::size_t n : {10'000U, 100'000'000U}) {
    expect_refusal(
        [&] { (void)sampler.sample(n); },
        {"a batch of " + std::to_string(n) + " items takes ", "max_batch_bytes, which is 65536"});
    Batch batch = sampler.make_batch(10'000);
    expect_refusal([&] { sampler.check(batch, {}); }, {"max_batch_bytes"});
  }
  EXPECT_TRUE(sampler.sample(40));
}

}  // namespace
}  // namespace reprise::test
