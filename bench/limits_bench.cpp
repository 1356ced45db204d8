// Measures what the machine allows, as a bound for other figures: copies, random reads, passing a
// cache line between two threads, and the copies of a batch without bookkeeping.

#include "base/memory.hpp"
#include "measure.hpp"

#include <atomic>
#include <cstring>
#include <thread>

namespace {

using bench::kBatch;

constexpr std::size_t kLine = 64;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

/// Rows in memory on huge pages, all touched beforehand, and batches of random row numbers, chosen
/// beforehand.
class Rows {
 public:
  /// Number of different batches. They name 2^20 rows, so that these rows do not stay in the
  /// caches.
  static constexpr std::size_t kBatches = 2048;

  Rows(std::size_t rows, std::size_t row_bytes)
      : row_bytes_(row_bytes), memory_(rows * row_bytes), places_(kBatch * kBatches) {
    memory_.expect_full(0, memory_.size());
    std::memset(memory_.data(), 1, memory_.size());
    bench::Random random(4);
    std::generate(places_.begin(), places_.end(), [&] { return random.next() % rows; });
  }
  std::span<const std::size_t> batch(std::size_t i) const {
    return std::span(places_).subspan(i % kBatches * kBatch, kBatch);
  }
  const std::byte* row(std::size_t place) const { return memory_.data() + place * row_bytes_; }
  std::size_t row_bytes() const { return row_bytes_; }

 private:
  std::size_t row_bytes_;
  reprise::base::LazyArray<std::byte> memory_;
  std::vector<std::size_t> places_;
};

/// Lines of 64 bytes. `bytes` is the size of all of them.
struct Lines : Rows {
  explicit Lines(std::size_t bytes) : Rows(bytes / kLine, kLine) {}
};
/// Rows of W2, small or large, as many as `rows`.
template <std::size_t kBytes>
struct RowsOf : Rows {
  explicit RowsOf(std::size_t rows) : Rows(rows, kBytes) {}
};

/// Copies on one thread. Each byte copied counts once.
void copy(benchmark::State& state) {
  const std::size_t bytes = bench::size_of(state);
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, bytes);
}

/// Reads one word of each line of a random batch, with prefetches.
void random_lines(benchmark::State& state) {
  constexpr std::size_t kAhead = 32;
  const auto& lines = bench::prepared<Lines>(bench::size_of(state));
  std::size_t i = 0;
  for (auto _ : state) {
    const auto batch = lines.batch(i++);
    std::uint64_t sum = 0;
    for (std::size_t k = 0; k < kBatch; ++k) {
      __builtin_prefetch(lines.row(batch[std::min(k + kAhead, kBatch - 1)]));
      std::uint64_t word = 0;
      std::memcpy(&word, lines.row(batch[k]), sizeof(word));
      sum += word;
    }
    benchmark::DoNotOptimize(sum);
  }
  bench::per_item(state, kBatch);
}

/// Waits until `turn` is `value` or `done` is set. Yields at times, because the other thread may
/// need this processor.
void wait_for(const std::atomic<int>& turn, int value, const std::atomic<bool>& done) {
  for (int looks = 1; turn.load(std::memory_order_acquire) != value; ++looks) {
    if (looks % 256 == 0) {
      if (done.load(std::memory_order_relaxed)) {
        return;
      }
      std::this_thread::yield();
    }
  }
}

/// Two threads set one word in turn: the time of a turn is the cost of fetching a line that another
/// core wrote.
void line_transfer(benchmark::State& state) {
  constexpr int kTurns = 100;
  alignas(kLine) std::atomic<int> turn{0};
  alignas(kLine) std::atomic<bool> done{false};
  std::jthread answering([&] {
    for (int asked = 1; !done.load(std::memory_order_relaxed); asked += 2) {
      wait_for(turn, asked, done);
      turn.store(asked + 1, std::memory_order_release);
    }
  });
  int next = 0;
  for (auto _ : state) {
    for (int i = 0; i < kTurns; ++i) {
      turn.store(next + 1, std::memory_order_release);
      next += 2;
      wait_for(turn, next, done);
    }
  }
  done.store(true, std::memory_order_relaxed);
  bench::per_item(state, 2 * kTurns);
}

/// Copies batches of random rows, and prefetches each row `ahead` copies before its turn.
template <class Subject, std::size_t rows, std::size_t ahead>
void gather(benchmark::State& state) {
  const auto& source = bench::prepared<Subject>(rows);
  const std::size_t bytes = source.row_bytes();
  std::vector<std::byte> to(kBatch * bytes);
  std::size_t i = 0;
  for (auto _ : state) {
    const auto batch = source.batch(i++);
    for (std::size_t k = 0; k < kBatch; ++k) {
      const std::byte* const next = source.row(batch[std::min(k + ahead, kBatch - 1)]);
      __builtin_prefetch(next);
      __builtin_prefetch(next + bytes - 1);
      std::memcpy(to.data() + k * bytes, source.row(batch[k]), bytes);
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

BENCHMARK(copy)->Name("limit/memcpy")->Arg(14)->Arg(26);
BENCHMARK(random_lines)->Name("limit/random_lines")->Arg(26)->Arg(30);
BENCHMARK(line_transfer)->Name("limit/line_transfer");
BENCHMARK_TEMPLATE(gather, RowsOf<76>, kMiB, 16)->Name("limit/gather76");
BENCHMARK_TEMPLATE(gather, RowsOf<56'460>, 20'000, 1)->Name("limit/gather56k");

}  // namespace
