#pragma once

#include <reprise/window.hpp>

#include "scene.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace stress {

/// The exception of a simulator that fails.
struct SimulatorError : std::exception {};

/// One life of an actor: a writer and some episodes. One thread.
class Actor {
 public:
  Actor(Scene& scene, std::size_t number)
      : scene_(scene),
        state_(scene.actors[number]),
        name_(scene.next_writer.fetch_add(1, std::memory_order_relaxed)),
        random_(scene.options.seed ^ std::uint64_t{name_} << 32U ^ scene.world.round()),
        priorities_(scene.windows.reach()) {}

  /// False if the buffer was closed, or the run ends.
  bool live() {
    const Gate::Presence presence(scene_.gate);
    ++state_.lives;
    bool open = true;
    try {
      RepriseStore::Writer writer(scene_.store, scene_.options.churn && random_.one_in(2));
      state_.writers = 1;
      open = play_episodes(writer);
    } catch (const SimulatorError&) {
      ++state_.exceptions;  // The exception destroyed the writer.
    }
    state_.writers = 0;
    state_.open = 0;
    return open;
  }

 private:
  using Writer = RepriseStore::Writer;
  enum class Left : std::uint8_t { Writer, WriterDying, Nothing };

  bool play_episodes(Writer& writer) {
    const std::uint64_t episodes = scene_.options.churn ? 1 + random_.below(20) : ~std::uint64_t{0};
    for (std::uint32_t e = 0; e < episodes && !scene_.stop.load(std::memory_order_relaxed); ++e) {
      const Left left = play(writer, e);
      if (left != Left::Writer) {
        return left == Left::WriterDying;
      }
    }
    return true;
  }

  Left play(Writer& writer, std::uint32_t number) {
    const Episode episode = scene_.world.episode(name_, number);
    writer.begin_episode();
    state_.open = 0;
    Identity id{name_, number, 0, scene_.world.round(), writer.episode_id()};
    render(id, writer.first());
    scene_.arrivals.begin(id);
    for (std::uint32_t t = 0; t < episode.length; ++t) {
      stand_still_if_asked(t);
      if (t == episode.stumble) {
        stumble(writer);
      }
      writer.columns(World::columns(name_, number, t));
      writer.latent(id.hash());
      id.position = t + 1;
      render(id, writer.next());
      if (!commit(writer, id, episode)) {
        return Left::Nothing;
      }
    }
    switch (episode.ending) {
      case Ending::Terminated:
      case Ending::Truncated:
        break;
      case Ending::BegunAnew:
        scribble(writer);
        break;
      case Ending::WriterDestroyed:
        scribble(writer);
        return Left::WriterDying;
      case Ending::Throws:
        simulate_badly(writer);
    }
    return Left::Writer;
  }

  /// `id` is that of the next observation.
  bool commit(Writer& writer, const Identity& id, const Episode& episode) {
    const std::uint32_t steps = id.position;
    reprise::End end = reprise::End::Continue;
    if (steps == episode.length && episode.ends_by_commit()) {
      end =
          episode.ending == Ending::Terminated ? reprise::End::Terminated : reprise::End::Truncated;
    }
    std::size_t count = 0;
    if (episode.explicit_priorities) {
      scene_.windows.decided(steps, end != reprise::End::Continue, decided_);
      count = decided_.size();
      if (writer.completing(end) != count) {
        scene_.findings.add(Finding::WrongWindow, "completing says " +
                                                      std::to_string(writer.completing(end)) +
                                                      ", expected " + std::to_string(count));
      }
      Identity item = id;
      for (std::size_t k = 0; k < count; ++k) {
        item.position = decided_[k];
        priorities_[k] = priority_of(first_level(item));
      }
    }
    const std::span<const float> given = std::span(priorities_).first(count);
    for (Took took = writer.commit(end, given); took != Took::Taken;
         took = writer.commit(end, given)) {
      if (!go_on(took, steps - 1)) {
        return false;
      }
    }
    state_.committed.store(state_.committed.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
    Identity step = id;
    --step.position;
    scene_.arrivals.add(step);
    return true;
  }

  /// Whether the actor commits a step again that was not taken. `t`: committed steps of the
  /// episode.
  bool go_on(Took took, std::uint32_t t) {
    scene_.judge(took);
    if (took == Took::Closed) {
      return false;
    }
    stand_still_if_asked(t);
    return !scene_.gives_up();
  }

  /// Parks at the gate if it is closed. `t`: committed steps of the episode.
  void stand_still_if_asked(std::uint32_t t) {
    if (scene_.gate.closed()) {
      state_.open = scene_.windows.open(t);
      scene_.gate.park();
    }
  }

  void stumble(Writer& writer) {
    try {
      simulate_badly(writer);
    } catch (const SimulatorError&) {
      ++state_.exceptions;
    }
  }
  [[noreturn]] void simulate_badly(Writer& writer) {
    scribble(writer);
    throw SimulatorError();
  }
  /// Writes a part of a step and never commits it: it must never be seen.
  void scribble(Writer& writer) {
    writer.columns({-1, 1e30F});
    const std::span<std::uint8_t> next = writer.next();
    for (std::uint8_t& byte : next.first(next.size() / 2)) {
      byte = 0xDE;
    }
  }

  Scene& scene_;
  ActorState& state_;
  const std::uint32_t name_;
  Random random_;
  std::vector<float> priorities_;
  std::vector<std::uint32_t> decided_;
};

}  // namespace stress
