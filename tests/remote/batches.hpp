#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// Returns the name of the first field or column in which two batches differ in any bit; empty if
/// they are equal. Ignores what is behind the last step of a sequence.
inline std::string difference(const ReplayBuffer& replay, const Batch& a, const Batch& b) {
  const auto differ = [](auto in_a, auto in_b) {
    return in_a.size_bytes() != in_b.size_bytes() ||
           std::memcmp(in_a.data(), in_b.data(), in_a.size_bytes()) != 0;
  };
  const auto* const sequences = std::get_if<Sequences>(&replay.options().window);
  const auto steps_differ = [&](const FieldSpec& spec, std::span<std::byte> in_a,
                                std::span<std::byte> in_b) {
    if (sequences == nullptr || spec.traits().per_item) {
      return differ(in_a, in_b);
    }
    const std::size_t step_bytes =
        spec.bytes * (spec.traits().has_next ? sequences->frame_stack : 1);
    const std::size_t item_bytes = (sequences->burn_in + sequences->length) * step_bytes;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t used = a.lengths()[i] * step_bytes;
      if (differ(in_a.subspan(i * item_bytes, used), in_b.subspan(i * item_bytes, used))) {
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
  const std::pair<const char*, bool> differing[] = {
      {"keys", differ(a.keys(), b.keys())},
      {"episode_ids", differ(a.episode_ids(), b.episode_ids())},
      {"positions", differ(a.positions(), b.positions())},
      {"discounts", differ(a.discounts(), b.discounts())},
      {"probabilities", differ(a.probabilities(), b.probabilities())},
      {"weights", differ(a.weights(), b.weights())}};
  const auto* const first =
      std::ranges::find_if(differing, [](const auto& column) { return column.second; });
  return first == std::end(differing) ? "" : first->first;
}

}  // namespace reprise::test
