#include "truth.hpp"

#include "rng.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>

namespace reprise::test {
namespace {

constexpr std::size_t kEchoes = 7;

std::uint64_t hash_of(std::uint64_t actor, std::uint64_t episode, std::uint64_t position) {
  return Rng(actor * 0x100000001b3U ^ Rng(episode ^ Rng(position).next()).next()).next();
}

}  // namespace

Truth::Truth()
    : stamp_(schema_.observation<std::uint64_t>("stamp", {4})),
      echo_(schema_.column<std::uint64_t>("echo", {kEchoes, 4})),
      reward_(schema_.reward("reward")) {}

std::uint64_t Truth::length(std::uint64_t actor, std::uint64_t episode) {
  Rng rng(hash_of(actor, episode, ~std::uint64_t{0}));
  return rng.chance(0.3) ? 1 + rng.below(4) : 1 + rng.below(90);
}

Truth::Ending Truth::ending(std::uint64_t actor, std::uint64_t episode) {
  return static_cast<Ending>(hash_of(actor, episode, ~std::uint64_t{1}) % 4);
}

Truth::Stamp Truth::stamp(std::uint64_t actor, std::uint64_t episode, std::uint64_t position) {
  return {actor, episode, position, hash_of(actor, episode, position)};
}

bool Truth::write_episode(Writer& writer, std::uint64_t actor, std::uint64_t episode) const {
  const std::uint64_t steps = length(actor, episode);
  const Ending how = ending(actor, episode);
  writer.begin_episode();
  std::ranges::copy(stamp(actor, episode, 0), writer.now(stamp_).begin());
  for (std::uint64_t t = 0; t < steps; ++t) {
    const Stamp now = stamp(actor, episode, t);
    const auto echo = writer.now(echo_);
    for (std::size_t k = 0; k < kEchoes; ++k) {
      std::ranges::copy(now, echo.subspan(4 * k, 4).begin());
    }
    writer.now(reward_) = reward(now[3]);
    std::ranges::copy(stamp(actor, episode, t + 1), writer.next(stamp_).begin());
    End end = End::Continue;
    if (t + 1 == steps && how == Ending::Terminated) {
      end = End::Terminated;
    } else if (t + 1 == steps && how == Ending::Truncated) {
      end = End::Truncated;
    }
    if (writer.commit(end) == CommitStatus::Closed) {
      return false;
    }
  }
  if (how == Ending::BegunWithin || how == Ending::WriterDestroyed) {
    // A step that is written but never committed must never be seen.
    std::ranges::fill(writer.now(echo_), std::uint64_t{0xdead});
    std::ranges::fill(writer.next(stamp_), std::uint64_t{0xdead});
  }
  return true;
}

std::string Truth::lie(const Batch& batch, std::size_t item) const {
  const auto now = batch.now(stamp_).subspan(8 * item, 8);
  const auto next = batch.next(stamp_).subspan(8 * item, 8);
  const auto echo = batch.now(echo_).subspan(4 * kEchoes * item, 4 * kEchoes);
  const std::uint64_t actor = now[4];
  const std::uint64_t episode = now[5];
  const std::uint64_t position = now[6];
  std::ostringstream words;
  words << "actor " << actor << ", episode " << episode << ", position " << position << ": ";

  const auto is = [](std::span<const std::uint64_t> row, const Stamp& expected) {
    return std::ranges::equal(row, expected);
  };
  const auto before = [](std::uint64_t t) { return t == 0 ? 0 : t - 1; };
  const std::uint64_t steps = length(actor, episode);
  const Ending how = ending(actor, episode);
  if (!is(now.subspan(4), stamp(actor, episode, position))) {
    return words.str() + "the row is torn";
  }
  if (position >= steps) {
    return words.str() + "no such step was ever committed";
  }
  if (!is(now.first(4), stamp(actor, episode, before(position)))) {
    return words.str() + "the frame before it is wrong";
  }
  for (std::size_t k = 0; k < kEchoes; ++k) {
    if (!is(echo.subspan(4 * k, 4), stamp(actor, episode, position))) {
      return words.str() + "its columns are torn";
    }
  }
  const std::uint64_t length = std::min<std::uint64_t>(kWindow.n_step, steps - position);
  if (batch.lengths()[item] != length || batch.positions()[item] != position) {
    return words.str() + "wrong length or position";
  }
  if (!is(next.subspan(4), stamp(actor, episode, position + length)) ||
      !is(next.first(4), stamp(actor, episode, before(position + length)))) {
    return words.str() + "the observation after the return is wrong";
  }
  float returns = 0.0F;
  float discount = 1.0F;
  for (std::uint64_t k = 0; k < length; ++k) {
    returns += discount * reward(stamp(actor, episode, position + k)[3]);
    discount *= kWindow.discount;
  }
  if (how == Ending::Terminated && position + length == steps) {
    discount = 0.0F;
  }
  if (std::abs(batch.returns(reward_)[item] - returns) > 0.0F) {
    return words.str() + "wrong return";
  }
  if (std::abs(batch.discounts()[item] - discount) > 0.0F) {
    return words.str() + "wrong discount";
  }
  return {};
}

std::string Truth::first_lie(const Batch& batch) const {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::string words = lie(batch, i);
    if (!words.empty()) {
      return words;
    }
  }
  return {};
}

}  // namespace reprise::test
