// The part of WindowCheck that judges sequences.

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "row.hpp"
#include "window_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace stress {

std::optional<Identity> WindowCheck::step_at(const Drawn& drawn,
                                             std::span<const std::uint8_t> observations,
                                             std::size_t item, std::size_t step) {
  const std::optional<Identity> id = recognise(drawn.frame(observations, item, step));
  if (!id) {
    findings_.add(Finding::TornRow, "step " + std::to_string(step) + " of item " +
                                        std::to_string(item) + ", key " +
                                        std::to_string(drawn.keys[item]));
  }
  return id;
}

Judged WindowCheck::judge_sequence(const Drawn& drawn, std::size_t item) {
  Judged judged;
  const std::uint32_t length = drawn.lengths[item];
  if (length == 0 || length > drawn.steps) {
    findings_.add(Finding::WrongWindow, "a sequence of " + std::to_string(length) + " steps");
    return judged;
  }
  std::string words;
  for (std::uint32_t k = 0; k < length; ++k) {
    const std::optional<Identity> now = step_at(drawn, drawn.now, item, k);
    const std::optional<Identity> next = step_at(drawn, drawn.next, item, k);
    if (!now || !next) {
      return judged;
    }
    judged.id = k == 0 ? *now : judged.id;
    Identity expected = judged.id;
    expected.position += k;
    Identity after = expected;
    ++after.position;
    if (words.empty() && (*now != expected || *next != after)) {
      words = "step " + std::to_string(k) + " is " + words_of(*now) + ", the next one " +
              words_of(*next);
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
  for (std::size_t k = length; k < drawn.steps; ++k) {
    const auto zero = [](std::span<const std::uint8_t> bytes) {
      return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
    };
    const std::size_t place = item * drawn.steps + k;
    if (!zero(drawn.frame(drawn.now, item, k)) || !zero(drawn.frame(drawn.next, item, k)) ||
        drawn.actions[place] != 0 || drawn.rewards[place] != 0.0F) {
      return "there is something beyond its last step";
    }
  }
  const bool terminated =
      judged.episode.ending == Ending::Terminated && id.position + length == judged.episode.length;
  return drawn.discounts[item] == (terminated ? 0.0F : 1.0F)
             ? std::string()
             : "the discount is " + std::to_string(drawn.discounts[item]);
}

}  // namespace stress
