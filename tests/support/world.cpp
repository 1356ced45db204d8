#include "world.hpp"

#include "rng.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <tuple>
#include <variant>

namespace reprise::test {
namespace {

/// Positions of the steps that one value of an item shows; none: zero bytes.
using Shown = std::vector<std::optional<std::uint64_t>>;

Shown stack_at(const Transitions& window, std::uint64_t position) {
  Shown shown;
  for (std::uint64_t back = window.frame_stack; back-- > 0;) {
    if (back <= position) {
      shown.emplace_back(position - back);
    } else {
      shown.push_back(window.stack_start == StackStart::RepeatFirst
                          ? std::optional<std::uint64_t>(0)
                          : std::nullopt);
    }
  }
  return shown;
}

Shown steps_from(const Sequences& window, std::uint64_t first, std::uint32_t length) {
  Shown shown;
  for (std::uint32_t k = 0; k < length; ++k) {
    shown.emplace_back(first + k);
  }
  shown.resize(window.burn_in + window.length);
  return shown;
}

bool differs(float value, double expected, double scale) {
  return !(std::abs(static_cast<double>(value) - expected) <= 1e-6 * scale + 1e-30);
}

}  // namespace

World::World(bool with_discount, bool with_states, bool compressed) {
  const auto add = [this](std::string_view name, Role role, DType dtype,
                          std::initializer_list<std::size_t> shape = {}) {
    fields_.push_back(schema_.declare(name, role, dtype, std::span(shape.begin(), shape.size())));
  };
  add("pixels", Role::Observation, DType::U8, {3, 7});
  add("action", Role::Column, DType::I16);
  add("clock", Role::Observation, DType::F64);
  add("reward", Role::Reward, DType::F32);
  add("large", Role::Observation, DType::U32, {40});
  add("pair", Role::Column, DType::I64, {2});
  add("second reward", Role::Reward, DType::F32);
  if (with_discount) {
    add("discount", Role::Discount, DType::F32);
  }
  if (with_states) {
    add("lstm", Role::RecurrentState, DType::F32, {2, 3});
    add("gate", Role::RecurrentState, DType::U8, {5});
  }
  if (compressed) {
    for (const auto& [name, dtype, bytes] :
         {std::tuple("frame", DType::U8, 600), std::tuple("depth", DType::U16, 259)}) {
      add(name, Role::Observation, dtype, {static_cast<std::size_t>(bytes)});
      schema_.compress(fields_.back());
    }
  }
}

std::vector<std::byte> World::content(std::size_t field, std::uint64_t episode,
                                      std::uint64_t position) const {
  const FieldSpec& spec = schema_.fields()[field];
  const std::uint64_t hash = Rng(Rng(episode).next() ^ (position << 8U | field)).next();
  std::vector<std::byte> bytes(spec.bytes);
  if (spec.role == Role::Reward || spec.role == Role::Discount) {
    constexpr std::array<float, 4> kDiscounts{0.0F, 0.5F, 0.97F, 1.0F};
    const float value = spec.role == Role::Discount ? kDiscounts[hash % kDiscounts.size()]
                                                    : static_cast<float>(hash % 8) - 3.0F;
    std::memcpy(bytes.data(), &value, sizeof(value));
    return bytes;
  }
  if (schema_.compresses(field) && hash % 4 == 0) {
    // Nothing can be saved here; the others repeat after 256 bytes.
    Rng noise(hash);
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(noise.next()); });
    return bytes;
  }
  for (std::size_t b = 0; b < bytes.size(); ++b) {
    bytes[b] = static_cast<std::byte>(hash >> (b % 8 * 8) ^ b);
  }
  return bytes;
}

double World::number(std::size_t field, std::uint64_t episode, std::uint64_t position) const {
  float value = 0.0F;
  std::memcpy(&value, content(field, episode, position).data(), sizeof(value));
  return static_cast<double>(value);
}

void World::fill(std::span<std::byte> to, std::size_t field, const Writer& writer,
                 std::uint64_t position) const {
  std::ranges::copy(content(field, writer.episode_id(), position), to.begin());
}

void World::begin(Writer& writer) const {
  writer.begin_episode();
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (fields_[f].role() == Role::Observation) {
      fill(writer.now(fields_[f]), f, writer, 0);
    }
  }
}

void World::write_step(Writer& writer) const {
  const std::uint64_t position = writer.episode_steps();
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (fields_[f].role() == Role::Observation) {
      fill(writer.next(fields_[f]), f, writer, position + 1);
    } else if (fields_[f].role() != Role::RecurrentState) {
      fill(writer.now(fields_[f]), f, writer, position);
    }
  }
}

void World::write_states(Writer& writer) const {
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (fields_[f].role() == Role::RecurrentState) {
      fill(writer.now(fields_[f]), f, writer, writer.episode_steps());
    }
  }
}

std::string World::lie(const Batch& batch, std::size_t item, const Window& window,
                       bool terminated) const {
  const std::uint64_t episode = batch.episode_ids()[item];
  const std::uint64_t position = batch.positions()[item];
  const std::uint32_t length = batch.lengths()[item];
  const auto* const transitions = std::get_if<Transitions>(&window);
  const auto* const sequences = std::get_if<Sequences>(&window);
  const Shown now = transitions != nullptr ? stack_at(*transitions, position)
                                           : steps_from(*sequences, position, length);
  const Shown next = transitions != nullptr ? stack_at(*transitions, position + length)
                                            : steps_from(*sequences, position + 1, length);
  std::ostringstream words;
  words << "episode " << episode << ", position " << position << ", length " << length << ": ";
  const auto shows_in = [&](std::span<const std::byte> values, std::size_t f, const Shown& shown) {
    const std::size_t bytes = schema_.fields()[f].bytes;
    for (std::size_t k = 0; k < shown.size(); ++k) {
      const std::vector<std::byte> expected =
          shown[k] ? content(f, episode, *shown[k]) : std::vector<std::byte>(bytes);
      if (!std::ranges::equal(values.subspan(k * bytes, bytes), expected)) {
        words << "'" << schema_.fields()[f].name << "' is wrong at " << k;
        return false;
      }
    }
    return true;
  };
  const auto shows = [&](std::span<const std::byte> column, std::size_t f, const Shown& shown) {
    return shows_in(column.subspan(item * (column.size() / batch.size())), f, shown);
  };
  // Of the n-step return: the discount before each of its steps.
  std::vector<double> before{1.0};
  for (std::uint32_t k = 0; transitions != nullptr && k < length; ++k) {
    double factor = static_cast<double>(transitions->discount);
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      factor *= fields_[f].role() == Role::Discount ? number(f, episode, position + k) : 1.0;
    }
    before.push_back(before.back() * factor);
  }
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const Role role = fields_[f].role();
    const bool whole =
        role == Role::Observation || (sequences != nullptr && role != Role::RecurrentState);
    if (role == Role::Observation && (!shows_in(batch.now_stacks(fields_[f])[item], f, now) ||
                                      !shows_in(batch.next_stacks(fields_[f])[item], f, next))) {
      return words.str();
    }
    if (role == Role::Observation && batch.unique_frames()) {
      Shown frames = now;
      for (std::uint32_t k = 1; k <= transitions->n_step; ++k) {
        frames.emplace_back(position + std::min(k, length));
      }
      if (!shows(batch.frames(fields_[f]), f, frames)) {
        return words.str();
      }
    } else if (!shows(batch.now(fields_[f]), f, whole ? now : Shown{position}) ||
               (role == Role::Observation && !shows(batch.next(fields_[f]), f, next))) {
      return words.str();
    }
    if (role == Role::Reward && transitions != nullptr) {
      double returns = 0.0;
      double scale = 0.0;
      for (std::uint32_t k = 0; k < length; ++k) {
        const double term = before[k] * number(f, episode, position + k);
        returns += term;
        scale += std::abs(term);
      }
      float value = 0.0F;
      std::memcpy(&value, &batch.returns(fields_[f])[item * sizeof(value)], sizeof(value));
      if (differs(value, returns, scale)) {
        words << "return " << value << " for " << returns;
        return words.str();
      }
    }
  }
  // At a discount of 0, as after a termination, nothing but 0 will do.
  const double discount = terminated ? 0.0 : before.back();
  if (differs(batch.discounts()[item], discount, discount)) {
    words << "discount " << batch.discounts()[item] << " for " << discount;
    return words.str();
  }
  return {};
}

}  // namespace reprise::test
