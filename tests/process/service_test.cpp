#include <reprise/guest.hpp>

#include "process/forked.hpp"
#include "process/hosted.hpp"
#include "process/raw_guest.hpp"
#include "testing/test.hpp"

#include <csignal>

namespace reprise::test {
namespace {

using Answer = ServiceClient::Answer;

/// A call of these tests' service, which asks for an answer of `bytes` bytes of this value.
struct Request {
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
};

std::span<const std::byte> bytes_of(const Request& request) {
  return std::as_bytes(std::span(&request, 1));
}

Blob answer_request(std::span<const std::byte> call, const BlobAllocator& room) {
  Request request;
  std::memcpy(&request, call.data(), sizeof(request));
  if (request.bytes == 0) {
    throw std::invalid_argument("the answer would have no bytes");
  }
  Blob answer = room(request.bytes);
  std::memset(answer.bytes().data(), static_cast<int>(request.value), request.bytes);
  return answer;
}

bool is_answer_to(const Answer& answer, const Request& request) {
  const std::span<const std::byte> bytes = answer.bytes.bytes();
  return bytes.size() == request.bytes && std::ranges::all_of(bytes, [&](std::byte byte) {
           return byte == static_cast<std::byte>(request.value);
         });
}

/// Waits for the next answer; none if the host is gone.
std::optional<Answer> next(ServiceClient& client) {
  const std::array<ServiceClient*, 1> clients{&client};
  for (;;) {
    std::optional<Answer> answer = client.take();
    if (answer || client.closed()) {
      return answer;
    }
    (void)ServiceClient::wait(clients, 10s);
  }
}

/// A host of a service. No thread serves before `hosted.serve()`.
struct Served {
  explicit Served(const Service& service = answer_request)
      : hosted(line.replay, {.service = service}) {}

  NumberedBuffer line;
  Hosted hosted;
};

TEST(Service, AnswersCallsOfAnySizeByTheirNumbers) {
  Served served;
  ServiceClient client(served.hosted.address());
  const std::vector<Request> requests = {{1, 1},         {4096, 2}, {5000, 3},
                                         {3U << 20U, 4}, {7, 5},    {70'000, 6}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    client.ask(100 + i, bytes_of(requests[i]));  // No thread serves yet.
  }
  served.hosted.serve();
  std::set<std::uint64_t> seen;
  while (seen.size() < requests.size()) {
    const std::optional<Answer> answer = next(client);
    ASSERT_TRUE(answer && !answer->error);
    EXPECT_TRUE(is_answer_to(*answer, requests.at(answer->number - 100))) << answer->number;
    seen.insert(answer->number);
  }
}

TEST(Service, SendsACallThatIsLargerThanTheSocketsBufferWithoutBlockingTheCaller) {
  std::atomic<std::size_t> received = 0;
  Served served([&](std::span<const std::byte> call, const BlobAllocator& room) {
    received = call.size();
    return room(1);
  });
  ServiceClient client(served.hosted.address());
  const std::vector<std::byte> call(9U << 20U);
  client.ask(1, call);  // `ask` returns although no thread serves yet.
  EXPECT_FALSE(client.take());
  served.hosted.serve();
  ASSERT_TRUE(next(client));
  EXPECT_EQ(received, call.size());
}

TEST(Service, DoesNotReuseTheMemoryOfAnAnswerThatTheGuestHolds) {
  Served served;
  served.hosted.serve();
  ServiceClient client(served.hosted.address());
  std::vector<std::pair<Request, Answer>> held;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Request request{20'000 + i, i};
    client.ask(i, bytes_of(request));
    held.emplace_back(request, *next(client));
    if (held.size() == 5) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i % 5));
    }
    for (const auto& [request_of_held, answer] : held) {
      ASSERT_TRUE(is_answer_to(answer, request_of_held));
    }
  }
}

TEST(Service, DoesNotReuseTheMemoryOfAnAnswerThatTheServiceHolds) {
  std::vector<Blob> kept;
  Served served([&](std::span<const std::byte> call, const BlobAllocator& room) {
    kept.push_back(answer_request(call, room));
    return kept[kept.size() / 2];
  });
  served.hosted.serve();
  ServiceClient client(served.hosted.address());
  for (std::uint64_t i = 0; i < 20; ++i) {
    client.ask(i, bytes_of({20'000, i}));
    ASSERT_TRUE(is_answer_to(*next(client), {20'000, (i + 1) / 2})) << i;
  }
}

TEST(Service, ReusesTheMemoryOfAnswersThatNobodyHolds) {
  Served served;
  served.hosted.serve();
  ServiceClient client(served.hosted.address());
  const auto call = [&](std::uint64_t i) {
    client.ask(i, bytes_of({50'000 + i % 7 * 10'000, i}));
    ASSERT_TRUE(is_answer_to(*next(client), {50'000 + i % 7 * 10'000, i}));
  };
  for (std::uint64_t i = 0; i < 20; ++i) {
    call(i);
  }
  const std::size_t before = ProcessResources::now().mappings;
  for (std::uint64_t i = 0; i < 500; ++i) {
    call(i);
  }
  EXPECT_EQ(ProcessResources::now().mappings, before);
}

TEST(Service, GivesMoreAnswersAtATimeThanItHasReusableMemoryFor) {
  Served served;
  served.hosted.serve();
  ServiceClient client(served.hosted.address());
  std::vector<Answer> held;
  for (std::uint64_t i = 0; i < 80; ++i) {
    client.ask(i, bytes_of({5'000, i}));
    held.push_back(*next(client));
  }
  for (std::uint64_t i = 0; i < 80; ++i) {
    ASSERT_TRUE(is_answer_to(held[i], {5'000, i}));
  }
}

/// The answers are more than the socket's buffer holds. Every twentieth is too large for a message,
/// so the host shares memory with the guest.
TEST(Service, KeepsAnswersUntilTheGuestTakesThem) {
  constexpr std::uint64_t kCalls = 1'000;
  std::atomic<std::uint64_t> calls = 0;
  Served served([&](std::span<const std::byte> call, const BlobAllocator& room) {
    ++calls;
    return answer_request(call, room);
  });
  served.hosted.serve();
  ServiceClient client(served.hosted.address());
  const auto request = [](std::uint64_t i) { return Request{i % 20 == 0 ? 5'000U : 3'000U, i}; };
  client.ask(0, bytes_of(request(0)));
  ASSERT_TRUE(next(client));
  for (std::uint64_t i = 1; i < kCalls; ++i) {
    client.ask(i, bytes_of(request(i)));
    yield_while([&] { return calls <= i && served.line.replay.stats().guests != 0; });
  }
  std::vector<Answer> held;
  for (std::uint64_t i = 1; i < kCalls; ++i) {
    const std::optional<Answer> answer = next(client);
    ASSERT_TRUE(answer && !answer->error) << i;
    ASSERT_EQ(answer->number, i);
    ASSERT_TRUE(is_answer_to(*answer, request(i))) << i;
    held.push_back(*answer);
  }
}

TEST(Service, AnswersOutliveTheClient) {
  Served served;
  served.hosted.serve();
  std::optional<ServiceClient> client(served.hosted.address());
  client->ask(1, bytes_of({10'000, 7}));
  const Answer answer = *next(*client);
  client.reset();
  served.hosted.thread = {};
  EXPECT_TRUE(is_answer_to(answer, {10'000, 7}));
}

TEST(Service, GivesTheGuestTheExceptionThatTheServiceThrows) {
  Served served;
  served.hosted.serve();
  ServiceClient client(served.hosted.address());
  client.ask(3, bytes_of({0, 0}));
  const std::optional<Answer> answer = next(client);
  ASSERT_TRUE(answer && answer->error);
  EXPECT_EQ(answer->number, 3U);
  EXPECT_THROW(std::rethrow_exception(answer->error), std::invalid_argument);
  client.ask(4, bytes_of({8, 1}));
  EXPECT_TRUE(is_answer_to(*next(client), {8, 1}));
}

TEST(Service, OfAHostWithoutAServiceClosesTheClient) {
  Served served{Service()};
  served.hosted.serve();
  ServiceClient client(served.hosted.address());
  client.ask(1, bytes_of({8, 1}));
  EXPECT_FALSE(next(client));
  EXPECT_TRUE(client.closed());
  EXPECT_THROW(ServiceClient("@reprise-nobody-is-there"), std::system_error);
}

TEST(Service, DisconnectsAGuestThatSendsAnInvalidCall) {
  Served served;
  served.hosted.serve();
  process::Channel channel = raw_channel(served.hosted.address());
  channel.send(process::MessageKind::Hello,
               process::bytes_of(process::Hello{.purpose = process::Purpose::Service}));
  ASSERT_EQ(answer(channel)->kind, process::MessageKind::Welcome);
  channel.send(process::MessageKind::Call, std::as_bytes(std::span("short")));
  EXPECT_FALSE(answer(channel));
}

/// The service is in the middle of a call when the host is killed.
TEST(Service, EndsAtOnceWhenTheHostDies) {
  const std::string address = "@reprise-service-dies-" + std::to_string(::getpid());
  Forked host([&] {
    NumberedBuffer line;
    Host served(line.replay,
                {.address = address, .service = [](auto /*call*/, const BlobAllocator& room) {
                   std::this_thread::sleep_for(1h);
                   return room(1);
                 }});
    served.run({});
  });
  std::optional<ServiceClient> client;
  while (!client) {
    try {
      client.emplace(address);
    } catch (const std::system_error&) {
      std::this_thread::sleep_for(5ms);
    }
  }
  client->ask(1, bytes_of({8, 1}));
  std::jthread killer([&] {
    std::this_thread::sleep_for(50ms);
    host.signal(SIGKILL);
  });
  EXPECT_FALSE(next(*client));
  EXPECT_TRUE(client->closed());
}

TEST(Service, RefusesCallsOfAForkedChild) {
  Served served;
  ServiceClient client(served.hosted.address());
  Forked child([&] {
    try {
      client.ask(1, bytes_of({8, 1}));
    } catch (const std::logic_error&) {
      return;
    }
    throw std::runtime_error("the child sent a call");
  });
  EXPECT_TRUE(child.join());
  served.hosted.serve();
  client.ask(2, bytes_of({8, 1}));
  EXPECT_EQ(next(client)->number, 2U);
}

}  // namespace
}  // namespace reprise::test
