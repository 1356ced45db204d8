#pragma once

#include <reprise/window.hpp>

#include <box2d/box2d.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace apex {

/// SplitMix64 by Steele, Lea and Flood (2014). Its state has eight bytes, so each environment can
/// have a generator, and it gives the same numbers with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// Returns a number in [0, 1).
  float uniform() noexcept { return static_cast<float>(next() >> 40U) * 0x1.0p-24F; }

  /// Returns a number in [low, high).
  float uniform(float low, float high) noexcept { return low + (high - low) * uniform(); }

  /// Returns an integer in [0, n). n should be far below 2^32, because the bias is up to 2^-32 * n.
  std::size_t below(std::size_t n) noexcept {
    return static_cast<std::size_t>(((next() >> 32U) * n) >> 32U);
  }

 private:
  std::uint64_t state_;
};

/// Returns the seed of stream `stream` of a run. The streams of a run are independent, and so are
/// the streams of runs whose seeds are neighbours.
inline std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream) noexcept {
  return Random(Random(seed).next() ^ (stream * 0xD1B54A32D192ED03U)).next();
}

/// LunarLander-v2 as published with Gym: land between the flags at the origin.
///
/// Observation: x and y of the hull relative to the pad, their velocities, angle, angular
/// velocity (all scaled to about 1), and 1 for each leg on the ground.
/// Actions: nothing, left engine, main engine, right engine.
/// Reward: the change of a shaping (distance, speed, angle, legs), minus fuel, +100 for coming to
/// rest, -100 for a crash or for leaving the picture sideways.
/// Terminated at rest or crash; Truncated after `kTimeLimit` steps.
///
/// Thread safety: one thread at a time; each environment owns its world.
class LunarLander {
 public:
  static constexpr std::size_t kObservations = 8;
  static constexpr std::size_t kActions = 4;
  static constexpr std::uint32_t kTimeLimit = 1000;

  enum Action : std::int32_t { kNothing, kLeftEngine, kMainEngine, kRightEngine };

  struct Outcome {
    float reward = 0.0F;
    reprise::End end = reprise::End::Continue;
  };

  explicit LunarLander(std::uint64_t seed) noexcept : random_(seed) {}
  LunarLander(const LunarLander&) = delete;
  LunarLander& operator=(const LunarLander&) = delete;

  /// Makes a new moon, and drops the lander with a random push.
  void reset(std::span<float> observation);

  /// Advances by one fiftieth of a second. After Terminated or Truncated call `reset` first.
  Outcome step(std::int32_t action, std::span<float> observation);

 private:
  struct Contacts final : b2ContactListener {
    void BeginContact(b2Contact* contact) override { touch(*contact, true); }
    void EndContact(b2Contact* contact) override { touch(*contact, false); }
    void touch(b2Contact& contact, bool begins) noexcept;
    const b2Body* hull = nullptr;
    std::array<const b2Body*, 2> legs = {};
    std::array<bool, 2> leg_down = {};
    bool crashed = false;
  };

  void build_moon();
  b2Body* add_part(const b2BodyDef& pose, const b2Shape& shape, float density, float friction,
                   std::uint16_t bit);
  void build_hull();
  void build_leg(std::size_t index);
  void fire_main_engine(b2Vec2 tip, b2Vec2 side, b2Vec2 dispersion);
  void fire_side_engine(float direction, b2Vec2 tip, b2Vec2 side, b2Vec2 dispersion);
  /// Runs the physics and fills the observation. Returns the reward without the +100 or -100 of an
  /// end.
  float advance(std::int32_t action, std::span<float> observation);

  Random random_;
  Contacts contacts_;  // Declared before the world, whose destructor may call the listener.
  // Each episode has a new world, so that no contact of the last episode remains.
  std::unique_ptr<b2World> world_;
  b2Body* hull_ = nullptr;
  std::optional<float> shaping_;
  std::uint32_t steps_ = 0;
};

}  // namespace apex
