// Measures saves and loads of a buffer on a RAM disk and on a disk, beside dd for the same bytes;
// how much saves slow actors and learners; and what rows in a mapped file cost compared with rows
// in memory. The benchmark's argument is the base-2 logarithm of the buffer's bytes.
//
// REPRISE_BENCH_RAM and REPRISE_BENCH_DISK name the directories; the defaults are /dev/shm and the
// system's directory for temporary files.

#include <reprise/reprise.hpp>

#include "base/memory.hpp"
#include "base/text.hpp"
#include "measure.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

/// A full buffer of steps, a writer and a sampler. Observations have `kObservation` bytes.
template <std::size_t kObservation>
class Steps {
 public:
  explicit Steps(std::size_t bytes) : Steps(bytes, {.max_writers = 2}) {}
  Steps(std::size_t bytes, reprise::Options options)
      : steps_(std::max<std::size_t>(bytes / schema_.step_bytes(), 8)),
        replay_(schema_, (options.capacity_steps = steps_, options)) {
    append(steps_ + steps_ / 8);
    if (replay_.size() + 2 < steps_) {  // With an n-step of 3 the last two steps are no items yet.
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

/// Steps with an observation as large as an Atari frame.
using Frames = Steps<std::size_t{84} * 84>;
using SmallSteps = Steps<32>;

/// A new directory in `beneath`. The destructor removes it with all its files.
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

/// Asks the system to drop the files of a directory from its page cache, so that they are read from
/// the disk. The system may keep some files, and keeps all files of a RAM disk.
void forget(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    static_cast<void>(::fsync(file));
    static_cast<void>(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
    static_cast<void>(::close(file));
  }
}

/// Touches memory and frees it, so that the next measurement gets pages that this machine has used
/// before. On a virtual machine a page's first use may cost more than reading it from a disk.
void warm(std::size_t bytes) {
  reprise::base::LazyArray<std::byte> memory(bytes);
  std::memset(memory.data(), 1, bytes);
  benchmark::ClobberMemory();
}

/// Runs a shell command, the concatenation of `parts`.
template <class... Parts>
void run(const Parts&... parts) {
  const std::string command = reprise::base::text(parts...);
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("failed: " + command);
  }
}

/// Times `call`, and reports its time as that of this iteration.
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

/// Times dd of a file as large as a save, from the RAM disk to a new file with fsync.
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
    time(state, [&] { loaded = reprise::ReplayBuffer::load(folder.path()).buffer; });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes_in(folder.path())));
}

/// Times dd of each file of a checkpoint. `output_to(directory)` returns the options of dd's
/// output, for which there is a new directory on the RAM disk.
template <class OutputTo>
void time_dd(benchmark::State& state, const std::string& where, const OutputTo& output_to) {
  auto& frames = bench::prepared<Frames>(bench::size_of(state));
  const Folder folder(where);
  frames.replay().save(folder.path());
  for (auto _ : state) {
    const Folder to(ram());
    forget(folder.path());
    warm(2 * bench::size_of(state));
    time(state, [&] {
      run("for f in ", folder.path(), "/*; do dd if=\"$f\" ", output_to(to.path()),
          " bs=1M status=none; done");
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes_in(folder.path())));
}
void copy_dd(benchmark::State& state, const std::string& where) {
  time_dd(state, where, [](const fs::path& to) {
    return reprise::base::text("of=", to, "/\"${f##*/}\" conv=fsync");
  });
}
void read_dd(benchmark::State& state, const std::string& where) {
  time_dd(state, where, [](const fs::path&) { return "of=/dev/null"; });
}

/// What runs beside actors and learners: nothing, or saves of the whole buffer, which follow each
/// other.
struct Beside {
  bool saves = false;
  std::uint64_t bytes_per_second = 0;  ///< The pace of the saves; 0: no limit.
};

/// Saves until it is told to stop. Returns the number of saves.
template <class Subject>
double save_repeatedly(Subject& steps, const Beside& beside, const fs::path& directory,
                       const std::stop_token& stop) {
  double saves = 0.0;
  while (beside.saves && !stop.stop_requested()) {
    try {
      steps.replay().save(directory, {.keep = 1,
                                      .incremental = false,
                                      .bytes_per_second = beside.bytes_per_second,
                                      .stop = stop});
      saves += 1.0;
    } catch (const reprise::CheckpointError& error) {
      if (error.kind() != reprise::CheckpointError::Kind::Cancelled) {
        throw;
      }
    }
  }
  return saves;
}

/// Measures for two seconds one actor at 20,000 steps a second, and one learner as fast as it can.
template <class Subject>
void measure_beside(benchmark::State& state, const Beside& beside) {
  constexpr auto kTick = std::chrono::milliseconds(1);
  constexpr int kTicks = 2000;
  constexpr int kStepsPerTick = 20;
  auto& steps = bench::prepared<Subject>(bench::size_of(state));
  const Folder folder(ram());
  bench::Priorities priorities;
  bench::Latencies appends(kTicks * kStepsPerTick);
  bench::Latencies cycles(1U << 20U);
  double saves = 0.0;
  for (auto _ : state) {
    std::stop_source stop;
    std::jthread saver(
        [&] { saves += save_repeatedly(steps, beside, folder.path(), stop.get_token()); });
    std::jthread actor([&] {
      auto next = Clock::now();
      for (int tick = 0; tick < kTicks; ++tick) {
        for (int i = 0; i < kStepsPerTick; ++i) {
          appends.time([&] { steps.append_one(); });
        }
        std::this_thread::sleep_until(next += kTick);
      }
      stop.request_stop();
    });
    const auto start = Clock::now();
    while (!stop.stop_requested()) {
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

/// Writes the pages of mapped files to the disk and drops them from memory. The files are unlinked,
/// and the system's list of mappings calls them deleted.
void evict_pages() {
  ::sync();
  std::ifstream maps("/proc/self/maps");
  for (std::string map; std::getline(maps, map);) {
    if (map.find("(deleted)") != std::string::npos) {
      char* rest = nullptr;
      const std::uintptr_t begin = std::strtoull(map.c_str(), &rest, 16);
      const std::uintptr_t end = std::strtoull(rest + 1, nullptr, 16);
      if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT) != 0) {
        throw std::runtime_error("this system cannot put pages out");
      }
    }
  }
}

enum class Rows { InMemory, InFile };

/// Measures appends, and batches of 512 with windows of n-step 3. The rows are in memory, or in a
/// mapped file whose pages all are in memory at first. The counters `out_...` measure a mapped file
/// again after its pages were written to the disk and dropped.
template <std::size_t kObservation>
void mapped_file(benchmark::State& state, Rows rows) {
  const Folder folder(disk());
  reprise::Options options{.window = reprise::Transitions{.n_step = 3}, .max_writers = 4};
  if (rows == Rows::InFile) {
    options.storage = reprise::MappedFile{folder.path()};
  }
  Steps<kObservation> steps(bench::size_of(state), options);
  bench::Priorities priorities;
  const auto seconds = [](std::size_t calls, const auto& call) {
    const auto start = Clock::now();
    call();
    return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(calls);
  };
  const auto learn = [&](std::size_t batches) {
    return seconds(batches, [&] {
      for (std::size_t i = 0; i < batches; ++i) {
        steps.learn(priorities.next());
      }
    });
  };
  const auto append = [&](std::size_t count) {
    return 1e9 * seconds(count, [&] { steps.append(count); });
  };
  const auto save = [&] {
    const fs::path checkpoint = folder.path() / "checkpoint";
    const double took = seconds(1, [&] { steps.replay().save(checkpoint); });
    fs::remove_all(checkpoint);
    return took;
  };
  const std::size_t batches = kObservation > 1000 ? 200 : 4000;
  learn(batches / 4);
  for (auto _ : state) {
    state.counters["append_ns"] = append(steps.steps());
    state.SetIterationTime(learn(batches));
    if (rows == Rows::InFile) {
      state.counters["save_s"] = save();
      evict_pages();
      state.counters["out_first_us"] = 1e6 * learn(1);
      state.counters["out_batch_us"] = 1e6 * learn(10);
      evict_pages();
      state.counters["out_append_ns"] = append(std::max<std::size_t>(steps.steps() / 4, 1));
      evict_pages();
      state.counters["out_save_s"] = save();
    }
  }
}

template <class Run>
benchmark::internal::Benchmark* add(const std::string& name, const Run& run) {
  return benchmark::RegisterBenchmark(name.c_str(), run)
      ->Arg(19)
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

/// Adds the benchmarks of saves and loads on a medium. `where` returns the medium's directory, and
/// is called only when a benchmark runs.
void add_saves_and_loads(const std::string& medium, std::string (*where)()) {
  const auto add_on = [&](const char* what, const char* how, const auto& run) {
    add(reprise::base::text("checkpoint/", what, "_", medium, how), [=](benchmark::State& state) {
      run(state, where());
    })->Arg(30);
  };
  add_on("save", "", save);
  add_on("save", "_dd", save_dd);
  add_on("incremental", "", save_incremental);
  add_on("load", "", load);
  add_on("load", "_dd", copy_dd);
  add_on("load", "_read", read_dd);
}

template <class Subject>
void add_beside(const std::string& what) {
  constexpr std::uint64_t kPace = 100'000'000;
  const auto add_one = [&](const char* name, const Beside& beside) {
    add("checkpoint/" + what + "_beside_" + name, [=](benchmark::State& state) {
      measure_beside<Subject>(state, beside);
    })->Arg(30);
  };
  add_one("nothing", {});
  add_one("saves", {.saves = true});
  add_one("paced_saves", {.saves = true, .bytes_per_second = kPace});
}

/// Adds the benchmarks of a mapped file: about 2,000,000 steps with observations of 100 bytes, or
/// about 70,000 frames.
template <std::size_t kObservation>
void add_mapped_file(const std::string& what) {
  const auto add_one = [&](const char* where, Rows rows) {
    add("mapped_file/" + what + where, [=](benchmark::State& state) {
      mapped_file<kObservation>(state, rows);
    })->Arg(kObservation > 1000 ? 29 : 28);
  };
  add_one("_in_memory", Rows::InMemory);
  add_one("_in_file", Rows::InFile);
}

[[maybe_unused]] const bool added = [] {
  add_saves_and_loads("ram", ram);
  add_saves_and_loads("disk", disk);
  add_beside<Frames>("frames");
  add_beside<SmallSteps>("steps");
  add_mapped_file<100>("steps");
  add_mapped_file<std::size_t{84} * 84>("frames");
  return true;
}();

}  // namespace
