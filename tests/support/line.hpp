#pragma once

#include <reprise/reprise.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace reprise::test {

/// Options of a small buffer: 64 steps, one shard, small chunks, few writers.
[[nodiscard]] Options small_options();

/// The proportional selector whose weights are the priorities themselves.
inline constexpr Proportional kRaw{.alpha = 1.0F, .epsilon = 0.0F};

/// A buffer of numbered steps: step i observes i, acts i, earns i, and leads to i + 1. A batch's
/// `now(id)` therefore says which items were drawn.
///
/// A `Uniform` selector is put behind the given ones, through which every item can be found.
class Line {
 public:
  explicit Line(Options options = small_options());

  /// Commits the step with this number; begins an episode if there is none.
  CommitStatus append(Writer& writer, std::uint64_t number, End end = End::Continue,
                      std::span<const float> priorities = {});
  CommitStatus append(Writer& writer, std::uint64_t number, float priority) {
    return append(writer, number, End::Continue, std::span(&priority, 1));
  }
  /// Steps first to first + count - 1 in one episode, which goes on.
  void append_many(Writer& writer, std::uint64_t first, std::size_t count);
  /// The same with a priority, or a function of the number that gives it.
  template <class Priority>
  void append_many(Writer& writer, std::uint64_t first, std::size_t count, Priority&& priority) {
    for (std::uint64_t number = first; number < first + count; ++number) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<Priority>>) {
        append(writer, number, priority);
      } else {
        append(writer, number, priority(number));
      }
    }
  }

  UpdateResult update(ItemKey key, float priority) {
    return replay.update_priorities({&key, 1}, {&priority, 1});
  }

  /// The keys of all items by number, oldest number first. Every item is certain to be drawn: a
  /// stratified draw of 4 N from N equal weights leaves out nobody.
  [[nodiscard]] std::map<std::uint64_t, ItemKey> keys();
  [[nodiscard]] std::vector<std::uint64_t> numbers();

  /// What one draw through a selector reports for each item drawn among `draws` stratified ones.
  [[nodiscard]] std::map<std::uint64_t, double> probabilities(std::size_t draws = 4096,
                                                              std::size_t selector = 0);

  Schema schema;
  ScalarObservation<std::uint64_t> id;
  ScalarColumn<std::uint64_t> action;
  Reward reward;
  ReplayBuffer replay;
};

/// Numbers first to last - 1.
[[nodiscard]] std::vector<std::uint64_t> numbers_between(std::uint64_t first, std::uint64_t last);

/// committed = resident + evicted + pending, exactly; to be called while no other call is running.
void expect_accounted(const ReplayBuffer& replay);

/// Lets other threads run until something that they do is there.
template <class Condition>
void yield_while(Condition&& condition) {
  while (condition()) {
    std::this_thread::yield();
  }
}

/// Never gather in parallel: for large batches in tests that also run under ThreadSanitizer.
inline constexpr std::size_t kGatherAlone = std::numeric_limits<std::size_t>::max();

/// A sample without waiting, for expectations on what is there.
inline const SampleOptions kAtOnce{.timeout = std::chrono::nanoseconds(0)};

}  // namespace reprise::test
