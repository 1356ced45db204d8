#include "reprise_store.hpp"

#include "account.hpp"
#include "checked_remover.hpp"
#include "drawn.hpp"
#include "findings.hpp"
#include "latent.hpp"
#include "limiter_check.hpp"
#include "options.hpp"
#include "priority_check.hpp"
#include "reprise/item_key.hpp"
#include "reprise/options.hpp"
#include "reprise/replay_buffer.hpp"
#include "reprise/sampler.hpp"
#include "reprise/selector.hpp"
#include "reprise/window.hpp"
#include "reprise/writer.hpp"
#include "row.hpp"
#include "strategies.hpp"
#include "window_rule.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <variant>
#include <vector>

namespace stress {
namespace {

constexpr std::chrono::milliseconds kSampleTimeout{10};
constexpr std::chrono::microseconds kHastyTimeout{200};
/// Of a writer that the rate limiter may hold.
constexpr std::chrono::milliseconds kHeldTimeout{5};
constexpr std::chrono::nanoseconds kAtOnce{0};

/// Whether a gather uses no threads of oneTBB: the oneTBB of Linux distributions is not
/// instrumented, so ThreadSanitizer would report every parallel gather.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kGatherAlone = true;
#else
constexpr bool kGatherAlone = false;
#endif
#elif defined(__SANITIZE_THREAD__)
constexpr bool kGatherAlone = true;
#else
constexpr bool kGatherAlone = false;
#endif

reprise::SamplerOptions sampler_options(std::uint64_t seed, float fresh) {
  reprise::SamplerOptions options{.seed = seed, .fresh = fresh};
  if (kGatherAlone) {
    options.parallel_gather_bytes = std::numeric_limits<std::size_t>::max();
  }
  return options;
}

reprise::Options buffer_options(const Options& options, const Strategies& strategies,
                                std::uint32_t round, Findings& findings) {
  reprise::Options result;
  result.capacity_steps = options.capacity_steps;
  result.window = strategies.window;
  result.selectors = {strategies.selector};
  result.max_times_sampled = options.max_times_sampled;
  result.remover = CheckedRemover(strategies.remover, options.max_times_sampled != 0, findings);
  result.rate_limiter = strategies.limiter;
  result.max_writers = options.actors * std::max<std::size_t>(options.environments, 1);
  result.chunk_steps = options.chunk_steps;
  result.shards = options.shards;
  result.episode_index = true;  // So that all that is there can be counted without a draw.
  result.key_tag = static_cast<std::uint16_t>(round % reprise::ItemKey::kTagMask);
  return result;
}

Took took_of(reprise::CommitStatus status) {
  if (status == reprise::CommitStatus::Closed) {
    return Took::Closed;
  }
  return status == reprise::CommitStatus::Committed ? Took::Taken : Took::Held;
}

}  // namespace

Took RepriseStore::Writer::commit(reprise::End end, std::span<const float> priorities) {
  const Took took = took_of(writer_.commit(end, priorities));
  watch_.done(took == Took::Taken ? 1 : 0, true);
  return took;
}

RepriseStore::Fields::Fields(const Options& options)
    : observation(schema.observation<std::uint8_t>("observation", {options.observation_bytes})),
      action(schema.column<std::int32_t>("action")),
      reward(schema.reward("reward")) {
  if (options.mutable_column) {
    latent = schema.mutable_column<std::uint64_t>("latent", {kLatentWords});
  }
}

RepriseStore::RepriseStore(const Options& options, std::uint32_t round, Findings& findings)
    : options_(options),
      strategies_(strategies_of(options)),
      fields_(options),
      replay_(fields_.schema, buffer_options(options, strategies_, round, findings)) {
  // Chunks are numbered through all shards, rows through all chunks; a slot is the number of a row.
  const std::size_t chunks = replay_.stats().chunks;
  places_ = chunks * replay_.options().chunk_steps;
  places_per_shard_ = places_ / replay_.options().shards;
  // Of each sampler: a batch under way, and one for which it waited before.
  samplers_.most = 2 * (std::max<std::size_t>(options.learners, 1) - 1);
  // Of each writer: what it had booked, its turn before, and what it got when another one left.
  writers_.most = static_cast<std::uint64_t>(3.0 * (max_writers() - 1.0) *
                                             block_of(strategies_.limiter, max_writers()));
}

void RepriseStore::restore(const std::string& directory) {
  std::vector<reprise::SkippedCheckpoint> skipped;
  replay_.restore(directory, {.skipped = &skipped});
  if (!skipped.empty()) {
    throw reprise::CheckpointError(skipped.front().error);
  }
}

Account RepriseStore::account() const {
  ingest();
  const reprise::Stats stats = replay_.stats();
  return {.committed = stats.committed_steps,
          .resident = stats.resident_steps,
          .evicted = stats.evicted_steps,
          .pending = stats.pending_steps,
          .sampled = stats.sampled_items,
          .applied = stats.applied_updates,
          .stale = stats.stale_updates,
          .writers = stats.writers,
          .items = stats.items,
          .unfinished = stats.queued_chunks + stats.retired_pinned};
}

reprise::WriterOptions RepriseStore::writer_options(bool hasty, WaitWatch& watch) const {
  const bool held = strategies_.hold_writers();
  return {.timeout = hasty  ? std::chrono::nanoseconds(kHastyTimeout)
                     : held ? std::chrono::nanoseconds(kHeldTimeout)
                            : reprise::kNoTimeout,
          .hook = held ? &watch : nullptr};
}

RepriseStore::Writer::Writer(RepriseStore& store, bool hasty)
    : fields_(store.fields_),
      watch_(store.writers_),
      writer_(store.replay_.writer(store.writer_options(hasty, watch_))) {}

RepriseStore::VectorWriter::VectorWriter(RepriseStore& store, std::size_t environments, bool hasty)
    : fields_(store.fields_),
      observation_bytes_(store.options_.observation_bytes),
      watch_(store.writers_),
      writers_(store.replay_, environments, store.writer_options(hasty, watch_)) {}

void RepriseStore::VectorWriter::choose(std::span<const std::size_t> environments) {
  writers_.choose(environments);
  first_.resize(environments.size() * observation_bytes_);
  next_.resize(first_.size());
  actions_.resize(environments.size());
  rewards_.resize(environments.size());
  latents_.resize(environments.size() * kLatentWords);
}

void RepriseStore::VectorWriter::row(std::size_t row, Identity id, const StepColumns& columns) {
  const auto observation = [&](std::vector<std::uint8_t>& rows) {
    return std::span(rows).subspan(row * observation_bytes_, observation_bytes_);
  };
  actions_[row] = columns.action;
  rewards_[row] = columns.reward;
  render_latent(id.hash(), 0, std::span(latents_).subspan(row * kLatentWords, kLatentWords));
  if (id.position == 0) {
    render(id, observation(first_));
  } else {
    std::ranges::fill(observation(first_), std::uint8_t{0xDE});  // It must not be taken.
  }
  ++id.position;
  render(id, observation(next_));
}

Took RepriseStore::VectorWriter::commit(std::span<const reprise::End> ends,
                                        std::span<const float> priorities) {
  if (!written_) {
    writers_.now(fields_.observation, first_);
    writers_.now(fields_.action, actions_);
    writers_.now(fields_.reward, rewards_);
    if (fields_.latent) {
      writers_.now(*fields_.latent, latents_);
    }
    writers_.next(fields_.observation, next_);
  }
  const Took took = took_of(writers_.commit(ends, priorities));
  written_ = took != Took::Taken;
  watch_.done(took == Took::Taken ? ends.size() : 0, true);
  return took;
}

RepriseStore::Learner::Learner(RepriseStore& store, std::uint64_t seed, float fresh)
    : store_(store),
      watch_(store.samplers_),
      sampler_(store.replay_.sampler(sampler_options(seed, fresh))) {
  drawn_.observation_bytes = store.options_.observation_bytes;
  drawn_.frame_stack = store.options_.frame_stack;
  drawn_.n_step = store.options_.n_step;
  if (const WindowRule rule(store.strategies_.window); rule.sequences() != nullptr) {
    drawn_.steps = rule.reach();
    drawn_.n_step = rule.sequences()->n_step;
    drawn_.frame_stack = rule.sequences()->frame_stack;
  }
  gathered_ = drawn_;
  if (const std::size_t n = store.options_.batch; store.strategies_.mixed && n > 1) {
    const std::vector<reprise::MixedPart> halves{{store.replay_, n / 2},
                                                 {store.replay_, n - n / 2}};
    mixed_.emplace(halves, sampler_options(seed, 0.0F));
  }
  if (store.strategies_.hindsight) {
    const auto goal = static_cast<reprise::HindsightGoal>(seed % 3);
    goals_.backwards = goal == reprise::HindsightGoal::Episode;
    goals_.final = goal == reprise::HindsightGoal::Final;
    hindsight_ = store.replay_.hindsight(store.fields_.observation,
                                         {.goal = goal, .share = 1.0F, .seed = seed});
  }
}

Got RepriseStore::Learner::sample(std::size_t n, Random& random) {
  reprise::SampleOptions how{.beta = kBeta, .timeout = kSampleTimeout, .hook = &watch_};
  how.draws = random.one_in(2) ? reprise::Draws::Stratified : reprise::Draws::Independent;
  how.normalise = static_cast<reprise::Normalise>(random.below(3));
  how.draws = store_.strategies_.draws.value_or(how.draws);
  if (!mixed_ || n != mixed_->size()) {
    return sample(n, how);
  }
  if (how.normalise == reprise::Normalise::ByBuffer) {
    how.normalise = reprise::Normalise::Not;  // Refused of exact parts.
  }
  const std::size_t before = kept_;
  const Got got = took(mixed_->sample(how), how);
  kept_ = got == Got::Batch || mixed_->waits_for() == 0 ? 0 : mixed_->counts()[0];
  counted_ = counted_ + kept_ - before;
  drawn_.second_part = mixed_->counts()[0];
  return got;
}

Got RepriseStore::Learner::sample_first(std::size_t most) {
  const std::size_t items = std::min<std::size_t>(store_.replay_.stats().items, most);
  return items == 0 ? Got::Nothing : sample(items, {.timeout = kSampleTimeout});
}

Got RepriseStore::Learner::sample_all(std::size_t most) {
  const std::size_t items = store_.replay_.stats().items;
  if (items > most) {
    return sample(most, {.timeout = kSampleTimeout});
  }
  // Items without weight are not drawn.
  Got got = Got::Nothing;
  for (std::size_t n = items; n != 0 && got == Got::Nothing; n -= (n + 15) / 16) {
    got = sample(n, {.draws = reprise::Draws::WithoutReplacement, .timeout = kAtOnce});
  }
  return got;
}

Got RepriseStore::Learner::sample(std::size_t n, const reprise::SampleOptions& how) {
  return took(sampler_.sample(n, how), how);
}

Got RepriseStore::Learner::took(const reprise::SampleResult& batch,
                                const reprise::SampleOptions& how) {
  counted_ = batch ? batch->size() : 0;
  watch_.done(batch ? 1 : 0, false);
  if (!batch) {
    return batch.status().code == reprise::SampleStatus::Code::Closed ? Got::Closed : Got::Nothing;
  }
  show(*batch, drawn_);
  drawn_.by_batch = how.normalise == reprise::Normalise::ByBatch;
  drawn_.without_replacement = how.draws == reprise::Draws::WithoutReplacement;
  drawn_.of_a_pass = how.draws == reprise::Draws::Epoch;
  drawn_.fresh = batch.status().fresh;
  drawn_.second_part = 0;
  drawn_.passes = batch.status().passes;
  drawn_.of_one_moment = drawn_.without_replacement || in_order(store_.strategies_.drawing) ||
                         store_.options_.max_times_sampled != 0;
  return Got::Batch;
}

void RepriseStore::Learner::show(const reprise::Batch& batch, Drawn& drawn) const {
  const Fields& fields = store_.fields_;
  drawn.size = batch.size();
  drawn.now = batch.now(fields.observation);
  drawn.next = batch.next(fields.observation);
  drawn.actions = batch.now(fields.action);
  if (drawn.steps != 0) {
    drawn.rewards = batch.now(fields.reward);
  }
  if (drawn.n_step != 0) {
    drawn.returns = batch.returns(fields.reward);
  }
  drawn.discounts = batch.discounts();
  if (fields.latent) {
    drawn.latents = batch.now(*fields.latent);
  }
  const std::span<const std::int64_t> keys = batch.keys_int64();
  drawn.keys = {reinterpret_cast<const std::uint64_t*>(keys.data()), keys.size()};
  drawn.probabilities = batch.probabilities();
  drawn.weights = batch.weights();
  drawn.episode_ids = batch.episode_ids();
  drawn.positions = batch.positions();
  drawn.lengths = batch.lengths();
}

void RepriseStore::Learner::name_keys(std::span<const std::uint64_t> keys) {
  keys_.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys_[i] = reprise::ItemKey{keys[i]};
  }
}

const Drawn& RepriseStore::Learner::gather(std::span<const std::uint64_t> keys) {
  name_keys(keys);
  gathered_.size = 0;
  while (!keys_.empty()) {
    batch_ = store_.replay_.make_batch(keys_.size());
    if (store_.replay_.gather(keys_, *batch_) == keys_.size()) {
      show(*batch_, gathered_);
      break;
    }
    std::size_t there = 0;  // What is gone is left out, and the others are read once more.
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      keys_[there] = keys_[i];
      there += batch_->lengths()[i] != 0 ? 1U : 0U;
    }
    keys_.resize(there);
  }
  return gathered_;
}

reprise::UpdateResult RepriseStore::Learner::update(std::span<const std::uint64_t> keys,
                                                    std::span<const float> priorities) {
  name_keys(keys);
  return mixed_ ? mixed_->update_priorities(keys_, priorities)
                : store_.replay_.update_priorities(keys_, priorities);
}

reprise::UpdateResult RepriseStore::Learner::update_latents(
    std::span<const std::uint64_t> keys, std::span<const std::uint64_t> latents) {
  name_keys(keys);
  return store_.replay_.update(keys_, *store_.fields_.latent, latents);
}

std::size_t RepriseStore::Learner::remove(std::span<const std::uint64_t> keys) {
  name_keys(keys);
  return store_.replay_.remove(keys_);
}

const Goals& RepriseStore::Learner::relabel() {
  // An item that is gone keeps its goal: its own observation, at distance 0.
  goals_.values.clear();
  for (std::size_t i = 0; i < drawn_.size; ++i) {
    const std::span<const std::uint8_t> own = drawn_.frame(drawn_.now, i, drawn_.frame_stack - 1);
    goals_.values.insert(goals_.values.end(), own.begin(), own.end());
  }
  goals_.distances.assign(drawn_.size, -1);
  name_keys(drawn_.keys);
  hindsight_->relabel(keys_, std::span(goals_.values), goals_.distances);
  return goals_;
}

bool RepriseStore::Learner::refuses_bad_update(std::span<const std::uint64_t> keys,
                                               std::span<const float> priorities, Random& random) {
  std::vector<std::uint64_t> bad_keys(keys.begin(), keys.end());
  std::vector<float> bad_priorities(priorities.begin(), priorities.end());
  float& priority = bad_priorities[random.below(bad_priorities.size())];
  switch (random.below(4)) {
    case 0:
      priority = std::numeric_limits<float>::quiet_NaN();
      break;
    case 1:
      priority = std::numeric_limits<float>::infinity();
      break;
    case 2:
      priority = -1.0F;
      break;
    default: {
      std::uint64_t& key = bad_keys[random.below(bad_keys.size())];
      const reprise::ItemKey good{key};
      key = reprise::ItemKey::make(good.slot(), good.generation(), good.tag() + 1).bits;
    }
  }
  try {
    static_cast<void>(update(bad_keys, bad_priorities));
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

}  // namespace stress
