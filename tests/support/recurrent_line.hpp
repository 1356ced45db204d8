#pragma once

#include <reprise/reprise.hpp>

#include "rng.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace reprise::test {

/// Element k of the recurrent states that are written with a numbered step.
inline float lstm_of(std::uint64_t number, std::size_t k) {
  return static_cast<float>(Rng(number * 16 + k).next() >> 40U);
}
inline std::uint8_t gate_of(std::uint64_t number, std::size_t k) {
  return static_cast<std::uint8_t>(Rng(number * 16 + 8 + k).next());
}

/// Whether an item may begin with the step at this position, as the documentation says.
inline bool may_begin(const Sequences& window, std::uint64_t position) {
  return window.end == SequenceEnd::Overlap || position % window.period == 0;
}

/// A buffer of numbered steps: step i observes i, has the recurrent states of i, and leads to
/// i + 1.
class RecurrentLine {
 public:
  explicit RecurrentLine(const Options& options)
      : lstm(schema.recurrent_state<float>("lstm", {2, 3})),
        id(schema.observation<std::uint64_t>("id")),
        gate(schema.recurrent_state<std::uint8_t>("gate", {5})),
        action(schema.column<std::uint16_t>("action")),
        replay(schema, options) {}

  void write_states(Writer& writer, std::uint64_t number) const {
    const auto to = writer.now(lstm);
    for (std::size_t k = 0; k < to.size(); ++k) {
      to[k] = lstm_of(number, k);
    }
    const auto gates = writer.now(gate);
    for (std::size_t k = 0; k < gates.size(); ++k) {
      gates[k] = gate_of(number, k);
    }
  }

  /// Commits the step with this number; begins an episode if there is none.
  CommitStatus append(Writer& writer, std::uint64_t number, End end = End::Continue,
                      bool with_states = true) const {
    if (!writer.in_episode()) {
      writer.begin_episode();
      writer.now(id) = number;
    }
    if (with_states) {
      write_states(writer, number);
    }
    writer.now(action) = static_cast<std::uint16_t>(number);
    writer.next(id) = number + 1;
    return writer.commit(end);
  }

  void append_many(Writer& writer, std::uint64_t first, std::size_t count) const {
    for (std::uint64_t number = first; number < first + count; ++number) {
      append(writer, number);
    }
  }

  /// That item i of a batch has the states of its first step, whose number this returns.
  std::uint64_t expect_states(const Batch& batch, std::size_t i) const {
    const std::uint64_t number = batch.now(id)[i * (batch.now(id).size() / batch.size())];
    const auto states = batch.now(lstm).subspan(i * 6, 6);
    for (std::size_t k = 0; k < states.size(); ++k) {
      EXPECT_EQ(states[k], lstm_of(number, k)) << "of the item that begins with " << number;
    }
    const auto gates = batch.now(gate).subspan(i * 5, 5);
    for (std::size_t k = 0; k < gates.size(); ++k) {
      EXPECT_EQ(gates[k], gate_of(number, k)) << "of the item that begins with " << number;
    }
    return number;
  }

  Schema schema;
  RecurrentState<float> lstm;
  ScalarObservation<std::uint64_t> id;
  RecurrentState<std::uint8_t> gate;
  ScalarColumn<std::uint16_t> action;
  ReplayBuffer replay;
};

}  // namespace reprise::test
