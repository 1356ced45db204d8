#include "record/errors.hpp"

#include <cerrno>
#include <string>
#include <system_error>

namespace reprise {
namespace {

std::string message(const std::string& problem, const std::string& file, std::uint64_t offset) {
  if (file.empty()) {
    return "checkpoint: " + problem;
  }
  if (offset == 0) {
    return "checkpoint: " + file + ": " + problem;
  }
  return "checkpoint: " + file + ", byte " + std::to_string(offset) + ": " + problem;
}

}  // namespace

CheckpointError::CheckpointError(Kind kind, const std::string& problem, const std::string& file,
                                 std::uint64_t offset, int error_number)
    : std::runtime_error(message(problem, file, offset)),
      file_(std::make_shared<const std::string>(file)),
      offset_(offset),
      error_number_(error_number),
      kind_(kind) {}

namespace record {

CheckpointError io_error(const std::string& file, std::uint64_t offset, const char* doing,
                         int error_number, CheckpointError::Kind if_absent) {
  // strerror may share its text between threads; the category's message is a copy.
  return {error_number == ENOENT ? if_absent : CheckpointError::Kind::Io,
          base::text(doing, ": ", std::generic_category().message(error_number), " (errno ",
                     error_number, ")"),
          file, offset, error_number};
}

}  // namespace record
}  // namespace reprise
