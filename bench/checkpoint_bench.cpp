// Saves and loads of a buffer, beside dd for the same bytes, on a RAM disk and on a disk; and what
// actors and learners feel of a save. The argument is the base-2 logarithm of the buffer's bytes.
//
// REPRISE_BENCH_RAM and REPRISE_BENCH_DISK name directories; unless they do, /dev/shm and the
// directory for temporary files are used.

#include <reprise/reprise.hpp>

#include "base/memory.hpp"
#include "base/text.hpp"
#include "measure.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

/// A full buffer of steps with observations of so many bytes, each stored once.
template <std::size_t kObservation>
class Steps {
 public:
  explicit Steps(std::size_t bytes)
      : steps_(std::max<std::size_t>(bytes / schema_.step_bytes(), 8)),
        replay_(schema_, {.capacity_steps = steps_, .max_writers = 2}) {
    append(steps_ + steps_ / 8);
    if (replay_.size() != steps_) {
      throw std::logic_error("the buffer did not fill");
    }
  }

  void append(std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) {
      append_one();
    }
  }
  void append_one() {
    if (!writer_.in_episode()) {
      writer_.begin_episode();
      std::memset(writer_.now(observation_).data(), 1, kObservation);
    }
    writer_.now(action_) = 1;
    writer_.now(reward_) = 1.0F;
    std::memset(writer_.next(observation_).data(), static_cast<int>(++appended_ & 0xffU),
                kObservation);
    writer_.commit(appended_ % 1000 == 0 ? reprise::End::Terminated : reprise::End::Continue);
  }
  void learn(std::span<const float> priorities) {
    const auto batch = sampler_.sample(priorities.size());
    replay_.update_priorities(batch->keys(), priorities);
  }
  std::size_t steps() const { return steps_; }
  reprise::ReplayBuffer& replay() { return replay_; }

 private:
  reprise::Schema schema_;
  reprise::Observation<std::uint8_t> observation_ =
      schema_.observation<std::uint8_t>("observation", {kObservation});
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  std::size_t steps_;
  reprise::ReplayBuffer replay_;
  reprise::Writer writer_ = replay_.writer();
  reprise::Sampler sampler_ = replay_.sampler({.seed = 1});
  std::uint64_t appended_ = 0;
};

using Frames = Steps<std::size_t{84} * 84>;  ///< Atari's.
using SmallSteps = Steps<32>;

/// A directory of its own, removed with all that is in it.
class Folder {
 public:
  explicit Folder(const std::string& beneath) {
    std::string path = beneath + "/reprise-bench-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      throw std::runtime_error("cannot make a directory in " + beneath);
    }
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string ram() {
  const char* const named = std::getenv("REPRISE_BENCH_RAM");
  return named != nullptr ? named : "/dev/shm";
}
std::string disk() {
  const char* const named = std::getenv("REPRISE_BENCH_DISK");
  return named != nullptr ? named : fs::temp_directory_path().string();
}

std::uint64_t bytes_in(const fs::path& directory) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    bytes += entry.file_size();
  }
  return bytes;
}

/// Asks the system to forget what it has of the files in its cache, so that they are read from the
/// disk. It may keep what it likes; a RAM disk keeps everything.
void forget(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    static_cast<void>(::fsync(file));
    static_cast<void>(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
    static_cast<void>(::close(file));
  }
}

/// Takes memory and gives it back, so that what is timed next finds pages that were in use before:
/// a virtual machine may have to ask its host for others, at a fraction of the speed of a disk.
void warm(std::size_t bytes) {
  reprise::base::LazyArray<std::byte> memory(bytes);
  std::memset(memory.data(), 1, bytes);
  benchmark::ClobberMemory();
}

/// Runs a command of the shell, put together of its parts.
template <class... Parts>
void run(const Parts&... parts) {
  const std::string command = reprise::base::text(parts...);
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("failed: " + command);
  }
}

/// The time of this iteration is that of the call.
template <class Call>
void time(benchmark::State& state, const Call& call) {
  const auto start = Clock::now();
  call();
  state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
}

void save(benchmark::State& state, const std::string& where) {
  auto& frames = bench::prepared<Frames>(bench::size_of(state));
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    const Folder folder(where);
    warm(2 * bench::size_of(state));
    time(state, [&] { bytes = frames.replay().save(folder.path()).bytes_written; });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

/// A file in memory, of as many bytes as a save writes, copied to a new file and synced.
void save_dd(benchmark::State& state, const std::string& where) {
  auto& frames = bench::prepared<Frames>(bench::size_of(state));
  const Folder source(ram());
  frames.replay().save(source.path() / "c");
  const std::uint64_t bytes = bytes_in(source.path() / "c");
  run("cat ", source.path() / "c", "/* > ", source.path() / "f");
  fs::remove_all(source.path() / "c");
  for (auto _ : state) {
    const Folder folder(where);
    warm(2 * bench::size_of(state));
    time(state, [&] {
      run("dd if=", source.path() / "f", " of=", folder.path() / "f",
          " bs=1M conv=fsync status=none");
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void save_incremental(benchmark::State& state, const std::string& where) {
  auto& frames = bench::prepared<Frames>(bench::size_of(state));
  const Folder folder(where);
  frames.replay().save(folder.path());
  for (auto _ : state) {
    frames.append(frames.steps() / 100);
    time(state, [&] { frames.replay().save(folder.path()); });
  }
}

void load(benchmark::State& state, const std::string& where) {
  auto& frames = bench::prepared<Frames>(bench::size_of(state));
  const Folder folder(where);
  frames.replay().save(folder.path());
  for (auto _ : state) {
    forget(folder.path());
    warm(2 * bench::size_of(state));
    std::optional<reprise::ReplayBuffer> loaded;
    time(state, [&] { loaded = reprise::ReplayBuffer::load(folder.path()); });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes_in(folder.path())));
}

/// The same files, each given to dd: written to memory, as a load does, or read and forgotten.
void load_dd(benchmark::State& state, const std::string& where, bool keep) {
  auto& frames = bench::prepared<Frames>(bench::size_of(state));
  const Folder folder(where);
  frames.replay().save(folder.path());
  for (auto _ : state) {
    const Folder to(ram());
    forget(folder.path());
    warm(2 * bench::size_of(state));
    time(state, [&] {
      run("for f in ", folder.path(), "/*; do dd if=\"$f\" ",
          keep ? reprise::base::text("of=", to.path(), "/\"${f##*/}\" conv=fsync")
               : std::string("of=/dev/null"),
          " bs=1M status=none; done");
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes_in(folder.path())));
}

/// Nanoseconds of single calls.
class Latencies {
 public:
  explicit Latencies(std::size_t expected) { all_.reserve(expected); }
  template <class Call>
  void time(const Call& call) {
    const auto start = Clock::now();
    call();
    all_.push_back(static_cast<float>((Clock::now() - start).count()));
  }
  [[nodiscard]] double mean() const {
    return std::accumulate(all_.begin(), all_.end(), 0.0) / static_cast<double>(all_.size());
  }
  double quantile(double q) {
    const auto at =
        all_.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(all_.size() - 1));
    std::nth_element(all_.begin(), at, all_.end());
    return static_cast<double>(*at);
  }

 private:
  std::vector<float> all_;
};

/// For two seconds one actor at 20,000 steps a second, and one learner at what it reaches, while
/// saves of the whole buffer follow each other, or not. `pace`: of the saves, bytes per second.
template <class Subject>
void beside(benchmark::State& state, bool saving, std::uint64_t pace = 0) {
  constexpr auto kTick = std::chrono::milliseconds(1);
  constexpr int kTicks = 2000;
  constexpr int kStepsPerTick = 20;
  auto& steps = bench::prepared<Subject>(bench::size_of(state));
  const Folder folder(ram());
  bench::Priorities priorities;
  Latencies appends(kTicks * kStepsPerTick);
  Latencies cycles(1U << 20U);
  double saves = 0.0;
  for (auto _ : state) {
    std::stop_source stop;
    std::atomic<bool> done = false;  // Relaxed everywhere: joins order everything else.
    std::jthread saver([&] {
      while (saving && !done.load(std::memory_order_relaxed)) {
        try {
          steps.replay().save(folder.path(), {.keep = 1,
                                              .incremental = false,
                                              .bytes_per_second = pace,
                                              .stop = stop.get_token()});
          saves += 1.0;
        } catch (const reprise::CheckpointError& error) {
          if (error.kind() != reprise::CheckpointError::Kind::Cancelled) {
            throw;
          }
        }
      }
    });
    std::jthread actor([&] {
      auto next = Clock::now();
      for (int tick = 0; tick < kTicks; ++tick) {
        for (int i = 0; i < kStepsPerTick; ++i) {
          appends.time([&] { steps.append_one(); });
        }
        std::this_thread::sleep_until(next += kTick);
      }
      done.store(true, std::memory_order_relaxed);
      stop.request_stop();
    });
    const auto start = Clock::now();
    while (!done.load(std::memory_order_relaxed)) {
      cycles.time([&] { steps.learn(priorities.next()); });
    }
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  state.counters["append_p50_ns"] = appends.quantile(0.5);
  state.counters["append_p999_ns"] = appends.quantile(0.999);
  state.counters["cycle_mean_ns"] = cycles.mean();
  state.counters["cycle_p50_ns"] = cycles.quantile(0.5);
  state.counters["cycle_p99_ns"] = cycles.quantile(0.99);
  state.counters["saves"] = saves;
}

void save_ram(benchmark::State& state) {
  save(state, ram());
}
void save_ram_dd(benchmark::State& state) {
  save_dd(state, ram());
}
void save_disk(benchmark::State& state) {
  save(state, disk());
}
void save_disk_dd(benchmark::State& state) {
  save_dd(state, disk());
}
void incremental_ram(benchmark::State& state) {
  save_incremental(state, ram());
}
void incremental_disk(benchmark::State& state) {
  save_incremental(state, disk());
}
void load_ram(benchmark::State& state) {
  load(state, ram());
}
void load_ram_dd(benchmark::State& state) {
  load_dd(state, ram(), true);
}
void load_ram_read(benchmark::State& state) {
  load_dd(state, ram(), false);
}
void load_disk(benchmark::State& state) {
  load(state, disk());
}
void load_disk_dd(benchmark::State& state) {
  load_dd(state, disk(), true);
}
void load_disk_read(benchmark::State& state) {
  load_dd(state, disk(), false);
}
template <class Subject>
void beside_nothing(benchmark::State& state) {
  beside<Subject>(state, false);
}
template <class Subject>
void beside_saves(benchmark::State& state) {
  beside<Subject>(state, true);
}
template <class Subject>
void beside_paced_saves(benchmark::State& state) {
  beside<Subject>(state, true, 100'000'000);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(19)->Arg(30)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(save_ram)->Name("checkpoint/save_ram")->Apply(sizes);
BENCHMARK(save_ram_dd)->Name("checkpoint/save_ram_dd")->Apply(sizes);
BENCHMARK(incremental_ram)->Name("checkpoint/incremental_ram")->Apply(sizes);
BENCHMARK(load_ram)->Name("checkpoint/load_ram")->Apply(sizes);
BENCHMARK(load_ram_dd)->Name("checkpoint/load_ram_dd")->Apply(sizes);
BENCHMARK(load_ram_read)->Name("checkpoint/load_ram_read")->Apply(sizes);
BENCHMARK(save_disk)->Name("checkpoint/save_disk")->Apply(sizes);
BENCHMARK(save_disk_dd)->Name("checkpoint/save_disk_dd")->Apply(sizes);
BENCHMARK(incremental_disk)->Name("checkpoint/incremental_disk")->Apply(sizes);
BENCHMARK(load_disk)->Name("checkpoint/load_disk")->Apply(sizes);
BENCHMARK(load_disk_dd)->Name("checkpoint/load_disk_dd")->Apply(sizes);
BENCHMARK(load_disk_read)->Name("checkpoint/load_disk_read")->Apply(sizes);
BENCHMARK(beside_nothing<Frames>)->Name("checkpoint/frames_beside_nothing")->Apply(sizes);
BENCHMARK(beside_saves<Frames>)->Name("checkpoint/frames_beside_saves")->Apply(sizes);
BENCHMARK(beside_paced_saves<Frames>)->Name("checkpoint/frames_beside_paced_saves")->Apply(sizes);
BENCHMARK(beside_nothing<SmallSteps>)->Name("checkpoint/steps_beside_nothing")->Apply(sizes);
BENCHMARK(beside_saves<SmallSteps>)->Name("checkpoint/steps_beside_saves")->Apply(sizes);
BENCHMARK(beside_paced_saves<SmallSteps>)
    ->Name("checkpoint/steps_beside_paced_saves")
    ->Apply(sizes);

}  // namespace
