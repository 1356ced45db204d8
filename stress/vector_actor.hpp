#pragma once

#include "scene.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stress {

/// One life of an actor with several environments: a `VectorWriter`, and some episodes of each
/// environment. It steps a part of them at a time, in any sequence. One thread.
class VectorActor {
 public:
  VectorActor(Scene& scene, std::size_t number)
      : scene_(scene),
        state_(scene.actors[number]),
        random_(scene.options.seed ^ mix(~number) ^ std::uint64_t{scene.world.round()} << 32U ^
                state_.lives << 8U),
        environments_(scene.options.environments) {}

  /// False if the buffer was closed, or the run ends.
  bool live() {
    const Gate::Presence presence(scene_.gate);
    ++state_.lives;
    RepriseStore::VectorWriter writers(scene_.store, environments_.size(),
                                       scene_.options.churn && random_.one_in(2));
    state_.writers = environments_.size();
    for (Environment& one : environments_) {
      one.name = scene_.next_writer.fetch_add(1, std::memory_order_relaxed);
      one.episode = scene_.world.episode(one.name, 0);
      one.episodes = scene_.options.churn ? 1 + random_.below(20) : ~std::uint64_t{0};
    }
    bool open = true;
    while (open && choose()) {
      stand_still_if_asked();
      open = step(writers);
    }
    state_.writers = 0;
    state_.open = 0;
    return open;
  }

 private:
  struct Environment {
    std::uint32_t name = 0;
    std::uint64_t episodes = 0;  ///< Until the end of this life.
    std::uint32_t number = 0;    ///< Of the episode under way.
    Episode episode;
    std::uint32_t steps = 0;  ///< Committed ones of that episode.
  };

  /// Some environments whose episodes go on or may begin; false if there are none. Priorities are
  /// given for all of them or for none.
  bool choose() {
    const bool stop = scene_.stop.load(std::memory_order_relaxed);
    chosen_.clear();
    for (std::size_t e = 0; e < environments_.size(); ++e) {
      const Environment& one = environments_[e];
      if (one.steps != 0 || (!stop && one.number < one.episodes)) {
        chosen_.insert(
            chosen_.begin() + static_cast<std::ptrdiff_t>(random_.below(chosen_.size() + 1)), e);
      }
    }
    if (chosen_.empty()) {
      return false;
    }
    const bool priorities = environments_[chosen_.front()].episode.explicit_priorities;
    const std::size_t first = chosen_.front();
    std::erase_if(chosen_, [&](std::size_t e) {
      return environments_[e].episode.explicit_priorities != priorities ||
             (e != first && random_.one_in(4));
    });
    return true;
  }

  /// Commits a step of each environment that is chosen. False: it was not taken, and this life
  /// ends.
  bool step(RepriseStore::VectorWriter& writers) {
    writers.choose(chosen_);
    ends_.clear();
    ids_.clear();
    priorities_.clear();
    for (std::size_t row = 0; row < chosen_.size(); ++row) {
      const Environment& one = environments_[chosen_[row]];
      const Identity id{one.name, one.number, one.steps, scene_.world.round(),
                        writers.episode_id(chosen_[row])};
      writers.row(row, id, World::columns(one.name, one.number, one.steps));
      ends_.push_back(end_of(one));
      ids_.push_back(id.episode_id);
      if (one.steps == 0) {
        scene_.arrivals.begin(id);
      }
      if (one.episode.explicit_priorities) {
        scene_.windows.decided(one.steps + 1, ends_.back() != reprise::End::Continue, decided_);
        for (const std::uint32_t position : decided_) {
          Identity item = id;
          item.position = position;
          priorities_.push_back(priority_of(first_level(item)));
        }
      }
    }
    taken_.assign(chosen_.size(), false);
    for (Took took = Took::Held; took != Took::Taken;) {
      took = writers.commit(ends_, priorities_);
      learn(writers);
      scene_.judge(took);
      if (took == Took::Closed) {
        return false;
      }
      if (took == Took::Held) {
        stand_still_if_asked();
        if (scene_.gives_up()) {
          return false;
        }
      }
    }
    if (std::ranges::find(taken_, false) != taken_.end()) {
      scene_.findings.add(Finding::UnexpectedError, "commit says that it took a step it did not");
    }
    // Not before all are taken: a commit that is repeated skips those whose writers did not move.
    for (const std::size_t e : chosen_) {
      Environment& one = environments_[e];
      if (one.steps == one.episode.length) {
        if (!one.episode.ends_by_commit()) {
          writers.begin_episode(e);
        }
        one.steps = 0;
        one.episode = scene_.world.episode(one.name, ++one.number);
      }
    }
    return true;
  }

  static reprise::End end_of(const Environment& one) {
    if (one.steps + 1 != one.episode.length || !one.episode.ends_by_commit()) {
      return reprise::End::Continue;
    }
    return one.episode.ending == Ending::Terminated ? reprise::End::Terminated
                                                    : reprise::End::Truncated;
  }

  /// Counts the steps that a commit took: of some environments, if others found no room.
  void learn(RepriseStore::VectorWriter& writers) {
    std::uint64_t count = 0;
    for (std::size_t row = 0; row < chosen_.size(); ++row) {
      Environment& one = environments_[chosen_[row]];
      const bool moved = ends_[row] != reprise::End::Continue
                             ? writers.episode_id(chosen_[row]) != ids_[row]
                             : writers.episode_steps(chosen_[row]) == one.steps + 1;
      if (moved && !taken_[row]) {
        taken_[row] = true;
        scene_.arrivals.add({one.name, one.number, one.steps, scene_.world.round(), ids_[row]});
        ++one.steps;
        ++count;
      }
    }
    state_.committed.store(state_.committed.load(std::memory_order_relaxed) + count,
                           std::memory_order_relaxed);
  }

  /// Parks at the gate if it is closed.
  void stand_still_if_asked() {
    if (scene_.gate.closed()) {
      state_.open = 0;
      for (const Environment& one : environments_) {
        const bool ended = one.steps == one.episode.length && one.episode.ends_by_commit();
        state_.open += ended ? 0 : scene_.windows.open(one.steps);
      }
      scene_.gate.park();
    }
  }

  Scene& scene_;
  ActorState& state_;
  Random random_;
  std::vector<Environment> environments_;
  std::vector<std::size_t> chosen_;
  std::vector<reprise::End> ends_;
  std::vector<std::uint64_t> ids_;  ///< Of the episodes.
  std::vector<bool> taken_;         ///< Rows whose steps are.
  std::vector<float> priorities_;
  std::vector<std::uint32_t> decided_;
};

}  // namespace stress
