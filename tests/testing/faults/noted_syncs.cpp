#include "noted_syncs.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <utility>

namespace reprise::test {
namespace {

struct Notes {
  std::mutex mutex;
  std::vector<std::string> calls;
  std::string broken;
};

Notes& notes() {
  static Notes all;
  return all;
}

/// The path of an open file, even if it was renamed after it was opened.
std::string path_of(int file) {
  std::array<char, 4096> path{};
  const ssize_t bytes =
      ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.data(), path.size());
  return bytes < 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(bytes));
}

/// Records a call that succeeded, and returns what the system call returns.
int record_call(long answer, std::string call) {
  if (answer != 0) {
    return -1;
  }
  const std::lock_guard lock(notes().mutex);
  notes().calls.push_back(std::move(call));
  return 0;
}

}  // namespace

std::vector<std::string> take_noted_calls() {
  const std::lock_guard lock(notes().mutex);
  return std::exchange(notes().calls, {});
}

void break_sync_of(const std::string& path) {
  const std::lock_guard lock(notes().mutex);
  notes().broken = path;
}

}  // namespace reprise::test

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the system's are reserved.
extern "C" int fsync(int file) {
  const std::string path = reprise::test::path_of(file);
  {
    const std::lock_guard lock(reprise::test::notes().mutex);
    if (!path.empty() && path == reprise::test::notes().broken) {
      errno = EIO;
      return -1;
    }
  }
  return reprise::test::record_call(::syscall(SYS_fsync, file), "sync " + path);
}

extern "C" int renameat(int from_directory, const char* from, int to_directory,
                        const char* to) noexcept {
  const std::string path = reprise::test::path_of(from_directory) + "/" + from;
  return reprise::test::record_call(
      ::syscall(SYS_renameat2, from_directory, from, to_directory, to, 0),
      "rename " + path + " " + to);
}

extern "C" int unlinkat(int directory, const char* name, int flags) noexcept {
  const std::string path = reprise::test::path_of(directory) + "/" + name;
  return reprise::test::record_call(::syscall(SYS_unlinkat, directory, name, flags),
                                    "remove " + path);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
