#pragma once

#include <reprise/reprise.hpp>

#include "account.hpp"
#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "options.hpp"
#include "row.hpp"
#include "textbook.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stress {

/// The load's view of a `textbook::Buffer`: actors stack frames and sum returns before they add a
/// transition, as one does without a library. Any thread; writers and learners one each.
class TextbookStore {
 public:
  /// Indices name places for ever, and bad input is taken as it comes.
  static constexpr bool kKeysGoStale = false;
  static constexpr bool kSaves = false;

  TextbookStore(const Options& options, std::uint32_t round, Findings& findings);

  [[nodiscard]] std::size_t places() const { return options_.capacity_steps; }
  [[nodiscard]] std::size_t places_per_shard() const { return places(); }

  /// What was added is in.
  void ingest() const noexcept {}
  /// Steps whose window is open are in the hands of the writers, so `truth` tells of them.
  [[nodiscard]] Account account(const Truth& truth) const;
  [[nodiscard]] std::uint64_t resident_now() const { return buffer_.size(); }
  void close() noexcept { closed_.store(true, std::memory_order_relaxed); }
  /// Never called: see check_textbook.
  void set_alpha(float /*alpha*/) const noexcept {}

  class Writer;
  class Learner;

 private:
  [[nodiscard]] std::size_t stack_bytes() const {
    return options_.observation_bytes * options_.frame_stack;
  }

  const Options options_;
  textbook::Buffer buffer_;
  std::atomic<bool> closed_ = false;  ///< Relaxed: nothing is read because of it.
};

class TextbookStore::Writer {
 public:
  Writer(TextbookStore& store, bool hasty);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void begin_episode();
  [[nodiscard]] std::uint64_t episode_id() const { return 0; }
  std::span<std::uint8_t> first() { return frame(0); }
  std::span<std::uint8_t> next() { return frame(steps_ + 1); }
  void columns(const StepColumns& columns) { columns_[steps_ % kept_] = columns; }
  [[nodiscard]] std::size_t completing(reprise::End end) const;
  Took commit(reprise::End end, std::span<const float> priorities);

 private:
  std::span<std::uint8_t> frame(std::size_t position) {
    return std::span(frames_).subspan(position % kept_ * bytes_, bytes_);
  }
  /// First item that is not decided once there are so many steps.
  [[nodiscard]] std::size_t first_open(std::size_t steps) const {
    return steps >= n_step_ ? steps - n_step_ : 0;
  }
  void truncate();
  /// Adds the item at `position` as it is after `steps` steps.
  void add(std::size_t position, std::size_t steps, bool terminated, const float* priority);
  void stack(std::size_t position, std::byte* to);

  TextbookStore& store_;
  const std::size_t bytes_;  ///< Of one observation.
  const std::size_t n_step_;
  const std::size_t kept_;  ///< Steps that windows still need.
  std::vector<std::uint8_t> frames_;
  std::vector<StepColumns> columns_;
  std::vector<std::byte> row_;
  bool in_episode_ = false;
  std::size_t steps_ = 0;  ///< Committed to the episode.
};

class TextbookStore::Learner {
 public:
  Learner(TextbookStore& store, std::uint64_t seed);

  Got sample(std::size_t n, Random& random);
  /// There is no order here.
  static Got sample_first(std::size_t /*most*/) { return Got::Nothing; }
  [[nodiscard]] const Drawn& drawn() const { return drawn_; }
  reprise::UpdateResult update(std::span<const std::uint64_t> keys,
                               std::span<const float> priorities);

 private:
  TextbookStore& store_;
  Drawn drawn_;
  std::vector<std::byte> rows_;
  std::vector<float> weights_;
  std::vector<std::uint32_t> indices_;
  std::vector<double> probabilities_;
  std::vector<std::uint64_t> keys_;
};

}  // namespace stress
