#include "batch.hpp"
#include "buffer_object.hpp"
#include "numpy.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reprise::python {
namespace {

/// The keys that a call names, its own: other threads may write to the array meanwhile.
std::vector<ItemKey> own_keys(nb::handle given) {
  nb::object owner;
  const std::span<const ItemKey> keys = keys_from(given, owner);
  return {keys.begin(), keys.end()};
}

/// A batch of n items that `gather` fills without the GIL.
template <class Gather>
nb::object gathered(BufferObject& self, std::size_t n, const Gather& gather) {
  if (!self.pool) {
    self.pool = std::make_shared<BatchPool>(*self.shared, nb::none());
  }
  nb::object made = make_batch(self.pool, self.buffer(), n);
  Batch& batch = self_of<BatchObject>(made.ptr()).batch;
  without_gil([&] { gather(batch); });
  return made;
}

nb::object gather(BufferObject& self, const Arguments& arguments) {
  const std::vector<ItemKey> keys = own_keys(arguments[0]);
  return gathered(self, keys.size(), [&](Batch& batch) { self.buffer().gather(keys, batch); });
}

nb::object gather_episode(BufferObject& self, const Arguments& arguments) {
  const auto episode = arguments.get<std::uint64_t>(0);
  const auto position = arguments.get<std::uint64_t>(1);
  const auto steps = arguments.get<std::size_t>(2);
  return gathered(self, steps, [&](Batch& batch) {
    self.buffer().gather_episode(episode, position, steps, batch);
  });
}

nb::object priorities(BufferObject& self, const Arguments& arguments) {
  const std::vector<ItemKey> keys = own_keys(arguments[0]);
  const auto selector = arguments.get<std::size_t>(1);
  nb::object made = empty_array(DType::F32, {{keys.size()}});
  const std::span into(reinterpret_cast<float*>(Array(made).data()), keys.size());
  without_gil([&] { self.buffer().priorities(keys, into, selector); });
  return made;
}

nb::object totals(BufferObject& self, const Arguments& arguments) {
  const auto selector = arguments.get<std::size_t>(0);
  const SelectorTotals totals = without_gil([&] { return self.buffer().totals(selector); });
  nb::dict made;
  made["weight"] = totals.weight;
  made["largest"] = static_cast<double>(totals.largest);
  made["items"] = totals.items;
  return made;
}

void reset_priorities(BufferObject& self, const Arguments& arguments) {
  const auto priority = arguments.get<float>(0, 1.0F);
  const auto selector = arguments.get<std::size_t>(1);
  const Released released;
  self.buffer().reset_priorities(priority, selector);
}

std::size_t remove(BufferObject& self, const Arguments& arguments) {
  const std::vector<ItemKey> keys = own_keys(arguments[0]);
  const Released released;
  return self.buffer().remove(keys);
}

}  // namespace

void bind_items(Type<BufferObject>& type) {
  type.method<&gather>(
          "gather(self, keys: ArrayLike) -> Batch",
          R"(A batch of the items with these keys, int64 [n] of Batch.item_keys, in their sequence, without a
draw: no limit counts it. Where an item is gone, `lengths` and `weights` are 0 and every field is
zeros; elsewhere weights are 1. Items drawn as often as max_times_sampled allows are there until
they are evicted. ValueError for a key of another buffer. Other threads may append and draw.)")
      .method<&gather_episode>(
          "gather_episode(self, episode: int, position: int, steps: int) -> Batch",
          R"(The same for the items that begin with `steps` consecutive steps of an episode, from a position
on, as `find` names them. What `find` would not find is marked as gone and has a stale key.
RuntimeError without episode_index.)")
      .method<&priorities>(
          "priorities(self, keys: ArrayLike, selector: int = 0) -> NDArray[np.float32]",
          R"(The present priorities of the items with these keys, float32 [n]: to set them again changes no
weight. NaN for an item that is gone or was drawn as often as max_times_sampled allows. Errors as
update_priorities.)")
      .method<&totals>(
          "totals(self, selector: int = 0) -> dict[str, float]",
          R"(Sums over the items of a selector: a dict. weight: the sum of their weights; an item of weight w
is drawn with probability w / weight. largest: the largest weight (of RankBased and MaxHeap the
largest priority, of MinHeap the largest ever, of Fifo and Lifo 0; RankBased, Recency and Mixture
weigh in a unit that changes from draw to draw). items: items that can be
drawn.)")
      .method<&reset_priorities>(
          "reset_priorities(self, priority: float = 1.0, selector: int = 0) -> None",
          R"(Gives every item this priority, as update_priorities of all keys would. O(items). Not counted.)")
      .method<&remove>(
          "remove(self, keys: NDArray[np.int64]) -> int",
          R"(Removes the items with these keys for good, int64 [n] of Batch.item_keys: they are not drawn,
found or read any more. Their steps stay for the windows of others, and count for the capacity until
they are evicted, but not in len(). Returns how many there were. ValueError for a key of another
buffer.)")
      .forward<&ReplayBuffer::remove_episode, true>(
          "remove_episode(self, episode: int) -> int",
          R"(Removes all items of an episode that are decided. Returns how many there were. RuntimeError
without episode_index.)")
      .forward<&ReplayBuffer::clear, true>(
          "clear(self) -> None",
          R"(Evicts every step whose item is decided: their keys are stale then, and they count as evicted.
Episodes under way go on, as do statistics, exponents and what a rate limiter has counted.)");
}

}  // namespace reprise::python
