#pragma once

#include <reprise/reprise.hpp>

#include "account.hpp"
#include "drawn.hpp"
#include "episode.hpp"
#include "options.hpp"
#include "row.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stress {

/// The load's view of a `reprise::ReplayBuffer`. Any thread; writers and learners one each.
class RepriseStore {
 public:
  /// Keys of evicted items are refused, and so is bad input.
  static constexpr bool kKeysGoStale = true;

  RepriseStore(const Options& options, std::uint32_t round);

  /// Places that keys name, and how many follow each other in one shard.
  [[nodiscard]] std::size_t places() const { return places_; }
  [[nodiscard]] std::size_t places_per_shard() const { return places_per_shard_; }

  /// With everything ingested; exact while no other call is in flight.
  [[nodiscard]] Account account(const Truth& truth) const;
  [[nodiscard]] std::uint64_t resident_now() const { return replay_.stats().resident_steps; }
  void close() noexcept { replay_.close(); }

  class Writer;
  class Learner;

 private:
  struct Fields {
    reprise::Schema schema;
    reprise::Observation<std::uint8_t> observation;
    reprise::ScalarColumn<std::int32_t> action;
    reprise::Reward reward;
    explicit Fields(const Options& options);
  };

  const Options options_;
  Fields fields_;
  reprise::ReplayBuffer replay_;
  std::size_t places_per_shard_ = 0;
  std::size_t places_ = 0;
};

class RepriseStore::Writer {
 public:
  /// `hasty`: waits for room a short time only, and has to hold steps that found none.
  Writer(RepriseStore& store, bool hasty);

  void begin_episode() { writer_.begin_episode(); }
  [[nodiscard]] std::uint64_t episode_id() const { return writer_.episode_id(); }
  std::span<std::uint8_t> first() { return writer_.now(fields_.observation); }
  std::span<std::uint8_t> next() { return writer_.next(fields_.observation); }
  void columns(const StepColumns& columns) {
    writer_.now(fields_.action) = columns.action;
    writer_.now(fields_.reward) = columns.reward;
  }
  [[nodiscard]] std::size_t completing(reprise::End end) const { return writer_.completing(end); }
  /// False: closed, and the step was not taken.
  bool commit(reprise::End end, std::span<const float> priorities) {
    reprise::CommitStatus status = writer_.commit(end, priorities);
    while (status == reprise::CommitStatus::WaitingForRoom && writer_.step_held()) {
      status = writer_.commit(end, priorities);
    }
    return status != reprise::CommitStatus::Closed;
  }

 private:
  const Fields& fields_;
  reprise::Writer writer_;
};

class RepriseStore::Learner {
 public:
  Learner(RepriseStore& store, std::uint64_t seed);

  Got sample(std::size_t n, Random& random);
  [[nodiscard]] const Drawn& drawn() const { return drawn_; }
  reprise::UpdateResult update(std::span<const std::uint64_t> keys,
                               std::span<const float> priorities);
  /// Whether an update with one bad priority or one key of another buffer is refused as a whole.
  bool refuses_bad_update(std::span<const std::uint64_t> keys, std::span<const float> priorities,
                          Random& random);

 private:
  RepriseStore& store_;
  reprise::Sampler sampler_;
  Drawn drawn_;
  std::vector<reprise::ItemKey> keys_;
};

}  // namespace stress
