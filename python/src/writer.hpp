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
#include <vector>

namespace reprise::python {

/// Guarded by the GIL; shared by the writers of one vector writer.
struct WriterMarks {
  bool in_use = false;
  /// The vector writer's last append took the steps of some environments and holds the others.
  bool vector_step_held = false;
  SignalHook hook;
};

/// reprise.Writer: one environment's writer.
///
/// The hook lets the C++ writer wait only where the GIL is given up for that: what has room at once
/// is appended with the GIL held if it is small.
class WriterObject {
 public:
  /// `marks`: those of the vector writer that it belongs to, else its own.
  WriterObject(std::shared_ptr<SharedBuffer> buffer, std::chrono::nanoseconds timeout,
               std::shared_ptr<WriterMarks> marks = std::make_shared<WriterMarks>());
  ~WriterObject();
  WriterObject(const WriterObject&) = delete;
  WriterObject& operator=(const WriterObject&) = delete;

  void begin_episode(const Arguments& arguments);
  void append(const Arguments& arguments);
  void append_episode(const Arguments& arguments);
  void append_transition(const Arguments& arguments);
  void retry();
  void close();

  /// `close` within a call that is marked already.
  void give_back();

  [[nodiscard]] bool& in_use() const noexcept { return marks_->in_use; }
  [[nodiscard]] bool holds_step() const noexcept { return held_ != Held::Nothing; }
  [[nodiscard]] bool closed() const noexcept { return writer_ == nullptr; }
  /// Closed after `close`; `call` is named.
  [[nodiscard]] Writer& open(const char* call);
  /// The C++ writer, or null after `close`.
  [[nodiscard]] Writer* writer() noexcept { return writer_.get(); }

 private:
  /// What a call that ran out of time has left to do.
  enum class Held : std::uint8_t { Nothing, Step, Transition, Episode };
  struct Commit {
    End end = End::Continue;
    std::vector<float> priorities;
    bool has_priorities = false;  ///< Given, if only none of them.
    std::size_t steps = 0;        ///< Of an episode.
    std::size_t done = 0;         ///< Of these.
    std::size_t used = 0;         ///< Priorities given to them.
  };

  void check_vector_step(const char* call) const;
  Writer& open_for_append(const char* call);
  void take_priorities(PyObject* given);
  void check_priorities(std::size_t items, const char* call) const;
  CommitStatus commit_transition();
  CommitStatus commit_episode(const Deadline* deadline);
  CommitStatus commit_again(const Deadline& deadline);
  std::size_t read_episode(const Arguments& arguments, AppendKeywords& keywords);
  template <class Attempt>
  void finish(Held kind, bool large, TakenValues& taken, const char* call, const Attempt& attempt);
  void hold(Held kind, TakenValues& taken);
  void hold_rest(Held kind, TakenValues& taken);
  void wait_for_room(const char* call);
  [[noreturn]] void time_out(const char* call, std::chrono::nanoseconds waited);

  std::shared_ptr<SharedBuffer> buffer_;
  std::shared_ptr<WriterMarks> marks_;
  std::unique_ptr<Writer> writer_;  ///< Has the hook of the marks.
  std::chrono::nanoseconds timeout_;
  StepValues values_;
  StepValues first_;  ///< Of begin_episode.
  Commit commit_;
  Held held_ = Held::Nothing;
};

void bind_writer(py::module_& module);

}  // namespace reprise::python
