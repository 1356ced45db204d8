#include "world.hpp"

#include "testing/fixtures/rng.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

namespace reprise::test {
namespace {

/// Positions of the steps that one value of an item shows; none: zero bytes.
using Shown = std::vector<std::optional<std::uint64_t>>;

Shown stack_at(const Window& window, std::uint64_t position) {
  const auto [frame_stack, start] = std::visit(
      [](const auto& kind) { return std::pair(kind.frame_stack, kind.stack_start); }, window);
  Shown shown;
  for (std::uint64_t back = frame_stack; back-- > 0;) {
    if (back <= position) {
      shown.emplace_back(position - back);
    } else {
      shown.push_back(start == StackStart::RepeatFirst ? std::optional<std::uint64_t>(0)
                                                       : std::nullopt);
    }
  }
  return shown;
}

Shown steps_from(std::uint64_t first, std::uint32_t length) {
  Shown shown;
  for (std::uint32_t k = 0; k < length; ++k) {
    shown.emplace_back(first + k);
  }
  return shown;
}

bool differs(float value, double expected, double scale) {
  return !(std::abs(static_cast<double>(value) - expected) <= 1e-6 * scale + 1e-30);
}

}  // namespace

World::World(bool with_discount, bool with_states, bool compressed, bool with_mutable) {
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
  if (with_mutable) {
    add("latent", Role::MutableColumn, DType::F32, {5});
    add("mark", Role::MutableColumn, DType::U8);
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
  std::uint64_t hash = Rng(Rng(episode).next() ^ (position << 8U | field)).next();
  if (const auto change = changes_.find({field, episode, position}); change != changes_.end()) {
    hash ^= change->second;
  }
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

std::vector<std::byte> World::change(std::size_t field, std::uint64_t episode,
                                     std::uint64_t position, std::uint64_t change) {
  changes_[{field, episode, position}] = change;
  return content(field, episode, position);
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
  // Steps that the item has and would have if it were whole, and where the stacks of `next` end.
  const std::uint32_t steps = transitions != nullptr ? 1 : length;
  const std::uint32_t whole = transitions != nullptr ? 1 : sequences->burn_in + sequences->length;
  const std::uint32_t ahead = transitions != nullptr ? length : 1;
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
  Shown now;
  Shown next;
  for (std::uint32_t k = 0; k < steps; ++k) {
    std::ranges::copy(stack_at(window, position + k), std::back_inserter(now));
    std::ranges::copy(stack_at(window, position + k + ahead), std::back_inserter(next));
  }
  const std::size_t stack = stack_at(window, 0).size();
  now.resize(whole * stack);
  next.resize(whole * stack);
  Shown columns = steps_from(position, steps);
  columns.resize(whole);
  // Each frame once: those of the first stack, and the observation after each step.
  Shown frames = stack_at(window, position);
  if (transitions != nullptr) {
    for (std::uint32_t k = 1; k <= transitions->n_step; ++k) {
      frames.emplace_back(position + std::min(k, length));
    }
  } else {
    std::ranges::copy(steps_from(position + 1, length), std::back_inserter(frames));
    frames.resize(whole + stack);
  }
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const Role role = fields_[f].role();
    for (std::uint32_t k = 0; k < steps && role == Role::Observation; ++k) {
      if (!shows_in(batch.now_stacks(fields_[f]).at(item, k), f, stack_at(window, position + k)) ||
          !shows_in(batch.next_stacks(fields_[f]).at(item, k), f,
                    stack_at(window, position + k + ahead))) {
        return words.str() + " of step " + std::to_string(k);
      }
    }
    if (role != Role::Observation) {
      if (!shows(batch.now(fields_[f]), f,
                 role == Role::RecurrentState ? steps_from(position, 1) : columns)) {
        return words.str();
      }
    } else if (batch.unique_frames() ? !shows(batch.frames(fields_[f]), f, frames)
                                     : !shows(batch.now(fields_[f]), f, now) ||
                                           !shows(batch.next(fields_[f]), f, next)) {
      return words.str();
    }
  }
  const std::string lie = target_lie(batch, item, window, terminated);
  return lie.empty() ? lie : words.str() + lie;
}

std::string World::target_lie(const Batch& batch, std::size_t item, const Window& window,
                              bool terminated) const {
  const std::uint64_t episode = batch.episode_ids()[item];
  const std::uint32_t length = batch.lengths()[item];
  const auto* const sequences = std::get_if<Sequences>(&window);
  const auto [n_step, gamma] = std::visit(
      [](const auto& kind) { return std::pair(kind.n_step, static_cast<double>(kind.discount)); },
      window);
  const std::size_t targets =
      sequences != nullptr && n_step != 0 ? sequences->burn_in + sequences->length : 1;
  std::ostringstream words;
  for (std::uint32_t t = 0; t < targets; ++t) {
    const std::uint64_t position = batch.positions()[item] + t;
    const std::uint32_t steps = std::min(n_step, length - std::min(t, length));
    // The discount before each step.
    std::vector<double> before{1.0};
    for (std::uint32_t k = 0; k < steps; ++k) {
      double factor = gamma;
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        factor *= fields_[f].role() == Role::Discount ? number(f, episode, position + k) : 1.0;
      }
      before.push_back(before.back() * factor);
    }
    for (std::size_t f = 0; f < fields_.size() && n_step != 0; ++f) {
      double returns = 0.0;
      double scale = 0.0;
      for (std::uint32_t k = 0; k < steps && fields_[f].role() == Role::Reward; ++k) {
        const double term = before[k] * number(f, episode, position + k);
        returns += term;
        scale += std::abs(term);
      }
      float value = 0.0F;
      if (fields_[f].role() == Role::Reward) {
        const std::span<const std::byte> column = batch.returns(fields_[f]);
        std::memcpy(&value, &column[(item * targets + t) * sizeof(value)], sizeof(value));
      }
      if (differs(value, returns, scale)) {
        words << "return " << value << " of step " << t << " for " << returns;
        return words.str();
      }
    }
    // At a discount of 0, as after a termination, nothing but 0 will do.
    const bool last = n_step == 0 || t + steps >= length;
    const double discount = t >= length || (terminated && last) ? 0.0 : before.back();
    const float value = batch.discounts()[item * targets + t];
    if (differs(value, discount, discount)) {
      words << "discount " << value << " of step " << t << " for " << discount;
      return words.str();
    }
  }
  return {};
}

}  // namespace reprise::test
