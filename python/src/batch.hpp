#pragma once

#include <reprise/batch.hpp>

#include "buffer.hpp"

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::python {

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
