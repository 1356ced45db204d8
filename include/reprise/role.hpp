#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise {

/// What a field is for. It decides where a field may be read and written:
/// `next` takes observations only, `returns` takes rewards only.
enum class Role : std::uint8_t {
  Observation,  ///< What the agent sees; every step also has a next observation.
  Column,       ///< Belongs to one step: action, log-probability, anything else.
  Reward,       ///< A float column that n-step returns are summed over.
  Discount,     ///< A float column in [0, 1] that multiplies into the discounts of returns.
  /// What a recurrent network carries into a step; of sequences each item has that of its first
  /// step alone.
  RecurrentState,
  MutableColumn,  ///< A column whose values may be replaced while the step is stored.
};

/// The consequences of a role: all that buffers, batches and checkpoints ask of it.
struct RoleTraits {
  const char* name = nullptr;  ///< In messages.
  bool per_item = false;       ///< An item has one, that of its first step. Else steps have it.
  bool has_next = false;       ///< The row after an episode's last step has it too; frames stack.
  bool has_returns = false;    ///< Returns sum it.
  bool discounts = false;      ///< Returns are discounted by it; a schema has at most one.
  bool is_scalar = false;      ///< A float without a shape.
  bool spreads = false;        ///< `Schema::require_finite` is about it.
  bool changes = false;        ///< `ReplayBuffer::update` replaces its values.
};

namespace detail {
inline constexpr RoleTraits kRoles[] = {
    {.name = "observation", .has_next = true, .spreads = true},
    {.name = "column"},
    {.name = "reward", .has_returns = true, .is_scalar = true, .spreads = true},
    {.name = "discount", .discounts = true, .is_scalar = true},
    {.name = "recurrent state", .per_item = true},
    {.name = "mutable column", .changes = true},
};
}  // namespace detail

/// All roles, by their number.
[[nodiscard]] constexpr std::span<const RoleTraits> roles() noexcept {
  return detail::kRoles;
}
/// Traits of a role.
[[nodiscard]] constexpr const RoleTraits& traits(Role role) noexcept {
  return detail::kRoles[static_cast<std::size_t>(role)];
}

}  // namespace reprise
