#include "textbook_store.hpp"

#include "account.hpp"
#include "drawn.hpp"
#include "options.hpp"
#include "priority_check.hpp"
#include "reprise/replay_buffer.hpp"
#include "reprise/window.hpp"
#include "row.hpp"
#include "window_check.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <thread>

namespace stress {
namespace {

/// What follows both stacks in a row.
struct Tail {
  std::int32_t action = 0;
  float returns = 0.0F;
  float discount = 0.0F;
};

}  // namespace

TextbookStore::TextbookStore(const Options& options, std::uint32_t /*round*/,
                             Findings& /*findings*/)
    : options_(options),
      buffer_(2 * options.observation_bytes * options.frame_stack + sizeof(Tail),
              options.capacity_steps,
              {.alpha = static_cast<double>(kAlpha),
               .epsilon = static_cast<double>(epsilon_of(options.checks))},
              options.seed) {}

Account TextbookStore::account(const Truth& truth) const {
  const std::uint64_t added = buffer_.added();
  const std::uint64_t resident = buffer_.size();
  return {.committed = added + truth.open,
          .resident = resident,
          .evicted = added - resident,
          .pending = truth.open,
          .sampled = truth.sampled,
          .applied = truth.applied,
          .stale = truth.stale,
          .writers = truth.writers,
          .items = resident,
          .unfinished = 0};
}

TextbookStore::Writer::Writer(TextbookStore& store, bool /*hasty*/)
    : store_(store),
      bytes_(store.options_.observation_bytes),
      n_step_(store.options_.n_step),
      kept_(std::size_t{store.options_.n_step} + store.options_.frame_stack + 1),
      frames_(kept_ * bytes_),
      columns_(kept_),
      row_(2 * store.stack_bytes() + sizeof(Tail)) {}

TextbookStore::Writer::~Writer() {
  try {
    truncate();
  } catch (const std::exception&) {
    std::terminate();  // Committed steps would be missing from the account.
  }
}

void TextbookStore::Writer::begin_episode() {
  truncate();
  in_episode_ = true;
  steps_ = 0;
}

std::size_t TextbookStore::Writer::completing(reprise::End end) const {
  const std::size_t steps = steps_ + 1;
  const std::size_t undecided = steps - (steps_ >= n_step_ ? steps_ + 1 - n_step_ : 0);
  return end == reprise::End::Continue ? static_cast<std::size_t>(steps >= n_step_) : undecided;
}

Took TextbookStore::Writer::commit(reprise::End end, std::span<const float> priorities) {
  if (store_.closed_.load(std::memory_order_relaxed)) {
    return Took::Closed;
  }
  const std::size_t count = completing(end);
  ++steps_;
  const std::size_t first = first_open(steps_);
  for (std::size_t k = 0; k < count; ++k) {
    add(first + k, steps_, end == reprise::End::Terminated,
        priorities.empty() ? nullptr : &priorities[k]);
  }
  in_episode_ = end == reprise::End::Continue;
  return Took::Taken;
}

void TextbookStore::Writer::truncate() {
  if (!in_episode_) {
    return;
  }
  in_episode_ = false;
  const std::size_t open = std::min(steps_, n_step_ - 1);
  for (std::size_t position = steps_ - open; position < steps_; ++position) {
    add(position, steps_, false, nullptr);
  }
}

void TextbookStore::Writer::add(std::size_t position, std::size_t steps, bool terminated,
                                const float* priority) {
  const std::size_t length = std::min(n_step_, steps - position);
  Tail tail{.action = columns_[position % kept_].action, .returns = 0.0F, .discount = 1.0F};
  for (std::size_t k = 0; k < length; ++k) {
    tail.returns += tail.discount * columns_[(position + k) % kept_].reward;
    tail.discount *= kDiscount;
  }
  if (terminated) {
    tail.discount = 0.0F;
  }
  stack(position, row_.data());
  stack(position + length, row_.data() + store_.stack_bytes());
  std::memcpy(row_.data() + 2 * store_.stack_bytes(), &tail, sizeof tail);
  if (priority == nullptr) {
    store_.buffer_.add(row_);
  } else {
    store_.buffer_.add(row_, *priority);
  }
}

void TextbookStore::Writer::stack(std::size_t position, std::byte* to) {
  const std::size_t frames = store_.options_.frame_stack;
  for (std::size_t f = 0; f < frames; ++f) {
    const std::size_t back = frames - 1 - f;
    const std::span<const std::uint8_t> from = frame(position - std::min(position, back));
    std::memcpy(to + f * bytes_, from.data(), bytes_);
  }
}

TextbookStore::Learner::Learner(TextbookStore& store, std::uint64_t /*seed*/) : store_(store) {
  drawn_.observation_bytes = store.options_.observation_bytes;
  drawn_.frame_stack = store.options_.frame_stack;
}

Got TextbookStore::Learner::sample(std::size_t n, Random& /*random*/) {
  if (store_.closed_.load(std::memory_order_relaxed)) {
    return Got::Closed;
  }
  const bool all = store_.options_.checks == Checks::All;
  const std::size_t stack_bytes = store_.stack_bytes();
  const std::size_t row_bytes = 2 * stack_bytes + sizeof(Tail);
  if (keys_.size() != n) {
    rows_.resize(n * row_bytes);
    weights_.resize(n);
    indices_.resize(n);
    keys_.resize(n);
    probabilities_.resize(all ? n : 0);
    drawn_.size = n;
    drawn_.keys = keys_;
    drawn_.probabilities = probabilities_;
    drawn_.weights = weights_;
    const std::byte* const tails = rows_.data() + 2 * stack_bytes;
    drawn_.now = {rows_.data(), row_bytes};
    drawn_.next = {rows_.data() + stack_bytes, row_bytes};
    drawn_.actions = {tails + offsetof(Tail, action), row_bytes};
    drawn_.returns = {tails + offsetof(Tail, returns), row_bytes};
    drawn_.discounts = {tails + offsetof(Tail, discount), row_bytes};
  }
  if (!store_.buffer_.sample(n, static_cast<double>(kBeta), rows_, weights_, indices_,
                             probabilities_)) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return Got::Nothing;
  }
  // The hash at the end of the newest observation names the item, for our own records.
  const std::size_t hash_at = stack_bytes - drawn_.observation_bytes % 8 - sizeof(std::uint64_t);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t hash = 0;
    if (all) {
      std::memcpy(&hash, &rows_[i * row_bytes + hash_at], sizeof hash);
    }
    keys_[i] = (hash >> 32U) << 32U | indices_[i];
  }
  return Got::Batch;
}

reprise::UpdateResult TextbookStore::Learner::update(std::span<const std::uint64_t> keys,
                                                     std::span<const float> priorities) {
  indices_.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    indices_[i] = static_cast<std::uint32_t>(keys[i]);
  }
  store_.buffer_.update(indices_, priorities);
  indices_.resize(keys_.size());
  return {.applied = keys.size(), .stale = 0};
}

}  // namespace stress
