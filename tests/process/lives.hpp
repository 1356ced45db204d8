#pragma once

#include <reprise/guest.hpp>

#include "testing/test.hpp"

namespace reprise::test {

/// Steps of guests that may be killed at any moment. The contents of a step follow from its name:
/// the guest (`life`), the environment, and the number of steps before it in that environment.
class NamedSteps {
 public:
  static constexpr std::size_t kEnvironments = 3;  ///< Environments of a vector writer.
  static constexpr std::size_t kWords = 4;
  static constexpr std::uint32_t kNStep = 3;
  static constexpr float kDiscount = 0.5F;

  struct Name {
    std::uint64_t life = 0;
    std::uint64_t environment = 0;
    std::uint64_t step = 0;
    bool operator==(const Name&) const = default;

    [[nodiscard]] std::uint64_t number() const noexcept {
      return life << 32U | environment << 24U | step;
    }
    [[nodiscard]] static Name of(std::uint64_t number) noexcept {
      return {number >> 32U, number >> 24U & 0xffU, number & 0xffffffU};
    }
    [[nodiscard]] Name back(std::uint64_t steps) const noexcept {
      return {life, environment, step - steps};
    }
  };

  NamedSteps()
      : observation(schema.observation<std::uint64_t>("observation", {kWords})),
        name(schema.column<std::uint64_t>("name")),
        check(schema.column<std::uint64_t>("check")) {}

  /// The end with which this step is committed.
  [[nodiscard]] static End end(const Name& name) noexcept {
    switch (mix(name.number()) % 24) {
      case 0:
        return End::Terminated;
      case 1:
        return End::Truncated;
      default:
        return End::Continue;
    }
  }
  /// Whether this step begins an episode although the step before did not end one.
  [[nodiscard]] static bool restarts_episode(const Name& name) noexcept {
    return name.environment == 0 && name.life % 2 == 0 &&
           mix(name.number() ^ 0x55555555U) % 29 == 0;
  }
  [[nodiscard]] static bool begins_episode(const Name& name) noexcept {
    return name.step == 0 || end(name.back(1)) != End::Continue || restarts_episode(name);
  }

  /// Writes a step, which the caller commits. Begins an episode if the step does.
  void write(Writer& writer, const Name& of) const {
    if (begins_episode(of)) {
      if (!writer.in_episode() || writer.episode_steps() != 0) {
        writer.begin_episode();
      }
      write_first_observation(of, writer.now(observation));
    }
    writer.now(name) = of.number();
    writer.now(check) = mix(of.number());
    write_observation_after(of, writer.next(observation));
  }

  /// Describes what is wrong with an item of a batch; empty if nothing is.
  [[nodiscard]] std::string error_in(const Batch& batch, std::size_t item) const {
    const Name of = Name::of(batch.now(name)[item]);
    const auto say = [&](const char* what) {
      return std::string(what) + " in life " + std::to_string(of.life) + ", environment " +
             std::to_string(of.environment) + ", step " + std::to_string(of.step);
    };
    if (batch.now(check)[item] != mix(of.number())) {
      return say("a torn row");
    }
    std::uint64_t position = 0;
    while (position < of.step && !begins_episode(of.back(position))) {
      ++position;
    }
    if (batch.positions()[item] != position) {
      return say("a wrong position");
    }
    const std::uint32_t length = batch.lengths()[item];
    if (length == 0 || length > kNStep) {
      return say("a wrong length");
    }
    const Name last{of.life, of.environment, of.step + length - 1};
    for (std::uint32_t k = 1; k < length; ++k) {
      if (begins_episode({of.life, of.environment, of.step + k})) {
        return say("a window across the end of its episode");
      }
    }
    std::array<std::uint64_t, kWords> expected{};
    begins_episode(of) ? write_first_observation(of, expected)
                       : write_observation_after(of.back(1), expected);
    if (!equal(batch.now(observation), item, expected)) {
      return say("a wrong observation");
    }
    write_observation_after(last, expected);
    if (!equal(batch.next(observation), item, expected)) {
      return say("a wrong next observation");
    }
    return {};
  }

  Schema schema;
  Observation<std::uint64_t> observation;
  ScalarColumn<std::uint64_t> name;
  ScalarColumn<std::uint64_t> check;

 private:
  /// Writes the observation that follows a step.
  static void write_observation_after(const Name& of, std::span<std::uint64_t> to) noexcept {
    for (std::size_t w = 0; w < to.size(); ++w) {
      to[w] = mix(of.number() * 8 + w);
    }
  }
  /// Writes the observation with which the episode of this first step begins.
  static void write_first_observation(const Name& of, std::span<std::uint64_t> to) noexcept {
    for (std::size_t w = 0; w < to.size(); ++w) {
      to[w] = mix(of.number() * 8 + kWords + w);
    }
  }
  static bool equal(std::span<const std::uint64_t> all, std::size_t item,
                    std::span<const std::uint64_t> expected) noexcept {
    for (std::size_t w = 0; w < kWords; ++w) {
      if (all[item * kWords + w] != expected[w]) {
        return false;
      }
    }
    return true;
  }
};

/// What a guest reports about itself, in memory that outlives the guest.
struct Progress {
  std::atomic<std::uint64_t> begun;      ///< Number of commits that the guest has begun.
  std::atomic<std::uint64_t> committed;  ///< Number of commits that returned `Committed`.
  std::atomic<std::uint64_t> drawn;      ///< Number of batches that the guest has drawn.
  std::atomic<bool> wrong;               ///< Whether the guest has found an error.
};

}  // namespace reprise::test
