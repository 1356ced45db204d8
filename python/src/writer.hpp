#pragma once

#include <reprise/writer.hpp>

#include "shared_buffer.hpp"
#include "step_values.hpp"
#include "waiting.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace reprise::python {

/// The marks of a writer, or of all writers of a vector writer. Guarded by the GIL.
struct WriterMarks {
  bool in_use = false;
  SignalHook hook;
};

/// reprise.Writer: the writer of one environment.
///
/// The hook lets the C++ writer wait only where the GIL was given up. A small step that finds room
/// at once is appended with the GIL held.
class WriterObject {
 public:
  /// `marks`: those of the vector writer that it belongs to, or its own.
  WriterObject(std::shared_ptr<SharedBuffer> buffer, std::chrono::nanoseconds timeout,
               std::shared_ptr<WriterMarks> marks = std::make_shared<WriterMarks>());
  ~WriterObject();
  WriterObject(const WriterObject&) = delete;
  WriterObject& operator=(const WriterObject&) = delete;

  void begin_episode(const Arguments& arguments);
  void append(const Arguments& arguments);
  void append_episode(const Arguments& arguments);
  void append_transition(const Arguments& arguments);
  void close();

  /// As `close`, within a call that is marked already.
  void give_back();

  [[nodiscard]] bool& in_use() const noexcept { return marks_->in_use; }
  [[nodiscard]] bool closed() const noexcept { return writer_ == nullptr; }
  /// The C++ writer; throws Closed, which names `call`, after `close`.
  [[nodiscard]] Writer& open(const char* call);
  /// The C++ writer, or null after `close`.
  [[nodiscard]] Writer* writer() noexcept { return writer_.get(); }

 private:
  struct Commit {
    End end = End::Continue;
    std::vector<float> priorities;
    bool has_priorities = false;  ///< Priorities were given, even if none.
  };
  /// How many steps of the last append_episode were taken.
  struct Progress {
    std::size_t steps = 0;  ///< Steps of its arrays; 0 if all were taken.
    std::size_t done = 0;   ///< Steps taken.
    std::size_t used = 0;   ///< Priorities given to them.
    std::uint64_t episode = 0;
  };

  Writer& open_for_append(const char* call);
  void take_priorities(PyObject* given);
  void check_priorities(std::size_t items, const char* call) const;
  CommitStatus commit_transition();
  CommitStatus commit_episode(const Deadline* deadline);
  std::size_t read_episode(const Arguments& arguments, AppendKeywords& keywords);
  [[nodiscard]] bool goes_on(std::size_t steps) const;
  /// Rows of the arrays that a call took: of columns, and of observations by plain name.
  struct Rows {
    std::size_t steps;
    std::size_t observations;
  };
  template <class Attempt>
  void take(const Rows& rows, bool large, const char* call, const Attempt& attempt);
  [[nodiscard]] std::string taken_before() const;

  std::shared_ptr<SharedBuffer> buffer_;
  std::shared_ptr<WriterMarks> marks_;
  std::unique_ptr<Writer> writer_;  ///< Has the hook of the marks.
  std::chrono::nanoseconds timeout_;
  StepValues values_;
  Commit commit_;
  Progress progress_;
};

void bind_writer(py::module_& module);

}  // namespace reprise::python
