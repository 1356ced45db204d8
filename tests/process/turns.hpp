#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>

namespace reprise::test {

/// Counts how often a rate limiter let in each of three threads: one of a guest, and two of the
/// host, which always wait before it.
using LetIn = std::array<std::atomic<std::uint64_t>, 3>;

/// Makes room for one of them 300 times, each time after the room before was used, and returns how
/// often the guest used it. Without turns the guest would get next to nothing.
template <class MakeRoom>
[[nodiscard]] std::uint64_t turns_of_guest(const LetIn& let_in, const MakeRoom& make_room) {
  const auto total = [&] {
    return std::accumulate(let_in.begin(), let_in.end(), std::uint64_t{0});
  };
  const auto make_room_and_wait = [&] {
    const std::uint64_t before = total();
    const std::uint64_t of_guest = let_in[0];
    make_room();
    // Some room is too small for any of them.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (total() == before && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    if (let_in[0] != of_guest) {  // The guest waits in line again once its message has come.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  while (let_in[0] == 0 || let_in[1] == 0 || let_in[2] == 0) {
    make_room_and_wait();
  }
  const std::uint64_t before = let_in[0];
  for (int i = 0; i < 300; ++i) {
    make_room_and_wait();
  }
  return let_in[0] - before;
}

}  // namespace reprise::test
