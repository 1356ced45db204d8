#include "base/text.hpp"
#include "process/forked.hpp"
#include "process/raw_guest.hpp"
#include "testing/test.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// Tests of processes that have no file descriptor left, or whose system has no pidfds.
// UndefinedBehaviorSanitizer needs descriptors when it first checks an object of a type, so each
// kind of call is made once before the descriptors are used up.

namespace reprise::test {
namespace {

using process::Channel;
using process::Message;
using process::MessageKind;

/// Limits the number of files that a process may have open, while this object exists.
class LimitedFiles {
 public:
  /// Lets this process open only `more` more files.
  explicit LimitedFiles(rlim_t more)
      : LimitedFiles(
            0, static_cast<rlim_t>(process::Descriptor(::dup(STDERR_FILENO)).number()) + more) {}
  LimitedFiles(pid_t process, rlim_t files) : process_(process) {
    EXPECT_EQ(::prlimit(process, RLIMIT_NOFILE, nullptr, &old_limit_), 0);
    const rlimit few{files, old_limit_.rlim_max};
    EXPECT_EQ(::prlimit(process, RLIMIT_NOFILE, &few, nullptr), 0);
  }
  LimitedFiles(const LimitedFiles&) = delete;
  LimitedFiles& operator=(const LimitedFiles&) = delete;
  // The process may have ended, so an error does not matter.
  ~LimitedFiles() { ::prlimit(process_, RLIMIT_NOFILE, &old_limit_, nullptr); }

 private:
  pid_t process_;
  rlimit old_limit_{};
};

/// The host's process has no file descriptor left for the memory that it shares with a guest, and
/// later not even for a connection over which it could report that.
TEST(HostWithoutDescriptors, RefusesNewGuestsWithAMessageAndServesItsOthers) {
  const std::string address = "@reprise-full-" + std::to_string(::getpid());
  const Forked host([&] {
    NumberedBuffer line;
    Hosted hosted(line.replay, {.address = address});
    hosted.host.run({});
  });
  std::vector<Guest> guests;
  guests.push_back(attach(address));
  EXPECT_EQ(guests.front().stats().guests, 1U);  // For the sanitizer: see the top of this file.
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  const auto limit_host_files = [&](rlim_t files) {
    const rlimit limit{files, old_limit.rlim_max};
    ASSERT_EQ(::prlimit(host.id(), RLIMIT_NOFILE, &limit, nullptr), 0);
  };
  limit_host_files(64);
  std::string refusal;
  while (refusal.empty() && guests.size() < 64) {
    try {
      guests.push_back(attach(address));
    } catch (const std::runtime_error& error) {
      refusal = error.what();
    }
  }
  EXPECT_NE(refusal.find("the host has no file descriptor left"), std::string::npos) << refusal;
  for (int repeat = 0; repeat < 3; ++repeat) {
    expect_refusal<std::runtime_error>([&] { static_cast<void>(attach(address)); }, {refusal});
  }
  expect_refusal<std::runtime_error>([&] { static_cast<void>(guests.back().writer()); }, {refusal});
  guests.erase(guests.begin() + 1, guests.end());
  // The host notices in the first call that guests have left, and does not count them in the
  // second.
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(guests.front().stats().guests, 1U);
  }
  limit_host_files(3);
  EXPECT_THROW(static_cast<void>(attach(address, {.timeout = 20ms})), std::system_error);
  EXPECT_EQ(guests.front().stats().guests, 1U);
  limit_host_files(old_limit.rlim_cur);
  EXPECT_NO_THROW(static_cast<void>(attach(address).writer()));
}

TEST(HostWithoutDescriptors, HangsUpOnConnectionsThatItCouldNotAcceptWhenItCloses) {
  NumberedBuffer line;
  Hosted hosted(line.replay);
  Channel not_accepted = raw_channel(hosted.address());
  line.replay.close();
  {
    const LimitedFiles few(0);
    hosted.host.run({});
  }
  EXPECT_FALSE(not_accepted.receive());
}

/// A filter makes `pidfd_open` fail in the host's process, as on an old system. Each guest then
/// takes one descriptor of the host instead of two.
TEST(HostWithoutDescriptors, ServesOneGuestPerDescriptorOnASystemWithoutPidfds) {
  const std::string address = "@reprise-old-" + std::to_string(::getpid());
  const Forked host([&] {
    std::array<sock_filter, 4> rules{
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
    const sock_fprog program{rules.size(), rules.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ||
        ::syscall(SYS_pidfd_open, ::getpid(), 0U) >= 0) {
      throw std::system_error(errno, std::generic_category(), "cannot forbid pidfd_open");
    }
    NumberedBuffer line;
    Hosted hosted(line.replay, {.address = address});
    hosted.host.run({});
  });
  std::vector<Guest> guests;
  while (guests.size() < 100) {
    guests.push_back(attach(address, {.timeout = 60s}));
  }
  const LimitedFiles few(host.id(), 150);
  for (Guest& guest : guests) {
    EXPECT_EQ(guest.stats().guests, 1U);
  }
}

/// Without a descriptor for the file of a message, the message arrives without its file, and so do
/// the other messages of the same `receive`.
TEST(ChannelWithoutDescriptors, LosesTheFileOfAMessageAndNothingElse) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  Channel from{process::Descriptor(ends[0])};
  Channel to{process::Descriptor(ends[1])};
  const process::Region memory = process::Region::make(4096);
  const auto expect = [&](MessageKind kind, bool file) {
    const std::optional<Message> message = to.next();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->kind, kind);
    EXPECT_EQ(message->file.valid(), file);
  };
  from.send(MessageKind::Stats);
  from.send(MessageKind::Sampled, {}, memory.file());
  {
    const LimitedFiles few(0);
    EXPECT_TRUE(to.receive());
  }
  from.send(MessageKind::Sampled, {}, memory.file());
  EXPECT_TRUE(to.receive());
  expect(MessageKind::Stats, /*file=*/false);
  expect(MessageKind::Sampled, /*file=*/false);
  expect(MessageKind::Sampled, /*file=*/true);
}

/// A guest receives many answers with files at once if it gave up the draws before.
TEST(Channel, ReceivesMoreFilesThanASingleCallTakes) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  Channel from{process::Descriptor(ends[0])};
  Channel to{process::Descriptor(ends[1])};
  const process::Region memory = process::Region::make(4096);
  for (int i = 0; i < 11; ++i) {
    from.send(MessageKind::Sampled, process::bytes_of(i), memory.file());
  }
  for (int i = 0; i < 11; ++i) {
    std::optional<Message> message = to.next();
    if (!message) {
      ASSERT_TRUE(to.receive());
      message = to.next();
    }
    ASSERT_TRUE(message);
    EXPECT_TRUE(message->file.valid());
    EXPECT_EQ(process::value_of<int>(message->bytes), i);
  }
}

TEST(GuestWithoutDescriptors, GetsAnErrorAndCanGoOn) {
  const std::string address = "@reprise-few-" + std::to_string(::getpid());
  Forked guest([&] {
    Guest attached = attach(address, {.timeout = 60s});
    GuestSampler sampler = attached.sampler();
    const auto draws = [&](GuestSampler& from, std::size_t n) {
      return static_cast<bool>(from.sample(n, {.timeout = 60s}));
    };
    const auto gets_error = [](rlim_t more, const auto& call) {
      try {
        const LimitedFiles few(more);
        call();
      } catch (const std::system_error& error) {
        return error.code() == std::errc::too_many_files_open;
      }
      return false;
    };
    // For the sanitizer: see the top of this file.
    GuestSampler other = attached.sampler();
    draws(other, 100);
    static_cast<void>(attached.writer());
    gets_error(100,
               [] { throw std::system_error(EMFILE, std::generic_category(), base::text(1)); });

    if (!draws(sampler, 1) || !gets_error(0, [&] { draws(sampler, 100); }) ||
        !draws(sampler, 100)) {
      throw std::logic_error("no error for the memory of a batch, or no batch");
    }
    // Two descriptors suffice for the connection, but not for the writer's memory.
    if (!gets_error(2, [&] { static_cast<void>(attached.writer()); })) {
      throw std::logic_error("no error for the memory of a writer");
    }
    static_cast<void>(attached.writer());
  });
  NumberedBuffer line;
  line.append_many(0, 20);
  Hosted hosted(line.replay, {.address = address});
  hosted.serve();
  EXPECT_TRUE(guest.join());
}

}  // namespace
}  // namespace reprise::test
