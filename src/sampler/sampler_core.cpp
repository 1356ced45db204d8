#include "sampler/sampler_core.hpp"

#include "base/divider.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <thread>

namespace reprise::sampler {
namespace {

/// How often a draw is tried if shards lose all their weight between the hints and the locks. Even
/// a thread that clears the buffer over and over makes only every second try fail.
constexpr int kDrawTries = 256;
/// A sampler that was woken and still lacks items sleeps this long before it registers again, so
/// that filling a buffer does not cost a wake per commit.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(100);

}  // namespace

SamplerCore::SamplerCore(std::shared_ptr<buffer::BufferCore> core, const SamplerOptions& options,
                         std::size_t selector)
    : core_(std::move(core)),
      options_(options),
      selector_(selector),
      random_(options.resume ? base::Random(core_->saves.samplers.at(*options.resume))
                             : base::Random(options.seed)),
      store_(*new window::BatchStore(core_->schema(), core_->window(), options.memory,
                                     options.unique_frames)),
      batch_(window::BatchAccess::batch(&store_)),
      snapshots_(core_->selectors().at(selector).law() == Law::InOrder ||
                 core_->shards().draws_limited()),
      weighted_(core_->shards(), selector),
      snapshot_(core_->shards(), core_->item_numbers(), selector,
                core_->selectors().at(selector).law() == Law::InOrder),
      epoch_(core_->shards(), selector),
      fresh_(weighted_, core_->shards(), selector, fresh_share()),
      copier_(core_->store(), core_->gather(), core_->window(), options.parallel_gather_bytes) {
  DrawPlan* by_weight = &weighted_;
  if (options.fresh > 0.0F) {
    by_weight = &fresh_;
  }
  // For Stratified, Independent, WithoutReplacement and Epoch.
  plans_ = {by_weight, by_weight, &snapshot_, &epoch_};
  if (snapshots_) {
    plans_.fill(&snapshot_);
  }
  // A shard has at most three runs in a batch: one of fresh items, and two of `WeightedDraw`.
  runs_.reserve(3 * core_->shards().size());
}

/// The share of fresh items in a batch. Throws std::invalid_argument for a share outside [0, 1],
/// and for one above 0 if the selector is ordered or draws are limited.
float SamplerCore::fresh_share() const {
  const float share = options_.fresh;
  base::require(share >= 0.0F && share <= 1.0F, "fresh is ", share, "; allowed: 0 to 1");
  base::require(share == 0.0F || !snapshots_, "fresh is ", share,
                ", of a selector that draws in an order or with max_times_sampled; allowed: of "
                "the others, as a queue in front of them would change the order or the counts");
  return share;
}

void SamplerCore::check(const window::BatchStore& batch, std::size_t offset, std::size_t n,
                        const SampleOptions& options) const {
  core_->life().check_not_forked();
  base::require(n != 0, "batch size is 0; allowed: at least 1");
  base::require(options.beta >= 0.0F && options.beta <= 1.0F, "beta is ", options.beta,
                "; allowed: 0 to 1");
  base::require(options.timeout.count() >= 0, "timeout is ", options.timeout.count(),
                " ns; allowed: at least 0");
  const bool passes = options.draws == Draws::Epoch;
  base::require(!passes || !snapshots_, "draws is ", base::Enumerator{"Epoch"},
                ", of a selector that draws in an order or with max_times_sampled; "
                "allowed: of the others, as a pass is the order and the limit");
  base::require(options_.fresh == 0.0F || options.draws == Draws::Stratified ||
                    options.draws == Draws::Independent,
                "draws is ", base::Enumerator{passes ? "Epoch" : "WithoutReplacement"},
                "; allowed of a sampler with fresh: ", base::Enumerator{"Stratified"}, " and ",
                base::Enumerator{"Independent"});
  static_cast<void>(core_->window().targets(options.n_step, options.discount));
  core_->limiter().check_batch(n);
  const std::size_t distinct = plan(options.draws).needs(n, options.draws).items;
  const std::size_t capacity = core_->options().capacity_steps;
  base::require(distinct <= capacity, "batch size ", n, " needs ", distinct,
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
  leaves_.resize(n);
  weights_.resize(n);
  rows_.resize(n);
  pinned_.resize(n);
  places_.resize(n);
}

SampleStatus SamplerCore::sample(window::BatchStore& batch, std::size_t offset, std::size_t n,
                                 const SampleOptions& options) {
  Call call(core_->sampler_turns);
  return sample(call, batch, offset, n, options);
}

SampleStatus SamplerCore::poll(window::BatchStore& batch, std::size_t offset, std::size_t n,
                               const SampleOptions& options) {
  Call& call = polled_ ? *polled_ : polled_.emplace(core_->sampler_turns, IfNotAdmitted::Stop);
  call.status = {};
  const SampleStatus status = sample(call, batch, offset, n, options);
  if (status.code != SampleStatus::Code::Stopped) {
    polled_.reset();
  }
  return status;
}

SampleStatus SamplerCore::sample(Call& call, window::BatchStore& batch, std::size_t offset,
                                 std::size_t n, const SampleOptions& options) {
  const base::OneThread::Inside inside(one_thread_, "Sampler::sample");
  DrawPlan& plan = this->plan(options.draws);
  reserve(n);
  Drawing drawing{{std::span(batch.keys + offset, n), std::span(places_).first(n),
                   std::span(leaves_).first(n), std::span(pinned_).first(options.gather ? n : 0),
                   std::span(weights_).first(n), std::span(batch.probabilities + offset, n)},
                  options.draws,
                  runs_};
  plan.reserve(drawing);  // This may throw, so it comes before the limiter counts the batch.
  call.status.batch = call.status.possible = n;
  if (!core_->limiter().is_unlimited()) {  // Otherwise the call waits for no items.
    call.needs = plan.needs(n, options.draws);
  }
  limiter::WaitTerms terms(&core_->life(), options.timeout, options.stop, options.hook);
  draw_admitted(call, terms, plan, drawing);
  SampleStatus& status = call.status;
  if (status.code != SampleStatus::Code::Ok) {
    fill_outdated(status);
    return status;
  }
  call.leave();
  if (options.gather && row_sink_ != nullptr) {
    row_sink_->take(drawing.slots.places, drawing.slots.keys, batch, offset);
  } else if (options.gather) {
    copier_.copy(drawing.slots.places, rows_,
                 core_->window().targets(options.n_step, options.discount), batch, offset);
  }
  drawing.give_back(core_->shards());
  status.fresh = drawing.fresh;
  status.passes = epoch_.passes();
  weigh(drawing.slots.probabilities, plan.facts(), options.beta, options.normalise,
        std::span(batch.weights + offset, n));
  batch.size = std::max(&batch == &store_ ? 0 : batch.size, offset + n);
  // Relaxed: statistics.
  core_->counters.sampled_items.fetch_add(n, std::memory_order_relaxed);
  core_->counters.sampled_batches.fetch_add(1, std::memory_order_relaxed);
  return status;
}

/// Waits, draws and pins until a batch is drawn, or until the status says why it cannot be.
void SamplerCore::draw_admitted(Call& call, limiter::WaitTerms& terms, DrawPlan& plan,
                                Drawing& drawing) {
  SampleStatus& status = call.status;
  for (int tries = 0;;) {
    if (tries == 0) {
      wait(call, terms);
      if (status.code != SampleStatus::Code::Ok) {
        return;
      }
      core_->shards().refresh(selector_);
      tries = kDrawTries;
    }
    status.version = core_->counters.version.load(std::memory_order_relaxed);
    const DrawPlan::Outcome outcome = plan.draw(drawing, random_);
    if (outcome == DrawPlan::Outcome::Retry && --tries != 0) {
      std::this_thread::yield();  // Lets the thread finish that takes the items away.
      continue;
    }
    batch_drawn(status.batch);
    if (outcome == DrawPlan::Outcome::Drawn) {
      return;
    }
    drawing.give_back(core_->shards());
    take_back(status.batch);
    // Other samplers may have drawn the items for which this call was admitted, or the items were
    // cleared; then this call waits again.
    if (outcome != DrawPlan::Outcome::TooFew || core_->limiter().is_unlimited()) {
      status.code = SampleStatus::Code::NothingToDraw;
      status.items = core_->shards().items();
      status.possible = drawing.found;
      return;
    }
    tries = 0;
  }
}

/// Counts the items that the buffer has, and if the batch needs them counted, its draws left.
Needs SamplerCore::available(const Needs& needs) const noexcept {
  return {core_->shards().items(), needs.draws == 0 ? 0 : core_->shards().draws_left()};
}

/// Estimates how many items the buffer needs before the batch can be drawn, for `Call::demand`. New
/// items are assumed to have all their draws left.
std::size_t SamplerCore::items_for(const Needs& needs, const Needs& available) const noexcept {
  const std::size_t missing =
      needs.draws <= available.draws
          ? 0
          : base::divide_up(needs.draws - available.draws, core_->shards().draws_per_item());
  return std::max(needs.items, missing == 0 ? 0 : available.items + missing);
}

/// Asks the limiter for admission, unless the buffer lacks items. Returns whether it was granted;
/// then the limiter has counted the batch as sampled.
bool SamplerCore::admit(Call& call) noexcept {
  using Answer = limiter::Limiter::Answer;
  SampleStatus& status = call.status;
  const Needs available = this->available(call.needs);
  status.held_by_turn = false;
  status.items = available.items;
  status.possible = call.needs.draws == 0 ? status.batch : std::min(available.draws, status.batch);
  call.demand = available.covers(call.needs) ? 0 : items_for(call.needs, available);
  call.answer =
      call.demand != 0 ? Answer::TooFewItems : core_->limiter().admit_samples(status.batch, [&] {
        return status.items = core_->limiter_items();
      });
  return call.answer == Answer::Admitted;
}

/// Waits until the buffer has the items and draws of the batch and the limiter has admitted and
/// counted it.
void SamplerCore::wait(Call& call, limiter::WaitTerms& terms) {
  call.status.needed = std::max(core_->limiter().needed(call.status.batch), call.needs.items);

  core_->shards().ingest_pending();
  if (core_->closed()) {
    call.status.code = SampleStatus::Code::Closed;
    return;
  }
  call.status.held_by_turn = call.turns.anybody();
  if (!call.status.held_by_turn && admit(call)) {
    return;
  }
  if (call.if_not_admitted == IfNotAdmitted::Wait) {
    wait_until_admitted(call, terms);
  } else if (!admit_polled(call)) {
    call.status.code = SampleStatus::Code::Stopped;
  }
}

/// Asks for admission without waiting, if it is the call's turn. Without admission the call keeps
/// its place in the line.
bool SamplerCore::admit_polled(Call& call) noexcept {
  call.in_turn = core_->draws_consume();
  call.status.held_by_turn = call.in_turn && !call.turns.enqueue(call);
  if (!call.status.held_by_turn && admit_in_turn(call)) {
    return true;
  }
  if (call.demand != 0) {
    core_->room_event.wake_registered();  // E1: progress for writers that a ratio holds.
  }
  fill_reason(call);
  return false;
}

/// Waits for admission. A first request was refused, or was not made because other calls wait.
void SamplerCore::wait_until_admitted(Call& call, limiter::WaitTerms& terms) {
  const bool for_ratio = core_->limiter().limits_inserts() && !core_->limiter().is_queue() &&
                         call.answer != limiter::Limiter::Answer::TooFewItems;
  // The call joins the line before its wait is counted, so whoever sees the wait in the statistics
  // can rely on the call's place in the line.
  call.in_turn = core_->draws_consume();
  if (call.in_turn) {
    static_cast<void>(call.turns.enqueue(call));
  }
  limiter::Wait wait(terms, for_ratio ? &core_->samplers_for_limiter : &core_->samplers_for_items,
                     &core_->items_event, &call.turns.event());
  if (wait.refused()) {
    give_up(call, limiter::WaitEnd::Stopped);
    return;
  }
  std::optional<limiter::WaitEnd> end;
  if (call.in_turn) {
    end = call.turns.wait_for_turn(call, wait);
  }
  if (!end) {
    end = wait_for_items(call, wait);
  }
  call.status.waited += wait.waited();
  if (end) {
    give_up(call, *end);
  }
}

/// Waits for admission as the first call of the line, or without a line.
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

/// Ends the turn of a call whose wait has ended, and writes into its status why.
void SamplerCore::give_up(Call& call, limiter::WaitEnd end) noexcept {
  call.status.held_by_turn = call.leave() || call.status.held_by_turn;
  call.status.code = code_of(end);
  if (end != limiter::WaitEnd::Closed) {
    fill_reason(call);
  }
}

/// Writes into the status what the call waits for.
void SamplerCore::fill_reason(Call& call) noexcept {
  using Answer = limiter::Limiter::Answer;
  SampleStatus& status = call.status;
  if (status.held_by_turn) {
    status.items = core_->shards().items();
    return;
  }
  status.held_by_ratio = call.answer == Answer::AheadOfInserts;
  status.held_by_queue = call.answer == Answer::TooFewItems && core_->limiter().is_queue();
  status.full = call.answer == Answer::TooFewItems &&
                core_->shards().steps() == core_->options().capacity_steps;
  if (status.held_by_ratio) {
    status.balance = core_->limiter().balance();
  }
}

/// Tells the limiter that an admitted batch was drawn or could not be, and wakes the threads that
/// wait for this.
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

/// Undoes the limiter's count of a batch that was not drawn, and wakes the samplers that the count
/// held back.
void SamplerCore::take_back(std::size_t n) noexcept {
  core_->limiter().return_samples(n);
  core_->items_event.wake_registered();
}

}  // namespace reprise::sampler
