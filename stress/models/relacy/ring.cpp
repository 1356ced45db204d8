#include "explore.hpp"

#include <array>
#include <cstdint>

// The ring of a guest's writer. Rows have to arrive whole and must not be overwritten while the
// host reads them, no row may be lost once its commit has returned, and a guest that waits for room
// has to be woken.

namespace reprise::model {
namespace {

constexpr base::Order kRelaxed = base::Order::Relaxed;

/// A ring of `Rows` rows. Row number r, from 0, holds r + 1 in place of a step's fields.
template <std::uint64_t Rows>
struct World {
  process::RingWords<RelacySync> words;
  process::Waiting<RelacySync> waiting;
  std::array<Plain<std::uint64_t>, Rows> rows;
  /// Number of messages sent to the guest.
  RelacySync::Atomic<std::uint32_t> messages{0};
  RelacySync::Atomic<std::uint32_t> ended{0};     ///< 1 once the guest's process has ended.
  RelacySync::Atomic<std::uint64_t> answered{0};  ///< Commits that returned to the guest.
  bool asleep = false;
  std::uint32_t seen = 0;    ///< Messages that the guest had read when it fell asleep.
  std::uint64_t taken = 0;   ///< Rows that the host has taken.
  std::uint64_t needed = 0;  ///< Rows that the host has to consume before the guest goes on.

  /// Models RingWriter::commit after room was found.
  void commit(std::uint64_t row) {
    if (broken(Rule::RowBeforePublish)) {
      words.publish(row + 1);
      rows[row % Rows].set(row + 1);
    } else if (broken(Rule::PublishBeforeAnswer)) {
      rows[row % Rows].set(row + 1);
      answered.store(row + 1, kRelaxed);
      if (!maybe_die()) {
        words.publish(row + 1);
      }
      return;
    } else {
      rows[row % Rows].set(row + 1);
      words.publish(row + 1);
    }
    answered.store(row + 1, kRelaxed);
  }

  bool may_die = false;  ///< Whether `maybe_die` may end the guest.
  bool dead = false;
  /// The guest may die here; returns whether it is dead.
  bool maybe_die() {
    if (may_die && !dead && rl::rand(4) == 0) {
      dead = true;
      ended.store(1, base::Order::Release);
    }
    return dead;
  }

  /// Models RingWriter::wait_for_room: the guest waits until the host has consumed so many rows.
  /// Returns false if it falls asleep.
  bool wait_for(std::uint64_t consumed) {
    needed = consumed;
    for (;;) {
      const bool late = broken(Rule::TicketBeforeLooking);
      std::uint32_t messages_read = late ? 0 : messages.load(kRelaxed);
      bool room = false;
      if (broken(Rule::RegisterBeforeLooking)) {
        room = words.consumed_while_waiting() >= consumed;
        waiting.begin();
      } else {
        waiting.begin();
        room = words.consumed_while_waiting() >= consumed;
      }
      if (room) {
        return true;
      }
      messages_read = late ? messages.load(kRelaxed) : messages_read;
      if (messages.load(kRelaxed) == messages_read) {
        asleep = true;
        seen = messages_read;
        return false;
      }
    }
  }

  /// Models WriterSession::take and serve.
  void take() {
    const std::uint64_t published = words.published();
    if (published == taken) {
      return;
    }
    if (broken(Rule::ReadBeforeConsume)) {
      words.consume(published);
    }
    const bool waits = broken(Rule::ProgressBeforeWake) && waiting.take();
    for (; taken != published; ++taken) {
      expect(rows[taken % Rows].get() == taken + 1, "a row holds its number");
    }
    words.consume(taken);
    if (waits || (!broken(Rule::ProgressBeforeWake) && waiting.take())) {
      messages.fetch_add(1, kRelaxed);
    }
  }

  void expect_awake() {
    expect(!asleep || words.consumed() < needed || messages.load(kRelaxed) != seen,
           "no wake is lost");
  }
};

struct RowsAreWhole : Test<RowsAreWhole, 2>, World<2> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0);
      commit(1);
    } else {
      take();
      take();
    }
  }
};

/// The third row is written over the first one, in a ring of two.
struct RowsAreWrittenAgain : Test<RowsAreWrittenAgain, 2>, World<2> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0);
      commit(1);
      if (words.consumed() >= 1) {
        commit(2);
      }
    } else {
      take();
      take();
    }
  }
};

/// The second row is written over the first one, so the guest waits for room.
struct RoomIsWaitedFor : Test<RoomIsWaitedFor, 2>, World<1> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0);
      if (wait_for(1)) {
        commit(1);
      }
    } else {
      take();
      take();
    }
  }
  void after() { expect_awake(); }
};

/// The guest waits twice, so the host has to clear the first request and see the second one.
struct RoomIsWaitedForTwice : Test<RoomIsWaitedForTwice, 2>, World<1> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0);
      if (wait_for(1)) {
        commit(1);
        wait_for(2);
      }
    } else {
      take();
      take();
    }
  }
  void after() { expect_awake(); }
};

/// The guest may die at any step. A host that takes rows after it saw the death has to have all
/// rows whose commits had returned.
struct GuestDies : Test<GuestDies, 2>, World<2> {
  void thread(unsigned index) {
    if (index == 0) {
      may_die = true;
      for (std::uint64_t row = 0; row < 2 && !maybe_die(); ++row) {
        commit(row);
      }
      if (!dead) {
        ended.store(1, base::Order::Release);
      }
    } else {
      for (int i = 0; i < 2; ++i) {
        if (broken(Rule::DeathBeforeTheLastLook)) {
          take();
        }
        const bool gone = ended.load(base::Order::Acquire) != 0;
        if (!broken(Rule::DeathBeforeTheLastLook)) {
          take();
        }
        if (gone) {
          expect(taken >= answered.load(kRelaxed), "no committed step is lost");
          return;
        }
      }
    }
  }
};

}  // namespace

void add_ring(Scenarios& scenarios) {
  scenarios.push_back(small<RowsAreWhole>("ring", "rows are whole"));
  scenarios.push_back(small<RowsAreWrittenAgain>("ring", "rows are written again"));
  scenarios.push_back(small<RoomIsWaitedFor>("ring", "a guest waits for room"));
  scenarios.push_back(small<RoomIsWaitedForTwice>("ring", "a guest waits for room twice"));
  scenarios.push_back(small<GuestDies>("ring", "a guest dies at any step"));
}

}  // namespace reprise::model
