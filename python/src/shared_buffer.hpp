#pragma once

#include <reprise/replay_buffer.hpp>

#include "fields.hpp"
#include "waiting.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>

namespace reprise::python {

/// A buffer and what Python calls its fields. Its writers and samplers keep it alive.
class SharedBuffer {
 public:
  explicit SharedBuffer(ReplayBuffer made)
      : buffer(std::move(made)), shared_table(std::make_shared<FieldTable>(buffer.schema())) {}
  ~SharedBuffer() { buffer.close(); }
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  ReplayBuffer buffer;
  /// Batches outlive the buffer.
  const std::shared_ptr<const FieldTable> shared_table;
  const FieldTable& table = *shared_table;
  /// A restored buffer has the same window.
  const Window window = buffer.options().window;

  unsigned restored = 0;  ///< How often `restore` has replaced the buffer.

  /// Marks a call as under way, which `restore` does not run beside: it replaces `buffer`. The GIL
  /// guards the marks, as those of InUse.
  class Call {
   public:
    /// RuntimeError while `restore` runs.
    Call(SharedBuffer& shared, const char* call) : calls_(shared.calls_) {
      if (shared.restoring_) {
        refuse_beside_restore(call);
      }
      ++calls_;
    }
    ~Call() { --calls_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    unsigned& calls_;
  };

  /// The mark of `restore`, whose own call is the only one: RuntimeError while any other is under
  /// way.
  [[nodiscard]] InUse restoring();

  /// RuntimeError in a forked child, before anything is written: rows are not mapped there.
  void check_process() const {
    if (forks() != forks_at_start_) {
      refuse_fork();
    }
  }
  /// Closed once the buffer is.
  void check_open(const char* call) const;

 private:
  /// Forks of which this process is the child. Written by the child's only thread.
  static const unsigned& forks() noexcept;
  void refuse_fork() const;
  [[noreturn]] static void refuse_beside_restore(const char* call);

  const unsigned forks_at_start_ = forks();
  unsigned calls_ = 0;
  bool restoring_ = false;
};

/// The marks of one call of a writer, sampler or prefetcher.
struct Entered {
  Entered(bool& mark, const char* what, SharedBuffer& shared, const char* call)
      : in_use(mark, what), under_way(shared, call) {}
  InUse in_use;
  SharedBuffer::Call under_way;
};

}  // namespace reprise::python
