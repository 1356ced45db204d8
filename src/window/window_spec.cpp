#include "window/window_spec.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace reprise::window {

WindowSpec::WindowSpec(const Window& window) : transitions_(std::get<Transitions>(window)) {
  constexpr std::uint32_t kMost = 65535;  // The item header keeps a length in 16 bits.
  const auto refuse = [](const char* option, const std::string& value, const char* allowed) {
    throw std::invalid_argument(std::string("Transitions::") + option + " is " + value +
                                "; allowed: " + allowed);
  };
  if (transitions_.n_step < 1 || transitions_.n_step > kMost) {
    refuse("n_step", std::to_string(transitions_.n_step), "1 to 65535");
  }
  if (transitions_.frame_stack < 1 || transitions_.frame_stack > kMost) {
    refuse("frame_stack", std::to_string(transitions_.frame_stack), "1 to 65535");
  }
  if (!(transitions_.discount >= 0.0F && transitions_.discount <= 1.0F)) {
    refuse("discount", base::text(transitions_.discount), "0 to 1");
  }
}

std::uint32_t WindowSpec::min_items(std::uint32_t chunk_rows) const noexcept {
  const std::uint32_t not_items = behind() + context_rows();
  return chunk_rows > not_items ? std::max(1U, (chunk_rows - not_items) / 2) : 1;
}

}  // namespace reprise::window
