#pragma once

#include "testing/library.hpp"
#include "threads/shared.hpp"

namespace stress {

/// One life of an actor with several environments: it makes a `VectorWriter`, and plays some
/// episodes of each. Each commit steps some of them, in any order. One thread.
class VectorActor {
 public:
  VectorActor(Shared& shared, std::size_t number)
      : shared_(shared),
        state_(shared.actors[number]),
        rng_(mix(shared.options.seed ^ mix(~number) ^
                 std::uint64_t{shared.episodes.round()} << 32U ^ state_.lives << 8U)),
        environments_(shared.options.environments),
        guest_(shared.is_guest_actor(number)),
        watch_(guest_ ? shared.guests : shared.writers, WaitWatch::Counted::Failed) {}

  /// Returns false if the actor gets no further life: the buffer was closed, or the run ends.
  bool run_life() {
    const Gate::Presence presence(shared_.gate);
    ++state_.lives;
    const bool short_timeout = shared_.options.churn && rng_.one_in(2);
    const reprise::WriterOptions options = shared_.writer_options(short_timeout, watch_);
    std::optional<reprise::VectorWriter> writers;
    if (!guest_) {
      writers.emplace(shared_.replay, environments_.size(), options);
    } else if (shared_.wait_for_free_writers()) {
      writers = shared_.make_by_guest([&](reprise::Guest& guest) {
        return guest.vector_writer(environments_.size(), options);
      });
    }
    if (!writers) {
      return false;
    }
    state_.writers = environments_.size();
    for (Environment& one : environments_) {
      one.name = shared_.new_writer(guest_);
      one.episode = shared_.episodes.episode(one.name, 0);
      one.episodes = shared_.options.churn ? rng_.between(1, 20) : ~std::uint64_t{0};
    }
    bool open = true;
    while (open && choose_environments()) {
      park_if_closed();
      open = step(*writers);
    }
    state_.writers = 0;
    state_.undecided_steps = 0;
    return open;
  }

 private:
  struct Environment {
    std::uint32_t name = 0;
    std::uint64_t episodes = 0;  ///< Episodes left to play in this life.
    std::uint32_t number = 0;    ///< Number of the current episode.
    Episode episode;
    std::uint32_t steps = 0;  ///< Committed steps of the current episode.
  };

  /// Chooses the environments of the next step from those that have episodes left; false if none
  /// has. Either all chosen episodes give priorities or none does.
  bool choose_environments() {
    const bool stop = shared_.stop.load(std::memory_order_relaxed);
    chosen_.clear();
    for (std::size_t e = 0; e < environments_.size(); ++e) {
      const Environment& one = environments_[e];
      if (one.steps != 0 || (!stop && one.number < one.episodes)) {
        chosen_.insert(
            chosen_.begin() + static_cast<std::ptrdiff_t>(rng_.below(chosen_.size() + 1)), e);
      }
    }
    if (chosen_.empty()) {
      return false;
    }
    const bool priorities = environments_[chosen_.front()].episode.explicit_priorities;
    const std::size_t first = chosen_.front();
    std::erase_if(chosen_, [&](std::size_t e) {
      return environments_[e].episode.explicit_priorities != priorities ||
             (e != first && rng_.one_in(4));
    });
    return true;
  }

  /// Commits a step of each chosen environment. Returns false if the life ends before all are
  /// taken.
  bool step(reprise::VectorWriter& writers) {
    writers.choose(chosen_);
    ends_.clear();
    names_.clear();
    priorities_.clear();
    for (const std::size_t e : chosen_) {
      const Environment& one = environments_[e];
      ends_.push_back(one.episode.end_of(one.steps + 1));
      names_.push_back(
          {one.name, one.number, one.steps, shared_.episodes.round(), writers[e].episode_id()});
      if (one.steps == 0 && !guest_) {
        shared_.arrivals.begin(names_.back());
      }
      shared_.add_priorities(names_.back(), one.episode, priorities_);
    }
    write(writers);
    if (!commit(writers)) {
      return false;
    }
    // Episodes begin only here, because a repeated commit recognises by its writer's position
    // whether an environment's step was taken.
    for (const std::size_t e : chosen_) {
      Environment& one = environments_[e];
      if (one.steps == one.episode.length) {
        if (!one.episode.ends_by_commit()) {
          writers[e].begin_episode();
        }
        one.steps = 0;
        one.episode = shared_.episodes.episode(one.name, ++one.number);
      }
    }
    return true;
  }

  /// Repeats the commit until it takes all steps. False: the life ends before that.
  bool commit(reprise::VectorWriter& writers) {
    taken_.assign(chosen_.size(), false);
    for (;;) {
      const reprise::CommitStatus status = writers.commit(ends_, priorities_);
      const bool taken = status == reprise::CommitStatus::Committed;
      watch_.end_wait(taken ? ends_.size() : 0);
      count_taken_steps(writers);
      shared_.check(status);
      if (taken) {
        break;
      }
      if (status == reprise::CommitStatus::Closed) {
        return false;
      }
      park_if_closed();
      if (shared_.must_give_up()) {
        return false;
      }
    }
    if (std::ranges::find(taken_, false) != taken_.end()) {
      shared_.findings.add(Finding::UnexpectedError, "commit says that it took a step it did not");
    }
    return true;
  }

  /// Writes a row of each field for every chosen environment.
  void write(reprise::VectorWriter& writers) {
    for (const reprise::AnyField field : shared_.world.fields()) {
      const std::size_t bytes = shared_.world.bytes(field);
      rows_.resize(names_.size() * bytes);
      const auto row = [&](std::size_t i) { return std::span(rows_).subspan(i * bytes, bytes); };
      const bool observation = field.role() == reprise::Role::Observation;
      for (std::size_t i = 0; i < names_.size(); ++i) {
        if (observation && names_[i].position != 0) {
          // The writer already has this observation and must not read this row.
          std::ranges::fill(row(i), std::byte{0xDE});
        } else {
          shared_.world.fill(row(i), field, names_[i]);
        }
      }
      writers.now(field, rows_);
      for (std::size_t i = 0; observation && i < names_.size(); ++i) {
        shared_.world.fill(row(i), field, names_[i].after(1));
      }
      if (observation) {
        writers.next(field, rows_);
      }
    }
  }

  /// Counts the steps that a commit took. A commit that found no room may have taken only some.
  void count_taken_steps(reprise::VectorWriter& writers) {
    std::uint64_t count = 0;
    for (std::size_t row = 0; row < chosen_.size(); ++row) {
      Environment& one = environments_[chosen_[row]];
      const bool moved = ends_[row] != reprise::End::Continue
                             ? writers[chosen_[row]].episode_id() != names_[row].episode_id
                             : writers[chosen_[row]].episode_steps() == one.steps + 1;
      if (moved && !taken_[row]) {
        taken_[row] = true;
        if (!guest_) {
          shared_.arrivals.add(names_[row]);
        }
        ++one.steps;
        ++count;
      }
    }
    stress::count(state_.committed, count);
  }

  /// If the gate is closed, waits until it opens.
  void park_if_closed() {
    if (shared_.gate.closed()) {
      state_.undecided_steps = 0;
      for (const Environment& one : environments_) {
        const bool ended = one.steps == one.episode.length && one.episode.ends_by_commit();
        state_.undecided_steps += ended && !shared_.windows.streams()
                                      ? 0
                                      : shared_.undecided_steps({one.name, one.number, one.steps});
      }
      shared_.gate.park();
    }
  }

  Shared& shared_;
  ActorState& state_;
  Rng rng_;
  std::vector<Environment> environments_;
  const bool guest_;
  std::vector<std::size_t> chosen_;
  std::vector<reprise::End> ends_;
  std::vector<StepName> names_;
  std::vector<bool> taken_;  ///< Whether the step of each row was taken.
  std::vector<float> priorities_;
  std::vector<std::byte> rows_;
  WaitWatch watch_;
};

}  // namespace stress
