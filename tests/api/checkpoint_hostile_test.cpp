#include <reprise/reprise.hpp>

#include "../checkpoint/scratch_directory.hpp"
#include "../support/line.hpp"
#include "../support/rng.hpp"
#include "../support/sanitizer.hpp"
#include "../support/scale.hpp"
#include "checkpoint/posix_file_system.hpp"
#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

/// Checkpoints whose checksums are right and whose contents are not: what no disk makes, but
/// somebody might.
namespace reprise::test {
namespace {

using Contents = std::vector<std::byte>;

/// A checkpoint in memory, to be changed and written again.
struct Copied {
  explicit Copied(const std::string& directory) {
    checkpoint::PosixFileSystem files;
    const checkpoint::Snapshot snapshot = checkpoint::open_latest(files, directory);
    checkpoint::Reader reader(snapshot);
    const auto into = [](Contents& contents) {
      return [&contents](checkpoint::Bytes bytes) {
        contents.insert(contents.end(), bytes.begin(), bytes.end());
      };
    };
    for (const checkpoint::StateEntry& state : snapshot.states()) {
      reader.state(state, into(states[state.name]));
    }
    for (const checkpoint::ChunkEntry& chunk : snapshot.chunks()) {
      chunks.emplace_back(chunk.id, Contents());
      reader.chunk(chunk, into(chunks.back().second));
    }
  }

  void write(const std::string& directory) const {
    checkpoint::PosixFileSystem files;
    checkpoint::Saver saver(files, directory, {.keep = 1});
    for (const auto& [name, contents] : states) {
      saver.write_state(name, std::array{checkpoint::Bytes(contents)});
    }
    for (const auto& [id, contents] : chunks) {
      saver.write_chunk(id, std::array{checkpoint::Bytes(contents)});
    }
    saver.commit();
  }

  std::map<std::string, Contents> states;
  std::vector<std::pair<checkpoint::ChunkId, Contents>> chunks;
};

Options options() {
  Options options = small_options();
  options.capacity_steps = 100;
  options.window = Transitions{.n_step = 3, .frame_stack = 2};
  options.shards = 2;
  options.chunk_steps = 16;
  options.max_times_sampled = 5;
  options.selectors = {kRaw, Fifo{}};
  options.max_writers = 3;
  return options;
}

/// One change of a few bytes, to something that is often at a limit.
void damage(Contents& contents, Rng& rng) {
  if (contents.empty()) {
    return;
  }
  constexpr std::array kNumbers{0U,          1U,          2U,          16U,
                                17U,         0x7f800000U, 0x7fc00000U, 0x7fffffffU,
                                0x80000000U, 0xffffffffU, 0xbf800000U, 0xc0000000U};
  const std::size_t at = rng.below(contents.size());
  switch (rng.below(4)) {
    case 0:
      contents[at] ^= static_cast<std::byte>(1U << rng.below(8));
      return;
    case 1:
      contents.resize(at);
      return;
    case 2:
      contents.insert(contents.end(), contents.begin(), contents.begin() + 4);
      return;
    default:
      const std::uint32_t number = kNumbers[rng.below(kNumbers.size())];
      const std::size_t word = at / 4 * 4;
      if (word + 4 <= contents.size()) {
        std::memcpy(contents.data() + word, &number, sizeof(number));
      }
  }
}

/// Whatever was taken in can be used.
void use(ReplayBuffer& replay) {
  Sampler sampler = replay.sampler({.resume = std::nullopt});
  for (int i = 0; i < 3; ++i) {
    if (const SampleResult batch = sampler.sample(20, kAtOnce)) {
      replay.update_priorities(batch->keys(), std::vector<float>(20, 1.0F));
    }
  }
  (void)replay.stats();
  (void)replay.size();
}

TEST(HostileCheckpoint, IsRefusedOrHarmless) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "oneTBB shares out what says that it is large";
  }
  const std::uint64_t seed = 20;
  Rng rng(seed);
  const ScratchDirectory source;
  {
    Line line(options());
    Writer first = line.replay.writer();
    Writer second = line.replay.writer();
    line.append_many(first, 0, 150);
    line.append_many(second, 1000, 30);
    Sampler sampler = line.replay.sampler();
    (void)sampler.sample(50, kAtOnce);
    line.replay.save(source.path(), {.samplers = {&sampler}});
  }
  const Copied good(source.path());
  const std::vector<std::string> names{"buffer", "options", "schema", "shard-0", "shard-1"};
  std::size_t refused = 0;
  const std::size_t rounds = scaled(3000, 300);
  for (std::size_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    Copied bad = good;
    const std::size_t what = rng.below(names.size() + 1);
    damage(what < names.size() ? bad.states.at(names[what])
                               : bad.chunks[rng.below(bad.chunks.size())].second,
           rng);
    const ScratchDirectory target;
    bad.write(target.path());
    try {
      ReplayBuffer loaded = ReplayBuffer::load(target.path());
      use(loaded);
    } catch (const CheckpointError&) {
      ++refused;
    } catch (const std::bad_alloc&) {
      ++refused;  // Of a capacity beyond the address space.
    }
  }
  EXPECT_GT(refused, rounds / 10);
}

}  // namespace
}  // namespace reprise::test
