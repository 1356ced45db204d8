// What rows in a mapped file cost beside rows in memory: a writer's steps and a learner's batches
// of 512 while all rows are in the page cache, and after they were put out to the disk.
// mapped_file DIRECTORY [BYTES_OF_AN_OBSERVATION [CAPACITY]]; needs as much disk space as rows, and
// an idle machine.

#include <reprise/reprise.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

class Load {
 public:
  Load(std::size_t bytes, std::size_t capacity, const reprise::Storage& storage)
      : observation_(schema_.observation<std::uint8_t>("observation", {bytes})),
        replay_(schema_, {.capacity_steps = capacity,
                          .window = reprise::Transitions{.n_step = 3},
                          .storage = storage,
                          .max_writers = 4}) {}

  /// Nanoseconds per step.
  double append(std::size_t steps) {
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < steps; ++i) {
      if (!writer_.in_episode()) {
        writer_.begin_episode();
        std::memset(writer_.now(observation_).data(), 1, writer_.now(observation_).size());
      }
      const auto next = writer_.next(observation_);
      std::memset(next.data(), static_cast<int>(i & 0xFFU), next.size());
      writer_.now(reward_) = 1.0F;
      writer_.commit(i % 1000 == 999 ? reprise::End::Terminated : reprise::End::Continue);
    }
    return nanoseconds(start) / static_cast<double>(steps);
  }

  /// Microseconds per batch drawn, copied and updated.
  double learn(std::size_t batches) {
    const Clock::time_point start = Clock::now();
    for (std::size_t b = 0; b < batches; ++b) {
      const auto batch = sampler_.sample(priorities_.size());
      if (!batch) {
        throw std::runtime_error("nothing to draw");
      }
      replay_.update_priorities(batch->keys(), priorities_);
    }
    return nanoseconds(start) / 1e3 / static_cast<double>(batches);
  }

  /// Seconds.
  double save(const std::string& directory) {
    const Clock::time_point start = Clock::now();
    replay_.save(directory);
    const double took = nanoseconds(start) / 1e9;
    std::filesystem::remove_all(directory);
    return took;
  }

 private:
  static double nanoseconds(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  }

  reprise::Schema schema_;
  reprise::Observation<std::uint8_t> observation_;
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  reprise::Writer writer_ = replay_.writer();
  reprise::Sampler sampler_ = replay_.sampler({.seed = 1});
  std::vector<float> priorities_ = std::vector<float>(512, 1.0F);
};

/// Writes the pages of files without a name to the disk and lets them go.
void put_out() {
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

void measure(const char* name, std::size_t bytes, std::size_t capacity, std::size_t batches,
             const reprise::Storage& storage) {
  Load load(bytes, capacity, storage);
  load.append(capacity);
  load.learn(batches / 4);
  std::printf("%-20s append %8.0f ns, batch %8.0f us", name, load.append(capacity),
              load.learn(batches));
  if (const auto* const file = std::get_if<reprise::MappedFile>(&storage)) {
    const std::string checkpoint = (file->path / "reprise-checkpoint").string();
    std::printf(", save %6.2f s\n", load.save(checkpoint));
    put_out();
    const double first = load.learn(1);
    const double later = load.learn(10);
    put_out();
    const double append = load.append(capacity / 4);
    put_out();
    std::printf("%-20s append %8.0f ns, batch %8.0f us (the first %.0f us), save %6.2f s\n",
                "  put out before", append, later, first, load.save(checkpoint));
  } else {
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "mapped_file DIRECTORY [BYTES_OF_AN_OBSERVATION [CAPACITY]]\n");
    return 2;
  }
  try {
    const std::size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100;
    const std::size_t capacity = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 2'000'000;
    const std::size_t batches = bytes > 1000 ? 200 : 4000;
    measure("in memory", bytes, capacity, batches, reprise::Memory{});
    measure("in a mapped file", bytes, capacity, batches, reprise::MappedFile{argv[1]});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mapped_file: %s\n", error.what());
    return 1;
  }
  return 0;
}
