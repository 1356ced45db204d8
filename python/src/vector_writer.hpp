#pragma once

#include "writer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace reprise::python {

/// The place of the observations around a reset, for simulators that reset themselves.
enum class AutoReset : std::uint8_t {
  SameStep,  ///< In the call that ends the episode; final ones are an argument of their own.
  NextStep,  ///< In the call after the one that ends the episode.
  Disabled,  ///< The simulator does not reset itself: the caller begins episodes.
};

/// reprise.VectorWriter: one writer per environment, fed from [E, ...] arrays.
///
/// It commits environment by environment and not through the C++ VectorWriter, because with
/// NextStep environments that are being reset commit nothing. Everything that can be refused is
/// refused before the first environment commits.
class VectorWriterObject {
 public:
  VectorWriterObject(const std::shared_ptr<SharedBuffer>& buffer, std::size_t environments,
                     AutoReset autoreset, std::chrono::nanoseconds timeout);
  ~VectorWriterObject() = default;
  VectorWriterObject(const VectorWriterObject&) = delete;
  VectorWriterObject& operator=(const VectorWriterObject&) = delete;

  void begin(const Arguments& arguments);
  void append(const Arguments& arguments);
  [[nodiscard]] std::size_t completing(PyObject* end);
  void close();

  [[nodiscard]] std::size_t size() const noexcept { return writers_.size(); }
  [[nodiscard]] const std::shared_ptr<WriterObject>& operator[](std::size_t environment) const {
    return writers_[environment];
  }

 private:
  Writer& writer(std::size_t environment, const char* call) const {
    return writers_[environment]->open(call);
  }
  void check_writers(const char* call) const;
  void end_resets();
  void check_environments() const;
  void read_final(PyObject* given);
  void plan_priorities(PyObject* given);
  void write_step(std::size_t environment);
  [[nodiscard]] bool repeated() const;
  [[noreturn]] void time_out() const;
  void begin_with_next(std::size_t environment);
  CommitStatus commit_round(const Deadline* deadline);
  bool commit_one(std::size_t environment, const Deadline* deadline, CommitStatus& worst);

  std::shared_ptr<SharedBuffer> buffer_;
  std::chrono::nanoseconds timeout_;
  const AutoReset autoreset_;
  std::shared_ptr<WriterMarks> marks_;
  std::vector<std::shared_ptr<WriterObject>> writers_;
  std::vector<std::uint8_t> resetting_;  ///< NextStep: its episode ended in the last append.

  // State of the append under way, or of one that has to be repeated.
  StepValues values_;
  StepValues final_;  ///< `final`, as next observations.
  std::vector<End> ends_;
  std::vector<float> priorities_;
  std::vector<std::size_t> first_;  ///< Where each environment's priorities begin; then the end.
  std::vector<std::uint8_t> done_;  ///< Environments whose steps it has taken; none if it is whole.
};

/// Reads the argument `autoreset`; ValueError that names what is allowed.
[[nodiscard]] AutoReset autoreset_from(py::handle given);

void bind_vector_writer(py::module_& module);

}  // namespace reprise::python
