#pragma once

#include "waiting.hpp"

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace reprise::python {

/// Runs work of unknown length on a thread of its own, without the GIL, and looks for signals
/// meanwhile: what a handler raises requests stop, and is raised once the work has ended. Else what
/// the work throws is.
void run_interruptibly(const std::function<void(std::stop_token)>& work);

}  // namespace reprise::python
