#pragma once

#include <reprise/reprise.hpp>

#include "account.hpp"
#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "latent.hpp"
#include "options.hpp"
#include "row.hpp"
#include "strategies.hpp"
#include "wait_watch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stress {

/// The stress program's interface to a `reprise::ReplayBuffer`. Any thread; writers and learners
/// one each.
class RepriseStore {
 public:
  /// `findings` outlives the store.
  RepriseStore(const Options& options, std::uint32_t round, Findings& findings);

  /// How many places keys can name, and how many of them belong to each shard.
  [[nodiscard]] std::size_t places() const { return places_; }
  [[nodiscard]] std::size_t places_per_shard() const { return places_per_shard_; }

  /// Ingests everything that was committed before the call.
  void ingest() const { static_cast<void>(replay_.size()); }
  /// The buffer's counts after everything is ingested; exact while no other call is in flight.
  [[nodiscard]] Account account() const;
  [[nodiscard]] std::uint64_t resident_now() const { return replay_.stats().resident_steps; }
  /// Steps in the buffer, everything committed before the call included; without removed ones.
  [[nodiscard]] std::size_t size() const { return replay_.size(); }
  /// Whether the item that begins with this step is there.
  [[nodiscard]] bool holds(std::uint64_t episode, std::uint64_t position) {
    return replay_.find(episode, position).has_value();
  }
  /// The age of the oldest step that there may be with `Fifo` (I13): the capacity, what writers
  /// hold open, and one chunk per shard.
  [[nodiscard]] std::uint64_t oldest_allowed() const {
    const reprise::Options& options = replay_.options();
    return options.capacity_steps + (options.max_writers + options.shards) * options.chunk_steps;
  }
  [[nodiscard]] std::size_t shards() const { return replay_.options().shards; }
  [[nodiscard]] double max_writers() const {
    return static_cast<double>(replay_.options().max_writers);
  }
  [[nodiscard]] std::uint64_t chunk_waits() const {
    return replay_.stats().writers_for_chunk.waits;
  }
  /// Those who wait for the rate limiter.
  [[nodiscard]] const Turns& samplers() const { return samplers_; }
  [[nodiscard]] const Turns& writers() const { return writers_; }
  void close() noexcept { replay_.close(); }
  void save(const std::string& directory) { replay_.save(directory); }
  /// Call it before there are writers and learners. Throws if the newest checkpoint was skipped.
  void restore(const std::string& directory);
  void set_alpha(float alpha) { replay_.set_alpha(alpha); }

  class Writer;
  class VectorWriter;
  class Learner;

 private:
  struct Fields {
    reprise::Schema schema;
    reprise::Observation<std::uint8_t> observation;
    reprise::ScalarColumn<std::int32_t> action;
    reprise::Reward reward;
    std::optional<reprise::MutableColumn<std::uint64_t>> latent;
    explicit Fields(const Options& options);
  };

  [[nodiscard]] reprise::WriterOptions writer_options(bool hasty, WaitWatch& watch) const;

  const Options options_;
  const Strategies strategies_;
  Fields fields_;
  reprise::ReplayBuffer replay_;
  std::size_t places_per_shard_ = 0;
  std::size_t places_ = 0;
  Turns samplers_, writers_;
};

class RepriseStore::Writer {
 public:
  /// `hasty`: waits for room only for a short time. Every writer that the rate limiter may hold
  /// does so too, because it can stand still only between calls.
  Writer(RepriseStore& store, bool hasty);

  void begin_episode() { writer_.begin_episode(); }
  [[nodiscard]] std::uint64_t episode_id() const { return writer_.episode_id(); }
  std::span<std::uint8_t> first() { return writer_.now(fields_.observation); }
  std::span<std::uint8_t> next() { return writer_.next(fields_.observation); }
  void columns(const StepColumns& columns) {
    writer_.now(fields_.action) = columns.action;
    writer_.now(fields_.reward) = columns.reward;
  }
  /// The first value of the mutable column, of the step with this hash.
  void latent(std::uint64_t step) {
    if (fields_.latent) {
      render_latent(step, 0, writer_.now(*fields_.latent));
    }
  }
  [[nodiscard]] std::size_t completing(reprise::End end) const { return writer_.completing(end); }
  Took commit(reprise::End end, std::span<const float> priorities);

 private:
  const Fields& fields_;
  WaitWatch watch_;
  reprise::Writer writer_;
};

class RepriseStore::VectorWriter {
 public:
  /// `hasty`: as of `Writer`.
  VectorWriter(RepriseStore& store, std::size_t environments, bool hasty);

  /// Those of the calls below, whose rows they are.
  void choose(std::span<const std::size_t> environments);
  [[nodiscard]] std::uint64_t episode_id(std::size_t environment) {
    return writers_[environment].episode_id();
  }
  [[nodiscard]] std::uint64_t episode_steps(std::size_t environment) {
    return writers_[environment].episode_steps();
  }
  void begin_episode(std::size_t environment) { writers_[environment].begin_episode(); }
  /// The step of one row, whose observation `id` names.
  void row(std::size_t row, Identity id, const StepColumns& columns);
  /// A step of each; `Held` if some were not taken.
  Took commit(std::span<const reprise::End> ends, std::span<const float> priorities);

 private:
  const Fields& fields_;
  const std::size_t observation_bytes_;
  WaitWatch watch_;
  reprise::VectorWriter writers_;
  std::vector<std::uint8_t> first_, next_;
  std::vector<std::int32_t> actions_;
  std::vector<float> rewards_;
  std::vector<std::uint64_t> latents_;
  bool written_ = false;  ///< The rows of a commit that is repeated.
};

class RepriseStore::Learner {
 public:
  /// `fresh`: the share of each batch that was not drawn before.
  Learner(RepriseStore& store, std::uint64_t seed, float fresh = 0.0F);

  Got sample(std::size_t n, Random& random);
  /// Draws the first items, as many as there are and at most `most`, and updates none of them; for
  /// ordered selectors.
  Got sample_first(std::size_t most);
  /// Draws different items of weight above 0, about as many as there are, and updates none of them.
  /// If there are more than `most` items, it makes `most` draws, which may repeat items.
  Got sample_all(std::size_t most);
  [[nodiscard]] const Drawn& drawn() const { return drawn_; }
  /// Items that the last draw took, those included that wait for the other part of their batch.
  [[nodiscard]] std::size_t counted() const { return counted_; }
  /// The items with these keys that are still there.
  const Drawn& gather(std::span<const std::uint64_t> keys);
  reprise::UpdateResult update(std::span<const std::uint64_t> keys,
                               std::span<const float> priorities);
  /// Replaces the values of the mutable column in the steps of these items.
  reprise::UpdateResult update_latents(std::span<const std::uint64_t> keys,
                                       std::span<const std::uint64_t> latents);
  /// Removes the items with these keys; returns how many there were.
  std::size_t remove(std::span<const std::uint64_t> keys);
  /// Gives the items of the last draw goals that their episodes achieved.
  const Goals& relabel();
  /// Whether an update with one bad priority or one key of another buffer is refused as a whole.
  bool refuses_bad_update(std::span<const std::uint64_t> keys, std::span<const float> priorities,
                          Random& random);

 private:
  Got sample(std::size_t n, const reprise::SampleOptions& how);
  Got took(const reprise::SampleResult& batch, const reprise::SampleOptions& how);
  void name_keys(std::span<const std::uint64_t> keys);
  void show(const reprise::Batch& batch, Drawn& drawn) const;

  RepriseStore& store_;
  WaitWatch watch_;
  reprise::Sampler sampler_;
  std::optional<reprise::MixedSampler> mixed_;  ///< Both parts are the store's buffer.
  std::size_t kept_ = 0;                        ///< Items of its batch under way.
  std::size_t counted_ = 0;
  Drawn drawn_;
  Drawn gathered_;
  std::vector<reprise::ItemKey> keys_;
  std::optional<reprise::Batch> batch_;  ///< Of `gather`.
  std::optional<reprise::Hindsight> hindsight_;
  Goals goals_;
};

}  // namespace stress
