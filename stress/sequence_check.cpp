// The part of WindowCheck that judges sequences.

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "row.hpp"
#include "window_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace stress {

Judged WindowCheck::judge_sequence(const Drawn& drawn, std::size_t item) {
  Judged judged;
  const std::uint32_t length = drawn.lengths[item];
  if (length == 0 || length > drawn.steps) {
    findings_.add(Finding::WrongWindow, "a sequence of " + std::to_string(length) + " steps");
    return judged;
  }
  std::string words;
  for (std::uint32_t k = 0; k < length; ++k) {
    Identity now;
    Identity next;
    if (!stack_is_true(drawn, drawn.now, item, k, now) ||
        !stack_is_true(drawn, drawn.next, item, k, next)) {
      return judged;
    }
    judged.id = k == 0 ? now : judged.id;
    Identity expected = judged.id;
    expected.position += k;
    Identity after = expected;
    ++after.position;
    if (words.empty() && (now != expected || next != after)) {
      words =
          "step " + std::to_string(k) + " is " + words_of(now) + ", the next one " + words_of(next);
    }
  }
  judged.legible = true;
  judged.episode = world_.episode(judged.id.writer, judged.id.episode);
  judged.hash = judged.id.hash();
  cut_short(judged, length);
  if (words.empty()) {
    words = sequence_lies(drawn, item, judged, length);
  }
  if (!words.empty()) {
    findings_.add(Finding::WrongWindow, words_of(judged.id) + ": " + words);
    judged.legible = false;
  }
  return judged;
}

std::string WindowCheck::sequence_lies(const Drawn& drawn, std::size_t item, const Judged& judged,
                                       std::uint32_t length) const {
  const Identity& id = judged.id;
  if (id.round != world_.round()) {
    return "it was written to another buffer";
  }
  if (id.position >= judged.episode.length) {
    return "no such step was committed; the episode has " + std::to_string(judged.episode.length);
  }
  const std::uint32_t expected = rule_.length_at(id.position, judged.episode);
  if (expected == 0) {
    return "no item begins there, in an episode of " + std::to_string(judged.episode.length);
  }
  std::string words = names_lie(drawn, item, judged, expected);
  if (!words.empty()) {
    return words;
  }
  for (std::uint32_t k = 0; k < length; ++k) {
    const StepColumns step = World::columns(id.writer, id.episode, id.position + k);
    const std::size_t place = item * drawn.steps + k;
    if (drawn.actions[place] != step.action || drawn.rewards[place] != step.reward) {
      return "the action or reward of step " + std::to_string(k) + " is another step's";
    }
  }
  const auto zero = [](std::span<const std::uint8_t> bytes) {
    return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
  };
  for (std::size_t f = length * drawn.frame_stack; f < drawn.steps * drawn.frame_stack; ++f) {
    const std::size_t place = item * drawn.steps + f / drawn.frame_stack;
    if (!zero(drawn.frame(drawn.now, item, f)) || !zero(drawn.frame(drawn.next, item, f)) ||
        drawn.actions[place] != 0 || drawn.rewards[place] != 0.0F) {
      return "there is something beyond its last step";
    }
  }
  return targets_lie(drawn, item, judged, length);
}

std::string WindowCheck::targets_lie(const Drawn& drawn, std::size_t item, const Judged& judged,
                                     std::uint32_t length) const {
  const Identity& id = judged.id;
  const bool terminated =
      judged.episode.ending == Ending::Terminated && id.position + length == judged.episode.length;
  if (drawn.n_step == 0) {
    return drawn.discounts[item] == (terminated ? 0.0F : 1.0F)
               ? std::string()
               : "the discount is " + std::to_string(drawn.discounts[item]);
  }
  for (std::uint32_t t = 0; t < drawn.steps; ++t) {
    const std::size_t place = item * drawn.steps + t;
    if (t >= length && (drawn.returns[place] != 0.0F || drawn.discounts[place] != 0.0F)) {
      return "there is a target beyond its last step";
    }
    Identity first = id;
    first.position += t;
    const auto steps = static_cast<std::uint32_t>(
        std::min<std::size_t>(drawn.n_step, length - std::min(t, length)));
    const std::string words =
        t >= length ? std::string()
                    : target_lies(drawn, place, first, steps, terminated && t + steps == length,
                                  rule_.sequences()->discount);
    if (!words.empty()) {
      return "of step " + std::to_string(t) + ": " + words;
    }
  }
  return {};
}

}  // namespace stress
