#pragma once

#include <reprise/replay_buffer.hpp>

#include "binding/type.hpp"
#include "fields/values.hpp"

#include <functional>
#include <memory>
#include <span>
#include <utility>

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

class BatchPool;

/// reprise.ReplayBuffer: shares its buffer with the objects made of it.
struct BufferObject {
  explicit BufferObject(std::shared_ptr<SharedBuffer> made) : shared(std::move(made)) {}

  [[nodiscard]] SharedBuffer::Call enter(const char* call) const { return {*shared, call}; }
  [[nodiscard]] ReplayBuffer& buffer() const noexcept { return shared->buffer; }
  [[nodiscard]] ReplayBuffer& core() const noexcept { return shared->buffer; }

  std::shared_ptr<SharedBuffer> shared;
  std::shared_ptr<BatchPool> pool;  ///< Of the batches that `gather` makes; null before the first.
};

using PriorityUpdate =
    std::function<UpdateResult(std::span<const ItemKey>, std::span<const float>)>;
/// What `update` gives for keys and priorities, as Python's tuple. It runs without the GIL, with
/// copies of them.
[[nodiscard]] nb::object updated(const Keys& keys, const Priorities& priorities,
                                 const PriorityUpdate& update);

/// Add classes, and the calls of ReplayBuffer that make their objects.
void bind_writer(nb::module_& module, Type<BufferObject>& type);
void bind_vector_writer(nb::module_& module, Type<BufferObject>& type);
void bind_sampler(nb::module_& module, Type<BufferObject>& type);
void bind_prefetcher(nb::module_& module, Type<BufferObject>& type);
void bind_hindsight(nb::module_& module, Type<BufferObject>& type);
/// Add calls of ReplayBuffer.
void bind_items(Type<BufferObject>& type);
void bind_updates(Type<BufferObject>& type);
void bind_checkpoints(Type<BufferObject>& type);

}  // namespace reprise::python
