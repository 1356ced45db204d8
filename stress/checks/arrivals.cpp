#include "checks/arrivals.hpp"

namespace stress {

Arrivals::Steps& Arrivals::steps_of(Stripe& stripe, const StepName& step) {
  const auto [at, is_new] = stripe.episodes.try_emplace(step.episode_id);
  if (is_new) {
    at->second = {step.writer, step.episode, step.position, {}, {}};
    stripe.order.push_back(step.episode_id);
  }
  return at->second;
}

void Arrivals::begin(const StepName& step) {
  Stripe& stripe = stripe_of(step.episode_id);
  const std::lock_guard lock(stripe.mutex);
  steps_of(stripe, step);
}

void Arrivals::add(const StepName& step) {
  Stripe& stripe = stripe_of(step.episode_id);
  const std::lock_guard lock(stripe.mutex);
  Steps& episode = steps_of(stripe, step);
  // Release; partner: count.
  episode.arrived.push_back(count_.fetch_add(1, std::memory_order_acq_rel) + 1);
  episode.drawn.resize(std::max(episode.drawn.size(), episode.arrived.size()));
  forget(stripe, episode.arrived.back());
}

void Arrivals::count_evicted(const Steps& episode, std::size_t i, EvictedItems& gone) const {
  const std::uint32_t position = episode.first + static_cast<std::uint32_t>(i);
  const Episode law = episodes_.episode(episode.writer, episode.number);
  if (rule_.length_at(position, law.length, law.state()) != 0) {
    ++gone.items;
    gone.never_drawn += episode.drawn[i] ? 0U : 1U;
  }
}

void Arrivals::forget(Stripe& stripe, std::uint64_t now) {
  while (true) {
    const auto front = stripe.episodes.find(stripe.order.front());
    const Steps& episode = front->second;
    if (episode.arrived.empty() || episode.arrived.back() + retention_steps_ >= now) {
      return;
    }
    for (std::size_t i = 0; i < episode.arrived.size(); ++i) {
      count_evicted(episode, i, stripe.gone);
    }
    stripe.episodes.erase(front);
    stripe.order.pop_front();
  }
}

void Arrivals::draw(CheckedItems items, std::uint64_t since) {
  Ages ages;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].correct || items[i].name.is_of_guest()) {
      continue;
    }
    const StepName& name = items[i].name;
    std::uint64_t age = retention_steps_;
    {
      Stripe& stripe = stripe_of(name.episode_id);
      const std::lock_guard lock(stripe.mutex);
      const auto at = stripe.episodes.find(name.episode_id);
      if (at != stripe.episodes.end() && name.position >= at->second.first) {
        Steps& episode = at->second;
        const std::size_t step = name.position - episode.first;
        episode.drawn.resize(std::max(episode.drawn.size(), step + 1));
        episode.drawn[step] = true;
        age = step < episode.arrived.size() ? since - std::min(since, episode.arrived[step]) : 0;
      }
    }
    if (since == 0) {
      continue;  // No step was counted before the draw, so no age is known.
    }
    ++ages.items;
    ages.too_old += age > max_age_ ? 1U : 0U;
    ages.oldest = std::max(ages.oldest, age);
  }
  const std::lock_guard lock(ages_mutex_);
  ages_.items += ages.items;
  ages_.too_old += ages.too_old;
  ages_.oldest = std::max(ages_.oldest, ages.oldest);
}

}  // namespace stress
