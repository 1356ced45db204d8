#include "chunks.hpp"
#include "explore.hpp"

#include <array>
#include <cstdint>

// Learners write mutable values, and samplers read them without a lock. Every read that succeeds
// has to see a whole write.

namespace reprise::model {
namespace {

using base::Order;

/// StepVersion with one of its rules broken.
class BrokenVersion {
 public:
  template <class Store>
  bool try_write(Store store) {
    std::uint32_t version = word_.load(kRelaxed);
    if ((version & 1) != 0) {
      return false;
    }
    if (broken(Rule::OneWriterAtATime)) {
      word_.store(version + 1, kRelaxed);
    } else if (!word_.compare_exchange(version, version + 1, Order::Acquire, kRelaxed)) {
      return false;
    }
    store();
    word_.store(version + 2, Order::Release);
    return true;
  }
  template <class Load>
  bool try_read(Load load) const {
    const std::uint32_t before = word_.load(Order::Acquire);
    if ((before & 1) != 0 && !broken(Rule::OddIsNotRead)) {
      return false;
    }
    load();
    return broken(Rule::VersionReadAgain) || word_.load(kRelaxed) == before;
  }

 private:
  RelacySync::Atomic<std::uint32_t> word_{0};
};

/// A step whose value has two words, which are equal in every whole value.
struct World {
  using Version = storage::StepVersion<RelacySync>;
  using Words = std::array<std::uint64_t, 2>;

  Version version;
  BrokenVersion broken_version;
  std::array<RelacySync::Atomic<std::uint64_t>, 2> words;
  /// Guarded by the version: only the thread that made the version odd writes.
  Plain<std::uint64_t> writes{0};

  static bool uses_broken_version() {
    return broken(Rule::OneWriterAtATime) || broken(Rule::OddIsNotRead) ||
           broken(Rule::VersionReadAgain);
  }

  /// Models one try of storage::write_consistent.
  bool write(std::uint64_t value) {
    const auto put = [&] {
      Version::put(words[0], value);
      if (!broken(Rule::EvenAfterTheLastWord)) {
        Version::put(words[1], value);
      }
      writes.set(writes.get() + 1);
    };
    if (broken(Rule::OddBeforeTheFirstWord)) {
      Version::put(words[0], value);
    }
    const bool written =
        uses_broken_version() ? broken_version.try_write(put) : version.try_write(put);
    if (written && broken(Rule::EvenAfterTheLastWord)) {
      Version::put(words[1], value);
    }
    return written;
  }

  /// Models one try of storage::read_consistent. Returns false if the value was not seen whole.
  bool read(Words& seen) const {
    const auto get = [&] { seen = {Version::get(words[0]), Version::get(words[1])}; };
    return uses_broken_version() ? broken_version.try_read(get) : version.try_read(get);
  }

  void expect_whole() const {
    Words seen{};
    if (read(seen)) {
      expect(seen[0] == seen[1], "a value is read whole");
    }
  }

  void after() {
    Words seen{};
    expect(read(seen), "nobody writes");
    expect(seen[0] == seen[1], "the last value is whole");
  }
};

struct ReadBesideAWriter : Test<ReadBesideAWriter, 2>, World {
  void thread(unsigned index) {
    if (index == 0) {
      write(1);
    } else {
      expect_whole();
    }
  }
  void after() { World::after(); }
};

struct WrittenTwice : Test<WrittenTwice, 2>, World {
  void thread(unsigned index) {
    if (index == 0) {
      write(1);
      write(2);
    } else {
      expect_whole();
    }
  }
  void after() { World::after(); }
};

struct TwoWriters : Test<TwoWriters, 2>, World {
  void thread(unsigned index) { write(index + 1); }
  void after() { World::after(); }
};

struct TwoWritersAndTwoReaders : Test<TwoWritersAndTwoReaders, 4>, World {
  void thread(unsigned index) {
    if (index < 2) {
      write(index + 1);
      write(index + 3);
    } else {
      expect_whole();
      expect_whole();
    }
  }
  void after() { World::after(); }
};

}  // namespace

void add_versions(Scenarios& scenarios) {
  scenarios.push_back(small<ReadBesideAWriter>("versions", "a value read beside its writer"));
  scenarios.push_back(small<WrittenTwice>("versions", "a value read beside two writes"));
  scenarios.push_back(small<TwoWriters>("versions", "two writers of one step"));
  scenarios.push_back(large<TwoWritersAndTwoReaders>("versions", "two writers and two readers"));
}

}  // namespace reprise::model
