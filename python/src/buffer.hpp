#pragma once

#include <reprise/batch.hpp>
#include <reprise/host.hpp>
#include <reprise/replay_buffer.hpp>

#include "binding/type.hpp"
#include "fields/fields.hpp"
#include "origin.hpp"

#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::python {

/// A buffer of this process.
class SharedBuffer final : public AnyBuffer {
 public:
  explicit SharedBuffer(ReplayBuffer given)
      : AnyBuffer(given.schema(), given.options().window), buffer(std::move(given)) {}
  ~SharedBuffer() override { buffer.close(); }
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  [[nodiscard]] const Schema& schema() const override { return buffer.schema(); }
  [[nodiscard]] Writer writer(const WriterOptions& options) override {
    return buffer.writer(options);
  }
  [[nodiscard]] VectorWriter vector_writer(std::size_t environments, const WriterOptions& options,
                                           AutoReset autoreset) override {
    return VectorWriter(buffer, environments, options, autoreset);
  }
  [[nodiscard]] AnySampler sampler(const SamplerOptions& options, std::size_t selector) override {
    return buffer.selector(selector).sampler(options);
  }
  UpdateResult update_priorities(std::span<const ItemKey> keys, std::span<const float> priorities,
                                 std::size_t selector) override {
    return buffer.selector(selector).update(keys, priorities);
  }
  [[nodiscard]] Stats stats() override { return buffer.stats(); }
  [[nodiscard]] bool refuses_steps() override { return buffer.closed(); }

  [[nodiscard]] std::size_t max_writers() const { return buffer.options().max_writers; }

  ReplayBuffer buffer;
};

class BatchPool;

/// reprise.ReplayBuffer: shares its buffer with the objects made of it.
struct BufferObject {
  explicit BufferObject(std::shared_ptr<SharedBuffer> owned) : shared(std::move(owned)) {}

  [[nodiscard]] SharedBuffer::Call enter(const char* call) const { return {*shared, call}; }
  [[nodiscard]] ReplayBuffer& buffer() const noexcept { return shared->buffer; }
  [[nodiscard]] ReplayBuffer& core() const noexcept { return shared->buffer; }

  /// The index of the selector by which the buffer's own calls draw, the first.
  [[nodiscard]] static constexpr std::size_t selector_index() noexcept { return 0; }

  std::shared_ptr<SharedBuffer> shared;
  /// The batches that `gather` fills; null before the first call.
  std::shared_ptr<BatchPool> pool;
};

/// Each of these adds its classes to the module.
void bind_writer(nb::module_& module);
void bind_vector_writer(nb::module_& module);
void bind_sampler(nb::module_& module);
void bind_prefetcher(nb::module_& module);
void bind_mirror(nb::module_& module);
/// Each of these adds calls to ReplayBuffer and to Guest; those that draw also to SelectorHandle.
template <class Self>
void add_writer(Type<Self>& type);
template <class Self>
void add_vector_writer(Type<Self>& type);
template <class Self>
void add_sampler(Type<Self>& type);
template <class Self>
void add_prefetch(Type<Self>& type);
template <class Self>
void add_update_priorities(Type<Self>& type);
template <class Self>
void add_stats(Type<Self>& type);
/// Each of these adds calls to ReplayBuffer, and the classes of their results.
void bind_hindsight(nb::module_& module, Type<BufferObject>& type);
void bind_host(nb::module_& module, Type<BufferObject>& type);
/// reprise.SelectorHandle: one selector of a buffer, which it keeps alive.
struct SelectorObject {
  [[nodiscard]] SharedBuffer::Call enter(const char* call) const { return {*shared, call}; }
  [[nodiscard]] ReplayBuffer& buffer() const noexcept { return shared->buffer; }
  [[nodiscard]] SelectorHandle core() const { return buffer().selector(index); }
  [[nodiscard]] std::size_t selector_index() const noexcept { return index; }

  std::shared_ptr<SharedBuffer> shared;
  std::size_t index;
};

/// A copy of an array that a call checks and then reads without the GIL, while other threads may
/// write to it. Call it after the last code of the user has run, because such code may make another
/// call, which overwrites the copy.
template <class T>
std::span<const T> copy_in_thread(std::span<const T> given) {
  thread_local std::vector<T> own;
  own.assign(given.begin(), given.end());
  return own;
}

/// The result as Python's UpdateResult.
[[nodiscard]] nb::object result_of(const UpdateResult& result);

/// A batch of n items that `gather` fills without the GIL.
[[nodiscard]] nb::object gather_batch(BufferObject& self, std::size_t n,
                                      const std::function<void(Batch&)>& gather);

/// reprise.Host, with its thread.
[[nodiscard]] nb::object make_host(const std::shared_ptr<SharedBuffer>& shared,
                                   const HostOptions& options);

void bind_episodes(nb::module_& module, Type<BufferObject>& type);
/// Adds calls to ReplayBuffer and to SelectorHandle.
void bind_selector(Type<BufferObject>& type, Type<SelectorObject>& selector);
void bind_items(Type<BufferObject>& type);
void bind_updates(Type<BufferObject>& type);
void bind_checkpoints(nb::module_& module, Type<BufferObject>& type);

/// Memory for batches from a Python function: `allocator(nbytes)` returns an object with a
/// writable, contiguous buffer, which is held as long as the memory is used. Needs the GIL.
class UserMemory final : public std::pmr::memory_resource {
 public:
  explicit UserMemory(const Allocator& allocator)
      : allocator_(nb::borrow(allocator)), argument_(allocator.argument) {}
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
  ArgumentName argument_;
  std::unordered_map<void*, nb::object> allocations_;
};

/// What the batches of a sampler share: the fields, and the memory of released batches, which the
/// next ones reuse. Needs the GIL.
class BatchPool {
 public:
  /// Without an allocator the memory comes from the heap.
  BatchPool(const AnyBuffer& origin, const Allocator& allocator, bool unique = false)
      : BatchPool(origin.schema(), origin.shared_table, origin.window, allocator, unique) {}
  BatchPool(Schema batch_schema, std::shared_ptr<const FieldTable> fields,
            const Window& batch_window, const Allocator& allocator, bool unique);

  const Schema schema;
  const std::shared_ptr<const FieldTable> table;
  const Window window;
  const bool has_returns;
  const bool unique_frames;
  const bool crosses_episodes;   ///< Whether windows cross ends of episodes.
  const std::size_t steps;       ///< The T of sequences, or 0.
  const std::size_t full_steps;  ///< Steps of an item that was not cut short: T, or n_step.
  const std::size_t stack;       ///< Frames in a stack.

  /// A batch with room for at least n items; if `exactly`, for n.
  [[nodiscard]] Batch take(std::size_t n, bool exactly = false);
  void give(Batch batch);
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return memory_.get(); }

 private:
  /// A learner holds one batch while the next one is drawn, and prefetching needs a few more.
  static constexpr std::size_t kMaxSpare = 4;
  std::unique_ptr<UserMemory> memory_;  ///< Null for the heap. It outlives the batches.
  std::vector<Batch> spare_;
};

/// reprise.Batch: named arrays over the first n items of a batch that it owns. Each array keeps the
/// BatchObject alive, whose destructor gives the batch back to the pool.
class BatchObject {
 public:
  BatchObject(std::shared_ptr<BatchPool> owner, Batch filled, std::size_t items)
      : n(items), batch(std::move(filled)), pool(std::move(owner)) {}
  ~BatchObject() { pool->give(std::move(batch)); }
  BatchObject(const BatchObject&) = delete;
  BatchObject& operator=(const BatchObject&) = delete;

  [[nodiscard]] const FieldTable& table() const noexcept { return *pool->table; }

  const std::size_t n;
  bool views = false;  ///< Whether a later call of a sampler may fill this batch again.
  Batch batch;
  const std::shared_ptr<BatchPool> pool;
};

/// Makes a Batch with memory for n items, whose values are not initialised.
[[nodiscard]] inline nb::object make_batch(const std::shared_ptr<BatchPool>& pool, std::size_t n) {
  return make_object<BatchObject>(pool, pool->take(n), n);
}

}  // namespace reprise::python
