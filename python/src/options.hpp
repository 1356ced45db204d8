#pragma once

#include <reprise/options.hpp>

#include "arguments.hpp"

/// The buffer's options between C++ and Python, by the library's table of strategies.
namespace reprise::python {

/// The options of ReplayBuffer's constructor.
[[nodiscard]] Options options_from(const Arguments& arguments);

/// A window, and the reverse.
[[nodiscard]] Window window_from(nb::handle given);
[[nodiscard]] nb::object window_to(const Window& window);

/// One of the rate limiters.
[[nodiscard]] RateLimiter rate_limiter_from(nb::handle given);

/// None: memory. The path of a directory: a mapped file in it. OSError if there is none.
[[nodiscard]] Storage storage_from(nb::handle storage);

/// Options by the names of ReplayBuffer's keywords.
[[nodiscard]] nb::dict options_dict(const Options& options);

/// Adds what makes the classes of the strategies, see reprise._options.
void bind_strategies(nb::module_& module);

}  // namespace reprise::python
