#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// Returns the name of the first part in which two batches differ in any bit; empty if there is
/// none. Ignores rows after the last step of a sequence.
inline std::string difference(const ReplayBuffer& replay, const Batch& a, const Batch& b) {
  const auto differ = [](auto one, auto other) {
    return one.size_bytes() != other.size_bytes() ||
           std::memcmp(one.data(), other.data(), one.size_bytes()) != 0;
  };
  const auto* const sequences = std::get_if<Sequences>(&replay.options().window);
  const auto steps_differ = [&](const FieldSpec& spec, std::span<std::byte> one,
                                std::span<std::byte> other) {
    if (sequences == nullptr || spec.traits().per_item) {
      return differ(one, other);
    }
    const std::size_t step = spec.bytes * (spec.traits().has_next ? sequences->frame_stack : 1);
    const std::size_t item = (sequences->burn_in + sequences->length) * step;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t used = a.lengths()[i] * step;
      if (differ(one.subspan(i * item, used), other.subspan(i * item, used))) {
        return true;
      }
    }
    return false;
  };
  if (a.size() != b.size() || differ(a.lengths(), b.lengths())) {
    return "lengths";
  }
  for (const FieldSpec& spec : replay.schema().fields()) {
    const AnyField field = *replay.schema().find(spec.name);
    if (steps_differ(spec, a.now(field), b.now(field))) {
      return spec.name;
    }
    if (spec.traits().has_next && steps_differ(spec, a.next(field), b.next(field))) {
      return "next " + spec.name;
    }
  }
  const std::pair<const char*, bool> columns[] = {
      {"keys", differ(a.keys(), b.keys())},
      {"episode_ids", differ(a.episode_ids(), b.episode_ids())},
      {"positions", differ(a.positions(), b.positions())},
      {"discounts", differ(a.discounts(), b.discounts())},
      {"probabilities", differ(a.probabilities(), b.probabilities())},
      {"weights", differ(a.weights(), b.weights())}};
  const auto* const found = std::ranges::find_if(columns, [](auto one) { return one.second; });
  return found == std::end(columns) ? "" : found->first;
}

}  // namespace reprise::test
