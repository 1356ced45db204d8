#pragma once

#include "shared_buffer.hpp"
#include "type.hpp"

#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace reprise::python {

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

/// Keys as they are in a batch, in memory that `owner` keeps. TypeError for anything else.
[[nodiscard]] std::span<const ItemKey> keys_from(nb::handle given, nb::object& owner);

using PriorityUpdate =
    std::function<UpdateResult(std::span<const ItemKey>, std::span<const float>)>;
/// What `update` gives for keys and priorities, the first two arguments, as Python's tuple. It runs
/// without the GIL, with copies of them.
[[nodiscard]] nb::object updated(const Arguments& arguments, const PriorityUpdate& update);

[[nodiscard]] nb::object make_vector_writer(BufferObject& buffer, const Arguments& arguments);
[[nodiscard]] nb::object make_prefetcher(BufferObject& buffer, const Arguments& arguments);

void bind_items(Type<BufferObject>& type);
void bind_updates(Type<BufferObject>& type);
void bind_checkpoints(Type<BufferObject>& type);

}  // namespace reprise::python
