#pragma once

#include <reprise/reprise.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

namespace reprise::test {

/// Returns the first part in which two batches differ by a bit; empty if there is none. Rows after
/// the last step of a sequence do not count.
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
  const bool differs[] = {
      differ(a.keys(), b.keys()),           differ(a.episode_ids(), b.episode_ids()),
      differ(a.positions(), b.positions()), differ(a.lengths(), b.lengths()),
      differ(a.discounts(), b.discounts()), differ(a.probabilities(), b.probabilities()),
      differ(a.weights(), b.weights())};
  constexpr const char* kNames[] = {"keys",      "episode_ids",   "positions",
                                    "discounts", "probabilities", "weights"};
  const auto* const found = std::find(std::begin(differs), std::end(differs), true);
  return found == std::end(differs) ? "" : kNames[found - std::begin(differs)];
}

}  // namespace reprise::test
