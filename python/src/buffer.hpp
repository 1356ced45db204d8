#pragma once

#include <reprise/batch.hpp>
#include <reprise/replay_buffer.hpp>

#include "binding/type.hpp"
#include "fields/fields.hpp"

#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

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

/// Memory for batches from a Python function: `allocator(nbytes)` gives an object with a writable,
/// contiguous buffer, which is kept until the memory is given back. Needs the GIL.
class UserMemory final : public std::pmr::memory_resource {
 public:
  explicit UserMemory(nb::object allocator) : allocator_(std::move(allocator)) {}
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;
  ~UserMemory() override = default;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* at, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  nb::object allocator_;
  std::unordered_map<void*, nb::object> taken_;
};

/// What the batches of a sampler share: the fields, and memory of those that nobody holds any more
/// for the next ones. Needs the GIL.
class BatchPool {
 public:
  /// None gives the heap's memory. TypeError for an object that cannot be called.
  BatchPool(const SharedBuffer& buffer, nb::handle allocator, bool unique = false)
      : BatchPool(buffer.buffer.schema(), buffer.shared_table, buffer.window, allocator, unique) {}
  BatchPool(Schema of, std::shared_ptr<const FieldTable> fields, const Window& items,
            nb::handle allocator, bool unique);

  const Schema schema;
  const std::shared_ptr<const FieldTable> table;
  const Window window;
  const bool has_returns;
  const bool unique_frames;
  const std::size_t steps;  ///< T of sequences, else 0.
  const std::size_t ahead;  ///< Steps of a whole item: T, or n_step.
  const std::size_t stack;  ///< Frames in a stack.

  /// A batch with room for n items.
  [[nodiscard]] Batch take(const ReplayBuffer& buffer, std::size_t n);
  void give(Batch batch);
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return memory_.get(); }

 private:
  /// A learner holds one batch while the next one is drawn; a few more may be on their way to it.
  static constexpr std::size_t kSpare = 4;
  std::unique_ptr<UserMemory> memory_;  ///< Null: the heap. Outlives the batches.
  std::vector<Batch> spare_;
};

/// reprise.Batch: named arrays over the first n items of a batch, which is its own. Each array
/// keeps it alive; its memory goes back to the pool when the last of them is gone.
class BatchObject {
 public:
  BatchObject(std::shared_ptr<BatchPool> from, Batch made, std::size_t items)
      : n(items), batch(std::move(made)), pool(std::move(from)) {}
  ~BatchObject() { pool->give(std::move(batch)); }
  BatchObject(const BatchObject&) = delete;
  BatchObject& operator=(const BatchObject&) = delete;

  [[nodiscard]] const FieldTable& table() const noexcept { return *pool->table; }

  const std::size_t n;
  bool views = false;  ///< A later call of the sampler fills it once more.
  Batch batch;
  const std::shared_ptr<BatchPool> pool;
};

/// A Batch with room for n items, which are unspecified.
[[nodiscard]] inline nb::object make_batch(const std::shared_ptr<BatchPool>& pool,
                                           const ReplayBuffer& buffer, std::size_t n) {
  return make_object<BatchObject>(pool, pool->take(buffer, n), n);
}

}  // namespace reprise::python
