#pragma once

#include "training.hpp"

#include <string>

namespace apex {

/// The result in a few lines on standard output.
void print_result(const Options& options, const Result& result);

/// The result as a JSON object. Throws `std::runtime_error` if the file cannot be written.
void write_json(const std::string& path, const Options& options, const Result& result);

}  // namespace apex
