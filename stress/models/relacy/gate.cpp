#include "explore.hpp"
#include "sleeper.hpp"

#include <cstddef>

// The two gates of the rate limiter, one for writers and one for samplers. Progress at each gate
// has to wake the sleepers at the other gate, and together the gates have to hold the ratio.

namespace reprise::model {
namespace {

/// A limiter of one sample per insert, with an error buffer of one item.
struct World {
  limiter::RatioGate<RelacySync> gate{
      {.min_size = 1, .samples_per_insert = 1.0, .error_buffer = 1.0}};
  Sleeper items_event;  ///< Samplers wait for this event.
  Sleeper room_event;   ///< Writers wait for this event.

  static constexpr std::size_t kResident = 8;  ///< Resident items, enough for every batch.

  /// Models BookedInserts::wait.
  bool book() {
    bool booked = false;
    items_event.progress_then_wake([&] { booked = gate.book_inserts(kResident) != 0; },
                                   [&] { items_event.wake_registered(); });
    return booked;
  }
  void write() {
    room_event.wait_unless([&] { return book(); });
  }

  /// Models SamplerCore::wait.
  bool admit(std::size_t items) {
    bool admitted = false;
    room_event.progress_then_wake([&] { admitted = gate.admit_samples(items); },
                                  [&] { room_event.wake_registered(); });
    return admitted;
  }
  void sample(std::size_t items) {
    items_event.wait_unless([&] { return admit(items); });
  }

  /// Models SamplerCore::take_back.
  void take_back(std::size_t items) {
    items_event.progress_then_wake([&] { gate.return_samples(items); },
                                   [&] { items_event.wake_registered(); });
  }

  void admit_inserts(std::size_t inserts) {
    for (std::size_t i = 0; i < inserts; ++i) {
      expect(gate.book_inserts(0) == 1, "no insert waits for want of items");
    }
  }
};

/// A lower ratio lets a writer go on, because each insert then counts for fewer samples.
struct WriterWaitsForRatio : Test<WriterWaitsForRatio, 2>, World {
  void prepare() {
    admit_inserts(1);
    gate.set(0.75);
    admit_inserts(1);
    gate.set(1.0);
  }
  void thread(unsigned index) {
    if (index == 0) {
      write();
    } else {
      // Models BufferCore::set_samples_per_insert.
      room_event.progress_then_wake([&] { gate.set(0.25); }, [&] { room_event.wake_registered(); });
    }
  }
  void after() { room_event.expect_awake(); }
};

/// The ratio is changed twice, so that the second change writes the numbers (terms of the balance)
/// that a reader may be reading after the first one. The balance has to stay what it was.
struct RatioChangedTwice : Test<RatioChangedTwice, 2>, World {
  void prepare() {
    admit_inserts(3);
    gate.admit_samples(2);
  }
  void thread(unsigned index) {
    if (index == 0) {
      gate.set(2.0);
      gate.set(4.0);
    } else {
      expect(gate.ahead() == 0.0, "terms are of one change");
    }
  }
  void after() { expect(gate.ahead() == 0.0, "a change leaves the balance"); }
};

/// Inserts are booked while the ratio is changed. Each insert has to count at the old or at the new
/// ratio, and the booked inserts have to be within the error buffer at that ratio.
struct InsertsWhileRatioChanges : Test<InsertsWhileRatioChanges, 3>, World {
  int inserts = 1;
  void prepare() { admit_inserts(1); }
  void thread(unsigned index) {
    if (index == 0) {
      gate.set(0.5);
    } else {
      inserts += book() ? 1 : 0;
    }
  }
  void after() {
    expect(gate.inserts() == static_cast<std::uint64_t>(inserts), "every insert is counted once");
    expect(gate.ahead() >= -1.0, "inserts are not too far ahead");
    expect(gate.ahead() <= -0.5 * (inserts - 1), "no insert counts less than at the lower ratio");
  }
};

/// Samples are one ahead of inserts, so the sampler waits until the writer books.
struct SamplerWaits : Test<SamplerWaits, 2>, World {
  void prepare() {
    admit_inserts(1);
    gate.admit_samples(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      expect(book(), "the writer's gate is open");
    } else {
      sample(1);
    }
  }
  void after() { items_event.expect_awake(); }
};

/// Inserts are one ahead of samples, so the writer waits until the sampler draws.
struct WriterWaits : Test<WriterWaits, 2>, World {
  void prepare() { admit_inserts(2); }
  void thread(unsigned index) {
    if (index == 0) {
      write();
    } else {
      expect(admit(1), "the sampler's gate is open");
    }
  }
  void after() { room_event.expect_awake(); }
};

/// A batch that could not be drawn is taken back while another sampler waits.
struct BatchTakenBack : Test<BatchTakenBack, 2>, World {
  void prepare() {
    admit_inserts(1);
    gate.admit_samples(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      take_back(1);
    } else {
      sample(1);
    }
  }
  void after() { items_event.expect_awake(); }
};

/// Samplers and writers run at the same time, and some writers return the insert that they booked.
/// At the end the counts have to match what was admitted.
struct RatioHeld : Test<RatioHeld, 4>, World {
  int samples = 0;
  int inserts = 1;
  int returned = 0;

  void prepare() { admit_inserts(1); }
  void thread(unsigned index) {
    for (int i = 0; i < 2; ++i) {
      if (index < 2) {
        samples += admit(1) ? 1 : 0;
      } else if (book()) {
        ++inserts;
        if (rl::rand(4) == 0) {
          gate.return_inserts(1);
          --inserts;
          ++returned;
        }
      }
    }
  }
  void after() {
    expect(gate.ahead() == samples - (inserts - 1), "every batch and insert is counted once");
    expect(gate.ahead() <= 1.0 + returned, "samples are not too far ahead");
    expect(gate.ahead() >= -1.0, "inserts are not too far ahead");
  }
};

/// Between the load and the exchange of one sampler a batch of another sampler is admitted, then a
/// batch is taken back.
struct SamplersAmongThemselves : Test<SamplersAmongThemselves, 3>, World {
  void prepare() {
    admit_inserts(2);
    gate.admit_samples(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      take_back(1);
    } else if (index == 1) {
      if (admit(1)) {
        take_back(1);
      }
    } else {
      sample(2);
    }
  }
  void after() { items_event.expect_awake(); }
};

}  // namespace

void add_gate(Scenarios& scenarios) {
  scenarios.push_back(small<SamplerWaits>("limiter", "a sampler waits for inserts"));
  scenarios.push_back(small<WriterWaits>("limiter", "a writer waits for samples"));
  scenarios.push_back(small<WriterWaitsForRatio>("limiter", "a writer waits for another ratio"));
  scenarios.push_back(small<RatioChangedTwice>("limiter", "the ratio is changed twice"));
  scenarios.push_back(
      large<InsertsWhileRatioChanges>("limiter", "two writers while the ratio is changed"));
  scenarios.push_back(small<BatchTakenBack>("limiter", "a sampler waits for a batch taken back"));
  scenarios.push_back(
      large<SamplersAmongThemselves>("limiter", "three samplers, two batches taken back"));
  scenarios.push_back(large<RatioHeld>("limiter", "two writers and two samplers hold the ratio"));
}

}  // namespace reprise::model
