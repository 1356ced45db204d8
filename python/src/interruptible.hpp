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

/// Runs work of unknown length on a thread of its own, without the GIL, and runs signal handlers
/// meanwhile. If a handler raises, the work is asked to stop, and the exception is thrown once the
/// work has ended. Otherwise an exception of the work is thrown.
void run_interruptibly(const std::function<void(std::stop_token)>& work);

}  // namespace reprise::python
