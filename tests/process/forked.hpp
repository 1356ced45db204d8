#pragma once

#include "testing/test.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>

namespace reprise::test {

/// A forked child, which is killed when this object is destroyed or the parent process ends. The
/// parent must have only one thread when it forks, because the child has no other threads.
class Forked {
 public:
  /// Runs `work` in the child, which then exits with status 0, or with 1 if `work` throws.
  template <class Work>
  explicit Forked(Work&& work) {
    std::fflush(nullptr);
    const pid_t maker = ::getpid();
    child_ = ::fork();
    if (child_ < 0) {
      throw std::system_error(errno, std::generic_category(), "fork");
    }
    if (child_ != 0) {
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != maker) {
      ::_exit(1);
    }
    std::signal(SIGALRM, SIG_DFL);  // Removes the parent's guard against tests that hang.
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: threw: %s\n", error.what());
      std::fflush(stderr);
      ::_exit(1);
    }
    ::_exit(0);
  }
  Forked(Forked&& other) noexcept : child_(std::exchange(other.child_, -1)) {}
  Forked& operator=(Forked&& other) noexcept {
    std::swap(child_, other.child_);
    return *this;
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  ~Forked() { kill(); }

  [[nodiscard]] pid_t id() const noexcept { return child_; }
  void signal(int number) const noexcept {
    if (child_ > 0) {  // -1 would mean all processes.
      ::kill(child_, number);
    }
  }
  /// Stops the child, and returns once it has stopped.
  void stop() const noexcept {
    signal(SIGSTOP);
    int status = 0;
    while (::waitpid(child_, &status, WUNTRACED) < 0 && errno == EINTR) {
    }
  }
  /// Waits until the child ends. Returns whether it exited with status 0.
  bool join() noexcept {
    int status = 0;
    pid_t ended = -1;
    do {
      ended = ::waitpid(child_, &status, 0);
    } while (ended < 0 && errno == EINTR);
    child_ = -1;
    return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  void kill() noexcept {
    if (child_ > 0) {
      signal(SIGKILL);
      join();
    }
  }

 private:
  pid_t child_ = -1;
};

/// An array in memory that the process shares with children that it forks later.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(std::size_t size = 1) : bytes_(size * sizeof(T)), size_(size) {
    void* const memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    data_ = static_cast<T*>(memory);
    std::uninitialized_value_construct_n(data_, size_);
  }
  ~SharedArray() { ::munmap(data_, bytes_); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  T& operator[](std::size_t at) noexcept { return data_[at]; }
  T* operator->() noexcept { return data_; }
  T& operator*() noexcept { return *data_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }

 private:
  std::size_t bytes_;
  std::size_t size_;
  T* data_;
};

/// What this process has in use of the resources that hosts and guests take.
struct ProcessResources {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;  ///< Mappings of anonymous files, which hosts share with guests.
  std::size_t names = 0;     ///< Files in /dev/shm and /tmp with names that this library gives.

  [[nodiscard]] static ProcessResources now() {
    ProcessResources used;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
      ++used.descriptors;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      used.mappings += line.find("memfd:") != std::string::npos ? 1U : 0U;
    }
    const std::string prefix = "reprise-" + std::to_string(::getpid()) + "-";
    for (const char* const directory : {"/dev/shm", "/tmp"}) {
      std::error_code ignored;
      for (const auto& file : std::filesystem::directory_iterator(directory, ignored)) {
        used.names += file.path().filename().string().starts_with(prefix) ? 1U : 0U;
      }
    }
    return used;
  }
  bool operator==(const ProcessResources&) const = default;
};

inline void PrintTo(const ProcessResources& used, std::ostream* to) {
  *to << used.descriptors << " descriptors, " << used.mappings << " mappings, " << used.names
      << " names";
}

}  // namespace reprise::test
