#include "window/window_spec.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace reprise::window {

WindowSpec::WindowSpec(const Window& window)
    : window_(window),
      kind_(std::visit([](const auto& kind) { return make_kind(kind); }, window)),
      ahead_(kind_->ahead()),
      behind_(kind_->behind()),
      every_step_(kind_->every_step()),
      continues_(kind_->continues()) {}

void WindowSpec::check_fields(const Schema& schema) const {
  for (const FieldSpec& field : schema.fields()) {
    kind_->check_field(field);
  }
}

Targets WindowSpec::targets(std::optional<std::uint32_t> n_step,
                            std::optional<float> discount) const {
  const auto require = [&](bool allowed, const char* name, auto value, const auto&... range) {
    base::require(this->n_step() != 0, name, " is ", value, ", and window is ", this->name(),
                  " without n_step; allowed: none, as its batches have no returns");
    base::require(allowed, name, " is ", value, "; allowed: ", range...);
  };
  Targets targets = this->targets();
  if (n_step) {
    require(*n_step >= 1 && *n_step <= targets.n_step, "n_step", *n_step,
            "1 to that of the window, ", targets.n_step);
    targets.n_step = *n_step;
  }
  if (discount) {
    require(*discount >= 0.0F && *discount <= 1.0F, "discount", *discount, "0 to 1");
    targets.discount = *discount;
  }
  return targets;
}

std::size_t WindowSpec::values(const RoleTraits& role) const noexcept {
  if (role.per_item) {
    return 1;
  }
  return std::size_t{steps()} * (role.has_next ? behind_ + 1 : 1);
}

std::vector<std::size_t> WindowSpec::dimensions(const RoleTraits& role) const {
  std::vector<std::size_t> dimensions;
  if (has_steps() && !role.per_item) {
    dimensions.push_back(ahead_);
  }
  if (behind_ != 0 && role.has_next) {
    dimensions.push_back(behind_ + 1);
  }
  return dimensions;
}

}  // namespace reprise::window

namespace reprise {

std::uint32_t sequence_steps(const Window& window) {
  const window::WindowSpec spec(window);
  return spec.has_steps() ? spec.steps() : 0;
}

bool continues(const Window& window) {
  return window::WindowSpec(window).continues();
}

bool has_returns(const Window& window) {
  return window::WindowSpec(window).n_step() != 0;
}

std::uint32_t item_every(const Window& window) {
  return window::WindowSpec(window).item_every();
}

std::size_t items_of_episode(const Window& window, std::size_t steps, End end) {
  const window::WindowSpec spec(window);
  const bool ended = end != End::Continue;
  const std::size_t whole = spec.ahead();
  const std::size_t decided = ended ? steps : steps - std::min(steps, whole - 1);
  std::size_t items = 0;
  for (std::size_t position = 0; position < decided; ++position) {
    const std::size_t length = std::min(whole, steps - position);
    if (spec.begins_item(position, static_cast<std::uint32_t>(length),
                         ended && position + length == steps)) {
      ++items;
    }
  }
  return items;
}

}  // namespace reprise
