#pragma once

#include <reprise/batch.hpp>

#include "episodes.hpp"
#include "step_name.hpp"
#include "testing/library.hpp"
#include "window_rule.hpp"
#include "world.hpp"

namespace reprise::test {

/// An item of a batch, as its rows show it.
struct CheckedItem {
  bool correct = false;  ///< Whether the item is right. If not, the other members have no meaning.
  StepName name;         ///< Name of the item's first step.
  /// The episode of the item's first step; for an item of a stream, that of its last step.
  Episode episode;
  std::uint64_t hash = 0;  ///< Hash of the name.
  bool of_stream = false;
};

/// Checks items by the rules of `Episodes`: where items begin, and what rows contain. Thread-safe.
class ItemCheck {
 public:
  ItemCheck(const World& world, const Episodes& episodes, const WindowRule& rule)
      : world_(world), episodes_(episodes), rule_(rule) {}

  /// Describes what is wrong with the item; empty if the item is right. With `cut_off`, its episode
  /// may have been truncated early.
  [[nodiscard]] std::string mismatch(const Batch& batch, std::size_t item, CheckedItem& checked,
                                     bool cut_off = false) const {
    const std::optional<StepName> name = world_.name_in(batch, item);
    checked.correct = false;
    if (!name) {
      return "its first row is torn";
    }
    const std::uint32_t length = batch.lengths()[item];
    checked.name = *name;
    checked.hash = name->hash();
    if (rule_.streams()) {
      const std::string words = mismatch_of_stream(batch, item, checked);
      checked.correct = words.empty();
      return words.empty() ? words : name->words() + ": " + words;
    }
    checked.episode = episodes_.episode(name->writer, name->episode);
    const std::uint32_t end = name->position + length;
    if (cut_off && length != 0 && length < rule_.full_length() && end < checked.episode.length) {
      checked.episode.length = end;
      checked.episode.ending = Ending::Restarted;
    }
    const Episode& episode = checked.episode;
    std::string words;
    if (name->round != episodes_.round()) {
      words = "it was written to another buffer";
    } else if (name->position >= episode.length) {
      words = "no such step was committed; the episode has " + std::to_string(episode.length);
    } else if (const auto expected =
                   rule_.length_at(name->position, episode.length, episode.state());
               length != expected || length == 0) {
      words = "the batch says length " + std::to_string(length) + ", expected " +
              std::to_string(expected) + " in an episode of " + std::to_string(episode.length);
    } else {
      words =
          world_.mismatch(batch, item, rule_.window(), episode.terminates(name->position, length));
      checked.correct = words.empty();
      return words;
    }
    return name->words() + ": " + words;
  }

 private:
  /// Describes what is wrong with an item of a stream whose period is 1; empty if it is right. The
  /// check knows how an episode ended only if a commit ended it.
  [[nodiscard]] std::string mismatch_of_stream(const Batch& batch, std::size_t item,
                                               CheckedItem& checked) const {
    checked.of_stream = true;
    std::vector<StreamStep> steps;
    for (const std::optional<StepName>& name : world_.names_in(batch, item)) {
      if (!name) {
        return "one of its rows is torn";
      }
      checked.episode = episodes_.episode(name->writer, name->episode);
      if (name->round != episodes_.round() || name->position >= checked.episode.length) {
        return "no such step was committed here: " + name->words();
      }
      if (!steps.empty()) {
        const StepName& last = steps.back().name;
        const bool ended = last.position + 1 == episodes_.episode(last.writer, last.episode).length;
        StepName next = ended ? *name : last.after(1);
        next.writer = last.writer;
        next.episode = last.episode + (ended ? 1 : 0);
        next.position = ended ? 0 : next.position;
        if (*name != next) {
          return "after " + last.words() + " comes " + name->words();
        }
      }
      steps.push_back({*name, checked.episode.end_of(name->position + 1)});
    }
    return world_.mismatch(batch, item, rule_.window(), steps);
  }

  const World& world_;
  const Episodes& episodes_;
  const WindowRule& rule_;
};

}  // namespace reprise::test
