#include "sampler/sampler_core.hpp"

#include "base/divider.hpp"
#include "base/extremes.hpp"
#include "base/text.hpp"
#include "sampler/importance.hpp"
#include "select/allot.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

namespace reprise::sampler {
namespace {

/// How often a draw is tried if shards lose all their weight between the hints and the locks. A
/// thread that clears the buffer over and over makes every second try fail.
constexpr int kDrawTries = 256;
/// A sampler that was woken and still lacks items sleeps this long before it registers again, so
/// that filling a buffer does not cost a wake per commit.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(100);

}  // namespace

SamplerCore::SamplerCore(std::shared_ptr<buffer::BufferCore> core, const SamplerOptions& options)
    : core_(std::move(core)),
      options_(options),
      random_(options.resume ? base::Random(core_->saves.samplers.at(*options.resume))
                             : base::Random(options.seed)),
      store_(*new window::BatchStore(core_->schema(), core_->window(), options.memory,
                                     options.unique_frames)),
      batch_(window::BatchAccess::batch(&store_)),
      shares_(core_->shards().size()),
      counts_(core_->shards().size()),
      snapshot_draw_(*core_, options.selector),
      epoch_draw_(*core_, options.selector),
      fresh_draw_(*core_, options.selector, options.fresh),
      copier_(*core_, options.parallel_gather_bytes) {
  // A shard has draws in at most two rounds, after its fresh items.
  runs_.reserve(3 * core_->shards().size());
}

void SamplerCore::check(const window::BatchStore& batch, std::size_t offset, std::size_t n,
                        const SampleOptions& options) const {
  core_->life().check();
  base::require(n != 0, "batch size is 0; allowed: at least 1");
  base::require(options.beta >= 0.0F && options.beta <= 1.0F, "beta is ", options.beta,
                "; allowed: 0 to 1");
  base::require(options.timeout.count() >= 0, "timeout is ", options.timeout.count(),
                " ns; allowed: at least 0");
  base::require(options.draws != Draws::Epoch || !snapshot_draw_.needed_for(options.draws),
                "draws is Epoch, of a selector that draws in an order or with max_times_sampled; "
                "allowed: of the others, as a pass is the order and the limit");
  base::require(!fresh_draw_.on() || options.draws == Draws::Stratified ||
                    options.draws == Draws::Independent,
                "draws is ", options.draws == Draws::Epoch ? "Epoch" : "WithoutReplacement",
                "; allowed of a sampler with SamplerOptions::fresh: Stratified and Independent");
  core_->limiter().check_batch(n);
  const std::size_t distinct = snapshot_draw_.distinct(n, options.draws);
  const std::size_t capacity = core_->options().capacity_steps;
  base::require(distinct <= capacity, "batch size ", n, " takes ", distinct,
                " different items; allowed: at most capacity_steps = ", capacity);
  if (&batch == &store_) {
    return;
  }
  batch.check_places("sample_into", core_->schema(), core_->window(), offset, n);
}

void SamplerCore::reserve(std::size_t n) {
  if (n <= places_.size()) {
    return;
  }
  positions_.resize(n);
  fractions_.resize(n);
  leaves_.resize(n);
  weights_.resize(n);
  rows_.resize(n);
  pinned_.resize(n);
  places_.resize(n);
}

SampleStatus SamplerCore::sample(window::BatchStore& batch, std::size_t offset, std::size_t n,
                                 const SampleOptions& options) {
  const base::OneThread::Inside inside(one_thread_, "Sampler::sample");
  reserve(n);
  const bool snapshot = snapshot_draw_.needed_for(options.draws);
  if (snapshot) {
    snapshot_draw_.reserve(n);  // It may throw, so it comes before the limiter counts the batch.
  } else if (options.draws == Draws::Epoch) {
    epoch_draw_.reserve(n);
    runs_.reserve(n);
  }
  Call call(core_->sampler_turns);
  call.takes = takes(n, options);
  SampleStatus& status = call.status;
  status.batch = status.draws = n;
  limiter::WaitTerms terms(&core_->life(), options.timeout, options.stop, options.hook);
  for (Outcome outcome = Outcome::Retry; outcome != Outcome::Drawn;) {
    wait(call, terms);
    if (status.code != SampleStatus::Code::Ok) {
      return status;
    }
    outcome = draw_admitted(batch, offset, n, options.draws);
    batch_drawn(n);
    if (outcome == Outcome::Drawn) {
      break;
    }
    take_back(n);
    // Other samplers may have drawn the items for which this call was admitted, or they were
    // cleared; then it waits again.
    const bool lacks = snapshot ? snapshot_draw_.was_short() : no_items_;
    if (!lacks || core_->limiter().is_unlimited()) {
      status.code = SampleStatus::Code::NothingToDraw;
      status.items = core_->shards().items();
      status.draws = snapshot ? snapshot_draw_.found() : 0;
      return status;
    }
  }
  call.leave();
  if (options.gather) {
    copier_.copy(std::span(places_).first(n), rows_, batch, offset);
  }
  unpin(runs_);
  status.fresh = fresh_;
  status.passes = epoch_draw_.passes();
  weigh(batch, offset, n, options);
  batch.size = std::max(&batch == &store_ ? 0 : batch.size, offset + n);
  // Relaxed: statistics.
  core_->counters.sampled_items.fetch_add(n, std::memory_order_relaxed);
  core_->counters.sampled_batches.fetch_add(1, std::memory_order_relaxed);
  return status;
}

SamplerCore::Takes SamplerCore::takes(std::size_t n, const SampleOptions& options) const noexcept {
  // With `Unlimited` nobody waits, not even for items.
  if (core_->limiter().is_unlimited()) {
    return {};
  }
  return {snapshot_draw_.distinct(n, options.draws),
          snapshot_draw_.counts_draws(options.draws) ? n : 0};
}

/// The items and draws that the buffer has.
SamplerCore::Takes SamplerCore::has(const Takes& takes) const noexcept {
  return {core_->shards().items(), takes.draws == 0 ? 0 : core_->shards().draws_left()};
}

/// An estimate of how many items the buffer has to have before the batch can be drawn, for the
/// demand: it assumes that new items have all their draws left.
std::size_t SamplerCore::items_for(const Takes& takes, const Takes& has) const noexcept {
  const std::size_t missing =
      takes.draws <= has.draws
          ? 0
          : base::divide_up(takes.draws - has.draws, core_->options().max_times_sampled);
  return std::max(takes.items, missing == 0 ? 0 : has.items + missing);
}

/// Asks for admission once; if it is granted, the limiter has counted the batch as sampled.
bool SamplerCore::admit(Call& call) noexcept {
  using Answer = limiter::Limiter::Answer;
  SampleStatus& status = call.status;
  const Takes has = this->has(call.takes);
  status.held_by_turn = false;
  status.items = has.items;
  status.draws = call.takes.draws == 0 ? status.batch : std::min(has.draws, status.batch);
  call.demand = has.covers(call.takes) ? 0 : items_for(call.takes, has);
  call.answer =
      call.demand != 0 ? Answer::TooFewItems : core_->limiter().admit_samples(status.batch, [&] {
        return status.items = core_->counted();
      });
  return call.answer == Answer::Admitted;
}

/// Waits until the buffer has the items and draws of the batch and the limiter has admitted and
/// counted it.
void SamplerCore::wait(Call& call, limiter::WaitTerms& terms) {
  call.status.needed = std::max(core_->limiter().needed(call.status.batch), call.takes.items);

  core_->shards().ingest_pending();
  if (core_->closed()) {
    call.status.code = SampleStatus::Code::Closed;
    return;
  }
  call.status.held_by_turn = call.turns.anybody();
  if (call.status.held_by_turn || !admit(call)) {
    wait_until_admitted(call, terms);
  }
}

/// The part of `wait` after a first look that was not admitted, or not made because others wait.
void SamplerCore::wait_until_admitted(Call& call, limiter::WaitTerms& terms) {
  const bool for_ratio = core_->limiter().limits_inserts() && !core_->limiter().is_queue() &&
                         call.answer != limiter::Limiter::Answer::TooFewItems;
  limiter::Wait wait(terms, for_ratio ? &core_->samplers_for_limiter : &core_->samplers_for_items,
                     &core_->items_event, &call.turns.event());
  if (wait.refused()) {
    give_up(call, limiter::WaitEnd::Stopped);
    return;
  }
  std::optional<limiter::WaitEnd> end;
  if (core_->draws_take()) {
    call.in_turn = true;
    end = call.turns.come(call, wait);
  }
  if (!end) {
    end = wait_for_items(call, wait);
  }
  call.status.waited += wait.waited();
  if (end) {
    give_up(call, *end);
  }
}

/// The part of `wait_until_admitted` in which it is the call's turn.
std::optional<limiter::WaitEnd> SamplerCore::wait_for_items(Call& call,
                                                            limiter::Wait& wait) noexcept {
  for (;;) {
    {
      // I11: register, look again, only then sleep.
      const base::Event::Registration registration(core_->items_event);
      const std::uint32_t ticket = registration.ticket();
      core_->shards().drain();
      if (admit_in_turn(call)) {
        return std::nullopt;
      }
      if (call.demand != 0) {
        core_->room_event.wake_registered();  // E1: progress for writers that a ratio holds.
      }
      if (const auto end = wait.over()) {
        return end;
      }
      wait.sleep(registration, ticket);
    }
    core_->shards().ingest_pending();
    if (admit_in_turn(call)) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(kNap);
  }
}

bool SamplerCore::admit_in_turn(Call& call) noexcept {
  if (core_->closed()) {
    return false;
  }
  return call.in_turn ? call.turns.ask(call, [&](limiter::Turns::Turn&) { return admit(call); })
                      : admit(call);
}

/// Writes into the status of a call that waits no longer why there is no batch.
void SamplerCore::give_up(Call& call, limiter::WaitEnd end) noexcept {
  using Answer = limiter::Limiter::Answer;
  SampleStatus& status = call.status;
  status.held_by_turn = call.leave() || status.held_by_turn;
  status.code = code_of(end);
  if (end == limiter::WaitEnd::Closed) {
    return;
  }
  if (status.held_by_turn) {
    status.items = core_->shards().items();
    return;
  }
  status.held_by_ratio = call.answer == Answer::AheadOfInserts;
  status.held_by_queue = call.answer == Answer::TooFewItems && core_->limiter().is_queue();
  if (status.held_by_ratio) {
    status.balance = core_->limiter().balance();
  }
}

/// Draws and pins n items; pins nothing if too few have weight.
SamplerCore::Outcome SamplerCore::draw_admitted(window::BatchStore& batch, std::size_t offset,
                                                std::size_t n, Draws draws) {
  core_->shards().refresh(options_.selector);
  const bool snapshot = snapshot_draw_.needed_for(draws);
  no_items_ = false;
  runs_.clear();
  fresh_ = fresh_draw_.on() ? fresh_draw_.draw(slots(batch, offset, n), runs_) : 0;
  fresh_runs_ = runs_.size();
  Outcome outcome = Outcome::Retry;
  for (int i = 0; i < kDrawTries && outcome == Outcome::Retry; ++i) {
    outcome = snapshot                ? draw_snapshot(batch, offset, n, draws)
              : draws == Draws::Epoch ? draw_epoch(batch, offset, n)
                                      : this->draw(batch, offset, n, draws);
    // Items may have come meanwhile.
    if (outcome == Outcome::NoWeight &&
        (snapshot ? i == 0 && core_->shards().items() >= n : has_weight())) {
      outcome = Outcome::Retry;
    }
    if (outcome == Outcome::Retry) {
      std::this_thread::yield();  // To who takes the items away.
    }
  }
  if (outcome != Outcome::Drawn) {
    unpin(std::span(runs_).first(fresh_runs_));
  }
  return outcome;
}

/// Tells the limiter that an admitted batch was drawn or failed, and wakes the threads that wait
/// for that.
void SamplerCore::batch_drawn(std::size_t n) noexcept {
  if (!core_->limiter().limits_inserts()) {
    return;
  }
  core_->limiter().batch_drawn(n);
  // E1: writers wait for counted samples and for items drawn for the last time; samplers wait for
  // the items of a batch to be unreserved.
  core_->room_event.wake_registered();
  if (core_->limiter().is_queue()) {
    core_->items_event.wake_registered();
  }
}

/// Undoes the limiter's count of a failed draw, and wakes the samplers that it held back.
void SamplerCore::take_back(std::size_t n) noexcept {
  core_->limiter().return_samples(n);
  core_->items_event.wake_registered();
}

/// Whether any shard has weight; if not, `no_items_` says whether none has items. It asks under
/// each shard's lock, because hints are as of the last unlock, and a thread that still holds a lock
/// may have ingested the items that admitted this draw.
bool SamplerCore::has_weight() {
  no_items_ = true;
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    const buffer::ShardSet::One shard(core_->shards(), s);
    no_items_ = no_items_ && shard->items() == 0;
    if (shard->selector(options_.selector).summary().total > 0.0) {
      return true;
    }
  }
  return false;
}

/// Draws and pins n items. If it returns NoWeight (the hints of all shards have no weight) or Retry
/// (shards lost all their weight during the draw), nothing is pinned but fresh items.
SamplerCore::Outcome SamplerCore::draw(detail::BatchView& batch, std::size_t offset, std::size_t n,
                                       Draws draws) {
  double total = 0.0;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    const SelectorSummary hint = core_->shards()[s].hints().summary(options_.selector);
    shares_[s] = hint.total;
    total += hint.total;
    lowest = std::min(lowest, static_cast<double>(hint.min_positive));
  }
  if (!(total > 0.0)) {
    return Outcome::NoWeight;
  }
  items_ = std::max<std::size_t>(core_->shards().items(), 1);
  lowest_probability_ = lowest / total;
  if (fresh_draw_.on()) {
    lowest_probability_ = std::min(lowest_probability_, 1.0 / static_cast<double>(items_));
  }
  runs_.resize(fresh_runs_);
  bool first_round = true;
  for (std::size_t done = fresh_; done < n; first_round = false) {
    // The shares of shards that were empty in the first round are 0 now, so the others are scaled
    // up.
    const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
    if (!(sum > 0.0)) {
      return Outcome::Retry;
    }
    for (double& share : shares_) {
      share /= sum;
    }
    const bool stratified = first_round && draws == Draws::Stratified;
    select::allot(shares_, stratified, random_, positions_, std::span(fractions_).first(n - done),
                  counts_);
    done = draw_round(slots(batch, offset, n), done);
    if (!first_round && done < n) {
      // A shard that gave draws in the first round is empty now, so their probabilities would be
      // wrong.
      unpin(std::span(runs_).subspan(fresh_runs_));
      return Outcome::Retry;
    }
  }
  report_probabilities(batch.probabilities + offset);
  return Outcome::Drawn;
}

/// Draws and pins n items from all shards at one moment. NoWeight: too few items have weight, and
/// nothing is pinned.
SamplerCore::Outcome SamplerCore::draw_snapshot(detail::BatchView& batch, std::size_t offset,
                                                std::size_t n, Draws draws) {
  const shard::Slots into = slots(batch, offset, n);
  runs_.clear();
  if (!snapshot_draw_.draw(into, draws, random_, runs_)) {
    return Outcome::NoWeight;
  }
  items_ = snapshot_draw_.items();
  lowest_probability_ = snapshot_draw_.lowest_probability();
  lowest_drawn_ = *std::ranges::min_element(into.probabilities);
  return Outcome::Drawn;
}

/// Draws and pins the next n items of the sampler's passes. NoWeight: no item has weight, and
/// nothing is pinned.
SamplerCore::Outcome SamplerCore::draw_epoch(detail::BatchView& batch, std::size_t offset,
                                             std::size_t n) {
  runs_.clear();
  if (!epoch_draw_.draw(slots(batch, offset, n), random_, runs_)) {
    unpin(runs_);
    return Outcome::NoWeight;
  }
  return Outcome::Drawn;
}

/// Takes the lock of each shard that has draws, once. Returns how many items are drawn so far, all
/// together.
std::size_t SamplerCore::draw_round(const shard::Slots& batch, std::size_t done) {
  std::size_t next = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const std::size_t count = counts_[s];
    if (count == 0) {
      continue;
    }
    shard::Drawn drawn;
    {
      const buffer::ShardSet::One shard(core_->shards(), s);
      drawn = shard->draw(options_.selector, std::span(fractions_).subspan(next, count),
                          batch.sub(done, count));
    }
    next += count;
    if (drawn.items == 0) {
      shares_[s] = 0.0;
      continue;
    }
    runs_.push_back({s, done, count, drawn.pins, drawn.total});
    done += count;
  }
  return done;
}

/// P = share of the shard * (weight / locked total). Draws that fell on an empty shard are made
/// again among the others, as if that shard had never had a share, so the last shares hold for all
/// draws.
void SamplerCore::report_probabilities(double* probabilities) noexcept {
  lowest_drawn_ = std::numeric_limits<double>::infinity();
  if (fresh_ != 0) {
    // The queue draws each item once, so all alike.
    const double alike = 1.0 / static_cast<double>(items_);
    std::fill_n(probabilities, fresh_, alike);
    lowest_drawn_ = alike;
  }
  for (const Run& run : std::span(runs_).subspan(fresh_runs_)) {
    const double scale = shares_[run.shard] / run.total;
    const std::span<const float> weights(weights_.data() + run.begin, run.count);
    for (std::size_t i = 0; i < run.count; ++i) {
      probabilities[run.begin + i] = static_cast<double>(weights[i]) * scale;
    }
    const float least = base::extreme(weights, weights[0], std::less<>());
    lowest_drawn_ = std::min(lowest_drawn_, static_cast<double>(least) * scale);
  }
}

shard::Slots SamplerCore::slots(detail::BatchView& batch, std::size_t offset,
                                std::size_t n) noexcept {
  return {std::span(batch.keys + offset, n), std::span(places_).first(n),
          std::span(leaves_).first(n),       std::span(pinned_).first(n),
          std::span(weights_).first(n),      std::span(batch.probabilities + offset, n)};
}

void SamplerCore::unpin(std::span<const Run> runs) noexcept {
  for (const Run& run : runs) {
    core_->shards()[run.shard].unpin(std::span(pinned_).subspan(run.begin, run.pins));
  }
}

void SamplerCore::weigh(detail::BatchView& batch, std::size_t offset, std::size_t n,
                        const SampleOptions& options) const {
  if (options.draws == Draws::Epoch) {
    std::fill_n(batch.weights + offset, n, 1.0F);
    return;
  }
  sampler::weigh(std::span<const double>(batch.probabilities + offset, n),
                 {static_cast<double>(items_), lowest_probability_, lowest_drawn_}, options.beta,
                 options.normalise, std::span(batch.weights + offset, n));
}

}  // namespace reprise::sampler
