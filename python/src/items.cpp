#include "batch.hpp"
#include "buffer.hpp"

namespace reprise::python {

template <>
inline constexpr auto members_of<SelectorTotals> =
    members<&SelectorTotals::weight, &SelectorTotals::largest, &SelectorTotals::items>;

namespace {

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

nb::object gather(BufferObject& self, const Keys& given) {
  const std::vector<ItemKey> keys = own(given);
  return gathered(self, keys.size(), [&](Batch& batch) { self.buffer().gather(keys, batch); });
}

nb::object gather_episode(BufferObject& self, std::uint64_t episode, std::uint64_t position,
                          std::size_t steps) {
  return gathered(self, steps, [&](Batch& batch) {
    self.buffer().gather_episode(episode, position, steps, batch);
  });
}

nb::object priorities(BufferObject& self, const Keys& given, std::size_t selector) {
  const std::vector<ItemKey> keys = own(given);
  nb::object made = empty_array(DType::F32, {{keys.size()}});
  const std::span into(reinterpret_cast<float*>(Array(made).data()), keys.size());
  without_gil([&] { self.buffer().priorities(keys, into, selector); });
  return made;
}

nb::object totals(BufferObject& self, std::size_t selector) {
  return to_python(without_gil([&] { return self.buffer().totals(selector); }));
}

std::size_t remove(BufferObject& self, const Keys& given) {
  const std::vector<ItemKey> keys = own(given);
  const Released released;
  return self.buffer().remove(keys);
}

}  // namespace

void bind_items(Type<BufferObject>& type) {
  type.method<&gather>(
          "gather", "Batch",
          R"(A batch of the items with these keys, int64 [n] of Batch.item_keys, in their sequence, without a
draw: no limit counts it. Where an item is gone, `lengths` and `weights` are 0 and every field is
zeros; elsewhere weights are 1. Items drawn as often as max_times_sampled allows are there until
they are evicted. ValueError for a key of another buffer. Other threads may append and draw.)",
          arg("keys"))
      .method<&gather_episode>(
          "gather_episode", "Batch",
          R"(The same for the items that begin with `steps` consecutive steps of an episode, from a position
on, as `find` names them. What `find` would not find is marked as gone and has a stale key.
RuntimeError without episode_index.)",
          arg("episode"), arg("position"), arg("steps"))
      .method<&priorities>(
          "priorities", "NDArray[np.float32]",
          R"(The present priorities of the items with these keys, float32 [n]: to set them again changes no
weight. NaN for an item that is gone or was drawn as often as max_times_sampled allows. Errors as
update_priorities.)",
          arg("keys"), arg("selector", 0U))
      .method<&totals>(
          "totals", "dict[str, float]",
          R"(Sums over the items of a selector: a dict. weight: the sum of their weights; an item of weight w
is drawn with probability w / weight. largest: the largest weight (of RankBased and MaxHeap the
largest priority, of MinHeap the largest ever, of Fifo and Lifo 0; RankBased, Recency and Mixture
weigh in a unit that changes from draw to draw). items: items that can be
drawn.)",
          arg("selector", 0U))
      .method<&ReplayBuffer::reset_priorities, true>(
          "reset_priorities",
          R"(Gives every item this priority, as update_priorities of all keys would. O(items). Not counted.)",
          arg("priority", 1.0F), arg("selector", 0U))
      .method<&remove>(
          "remove",
          R"(Removes the items with these keys for good, int64 [n] of Batch.item_keys: they are not drawn,
found or read any more. Their steps stay for the windows of others, and count for the capacity until
they are evicted, but not in len(). Returns how many there were. ValueError for a key of another
buffer.)",
          arg("keys"))
      .method<&ReplayBuffer::remove_episode, true>(
          "remove_episode",
          R"(Removes all items of an episode that are decided. Returns how many there were. RuntimeError
without episode_index.)",
          arg("episode"))
      .method<&ReplayBuffer::clear, true>(
          "clear",
          R"(Evicts every step whose item is decided: their keys are stale then, and they count as evicted.
Episodes under way go on, as do statistics, exponents and what a rate limiter has counted.)");
}

}  // namespace reprise::python
