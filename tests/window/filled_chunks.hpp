#pragma once

#include "testing/test.hpp"

#include <compare>

namespace reprise::window {

/// Enumerates all states that writers can reach, and so all ways to fill a chunk. It has its own
/// statement of the rules for writing rows: an episode of T steps takes T + 1 rows; an item is open
/// until its n steps are committed or its episode ends; when a chunk fills in the middle of an
/// episode, frame stack, open items and current row go to the next chunk.
class FilledChunks {
 public:
  FilledChunks(std::uint32_t n_step, std::uint32_t frame_stack, std::uint32_t rows)
      : n_step_(n_step), behind_(frame_stack - 1), rows_(rows) {
    handed_over_.insert(Place{});  // An unused chunk is like one that was left open at row 0.
    explore_between_episodes({});
    while (!todo_.empty()) {
      const State state = todo_.back();
      todo_.pop_back();
      step(state);
    }
  }

  /// The fewest items in a filled chunk, of chunks that have items and took over at most one
  /// episode.
  [[nodiscard]] std::uint32_t fewest_items() const { return fewest_; }

  /// The fewest rows in a filled chunk with items that items or stacks account for: two for each
  /// item, and the frame stacks of all episodes taken over but one.
  [[nodiscard]] std::uint32_t fewest_rows_explained() const { return fewest_rows_; }

 private:
  /// A state between episodes: the first free row, and the contents of the rows before it.
  struct Place {
    std::uint32_t row = 0;
    std::uint32_t items = 0;
    /// Number of episodes that were open when they moved to this chunk.
    std::uint32_t taken_over = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  /// A state within an episode.
  struct State {
    Place start;         ///< The state before this episode began in this chunk.
    std::uint32_t row;   ///< The current row.
    std::uint32_t open;  ///< Number of committed steps that are not items yet.
    /// Number of steps before the open ones that a frame stack still needs.
    std::uint32_t history;
    std::uint32_t items;
    std::uint32_t taken_over;
    friend auto operator<=>(const State&, const State&) = default;
  };
  /// An episode that moves on to another chunk.
  struct NextChunk {
    std::uint32_t open;
    std::uint32_t history;
    friend auto operator<=>(const NextChunk&, const NextChunk&) = default;
  };

  void reach(const State& state) {
    if (seen_.insert(state).second) {
      todo_.push_back(state);
    }
  }
  /// Notes a filled chunk.
  void close(std::uint32_t items, std::uint32_t taken_over) {
    if (items == 0) {
      return;
    }
    if (taken_over <= 1) {
      fewest_ = std::min(fewest_, items);
    }
    const std::uint32_t more = taken_over <= 1 ? 0 : taken_over - 1;
    fewest_rows_ = std::min(fewest_rows_, 2 * items + more * behind_);
  }
  /// The writer begins an episode, or leaves the chunk to others.
  void explore_between_episodes(Place place) {
    if (rows_ - place.row < 2) {
      close(place.items, place.taken_over);
      return;
    }
    reach({.start = place,
           .row = place.row,
           .open = 0,
           .history = 0,
           .items = place.items,
           .taken_over = place.taken_over});
    if (rows_ - place.row < behind_ + n_step_ + 1) {
      close(place.items, place.taken_over);
    } else if (handed_over_.insert(place).second) {
      for (const NextChunk& next_chunk : next_chunks_) {
        arrive(next_chunk, place);
      }
    }
  }
  /// An episode moves on into the chunk of `place`.
  void arrive(const NextChunk& next_chunk, Place place) {
    reach({.start = place,
           .row = place.row + next_chunk.history + next_chunk.open,
           .open = next_chunk.open,
           .history = next_chunk.history,
           .items = place.items,
           .taken_over = place.taken_over + 1});
  }
  /// Reaches the states that can follow.
  void step(const State& state) {
    // Case 1: the episode ends with this step, so this item and all open ones are decided.
    explore_between_episodes({state.row + 2, state.items + state.open + 1, state.taken_over});
    // Case 2: the episode is truncated before this step. The step's row becomes the episode's last
    // row, or is free if no item needs it.
    if (state.open != 0 || state.items > state.start.items) {
      explore_between_episodes({state.row + 1, state.items + state.open, state.taken_over});
    } else {
      explore_between_episodes(state.start);
    }
    // Case 3: the episode goes on.
    State next = state;
    ++next.row;
    if (state.open + 1 < n_step_) {
      ++next.open;
    } else {
      ++next.items;
      next.history = std::min(behind_, state.history + 1);
    }
    if (next.row + 1 < rows_) {
      reach(next);
      return;
    }
    close(next.items, next.taken_over);
    const NextChunk next_chunk{next.open, next.history};
    if (next_chunks_.insert(next_chunk).second) {
      for (const Place& place : handed_over_) {
        arrive(next_chunk, place);
      }
    }
  }

  const std::uint32_t n_step_;
  const std::uint32_t behind_;
  const std::uint32_t rows_;
  std::uint32_t fewest_ = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t fewest_rows_ = std::numeric_limits<std::uint32_t>::max();
  std::set<Place> handed_over_;
  std::set<NextChunk> next_chunks_;
  std::set<State> seen_;
  std::vector<State> todo_;
};

}  // namespace reprise::window
