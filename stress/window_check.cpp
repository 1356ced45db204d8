#include "window_check.hpp"

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "row.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>

namespace stress {

std::string words_of(const Identity& id) {
  std::ostringstream words;
  words << "writer " << id.writer << ", episode " << id.episode << " (id " << id.episode_id
        << "), position " << id.position << ", round " << id.round;
  return words.str();
}

WindowCheck::WindowCheck(const World& world, const WindowRule& rule,
                         const std::atomic<bool>& cutting, Findings& findings)
    : world_(world), rule_(rule), cutting_(cutting), findings_(findings) {}

std::span<const Judged> WindowCheck::check(const Drawn& drawn) {
  judged_.resize(drawn.size);
  for (std::size_t i = 0; i < drawn.size; ++i) {
    judged_[i] = drawn.steps != 0 ? judge_sequence(drawn, i) : judge(drawn, i);
  }
  return judged_;
}

bool WindowCheck::stack_is_true(const Drawn& drawn, std::span<const std::uint8_t> stacks,
                                std::size_t item, std::size_t step, Identity& newest) {
  const std::size_t last = (step + 1) * drawn.frame_stack - 1;
  for (std::size_t back = 0; back < drawn.frame_stack; ++back) {
    const std::optional<Identity> id = recognise(drawn.frame(stacks, item, last - back));
    if (!id) {
      findings_.add(Finding::TornRow, "frame " + std::to_string(last - back) + " of item " +
                                          std::to_string(item) + ", key " +
                                          std::to_string(drawn.keys[item]));
      return false;
    }
    if (back == 0) {
      newest = *id;
      continue;
    }
    Identity expected = newest;
    expected.position -= std::min(expected.position, static_cast<std::uint32_t>(back));
    if (*id != expected) {
      findings_.add(Finding::WrongWindow, "frame " + std::to_string(last - back) +
                                              " of the stack of " + words_of(newest) + " is " +
                                              words_of(*id));
      return false;
    }
  }
  return true;
}

Judged WindowCheck::judge(const Drawn& drawn, std::size_t item) {
  Judged judged;
  Identity next;
  judged.legible = stack_is_true(drawn, drawn.now, item, 0, judged.id) &&
                   stack_is_true(drawn, drawn.next, item, 0, next);
  if (!judged.legible) {
    return judged;
  }
  judged.episode = world_.episode(judged.id.writer, judged.id.episode);
  judged.hash = judged.id.hash();
  cut_short(judged, next.position - judged.id.position);
  const std::string words = lie(drawn, item, judged, next);
  if (!words.empty()) {
    findings_.add(Finding::WrongWindow, words_of(judged.id) + ": " + words);
    judged.legible = false;
  }
  return judged;
}

void WindowCheck::cut_short(Judged& judged, std::uint32_t length) const {
  const std::uint32_t end = judged.id.position + length;
  // Acquire; partner: the conductor's store, by way of the writer that cut its episode short.
  if (length > 0 && length < rule_.reach() && end < judged.episode.length &&
      cutting_.load(std::memory_order_acquire)) {
    judged.episode.length = end;
    judged.episode.ending = Ending::BegunAnew;
  }
}

std::string WindowCheck::lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                             const Identity& next) const {
  const Identity& id = judged.id;
  if (id.round != world_.round()) {
    return "it was written to another buffer";
  }
  if (id.position >= judged.episode.length) {
    return "no such step was committed; the episode has " + std::to_string(judged.episode.length);
  }
  const std::uint32_t length = rule_.length_at(id.position, judged.episode);
  Identity expected = id;
  expected.position += length;
  if (next != expected) {
    return "the next observation is " + words_of(next) + ", expected position " +
           std::to_string(expected.position);
  }
  std::string words = names_lie(drawn, item, judged, length);
  return words.empty() ? numbers_lie(drawn, item, judged, length) : words;
}

std::string WindowCheck::names_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                   std::uint32_t length) const {
  const Identity& id = judged.id;
  if (drawn.positions[item] != id.position) {
    return "the batch says position " + std::to_string(drawn.positions[item]);
  }
  if (drawn.episode_ids[item] != id.episode_id) {
    return "the batch says episode id " + std::to_string(drawn.episode_ids[item]);
  }
  if (drawn.lengths[item] != length) {
    return "the batch says length " + std::to_string(drawn.lengths[item]) + ", expected " +
           std::to_string(length);
  }
  return {};
}

std::string WindowCheck::numbers_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                     std::uint32_t length) const {
  const Identity& id = judged.id;
  if (drawn.actions[item] != World::columns(id.writer, id.episode, id.position).action) {
    return "the action is another step's";
  }
  const bool ends =
      judged.episode.ending == Ending::Terminated && id.position + length == judged.episode.length;
  return target_lies(drawn, item, id, length, ends, kDiscount);
}

std::string WindowCheck::target_lies(const Drawn& drawn, std::size_t place, const Identity& first,
                                     std::uint32_t steps, bool ends, float gamma) {
  double returns = 0.0;
  double discount = 1.0;
  double magnitude = 0.0;
  for (std::uint32_t k = 0; k < steps; ++k) {
    const StepColumns step = World::columns(first.writer, first.episode, first.position + k);
    returns += discount * static_cast<double>(step.reward);
    magnitude += std::abs(static_cast<double>(step.reward));
    discount *= static_cast<double>(gamma);
  }
  // Sums of floats may be rounded differently; a wrong reward differs by 1/8 at least.
  const double difference = std::abs(static_cast<double>(drawn.returns[place]) - returns);
  if (!(difference <= 1e-6 * (1.0 + magnitude))) {
    return "the return is " + std::to_string(drawn.returns[place]) + ", expected " +
           std::to_string(returns);
  }
  discount = ends ? 0.0 : discount;
  if (!(std::abs(static_cast<double>(drawn.discounts[place]) - discount) <= 1e-6)) {
    return "the discount is " + std::to_string(drawn.discounts[place]) + ", expected " +
           std::to_string(discount);
  }
  return {};
}

}  // namespace stress
