#include <reprise/replay_buffer.hpp>

#include "buffer.hpp"

#include <optional>

/// The handles of a buffer, for one selector and for items by episode.
namespace reprise::python {

template <>
inline constexpr auto members_of<SelectorTotals> =
    members<&SelectorTotals::weight, &SelectorTotals::largest, &SelectorTotals::items>;

namespace {

nb::object selector(BufferObject& self, std::size_t place) {
  static_cast<void>(self.buffer().selector(place));  // Throws if there is no such selector.
  return make_object<SelectorObject>(self.shared, place);
}

nb::object update(SelectorObject& self, CallName call, const Keys& keys,
                  const Priorities& priorities) {
  return run_update(call, keys, priorities, [&](auto own_keys, auto own_priorities) {
    return self.core().update(own_keys, own_priorities);
  });
}

nb::object priorities(SelectorObject& self, const Keys& given) {
  const std::vector<ItemKey> keys = copy_of(given);
  nb::object array = empty_array(DType::F32, {{keys.size()}});
  const std::span priorities(reinterpret_cast<float*>(Array(array).data()), keys.size());
  without_gil([&] { self.core().priorities(keys, priorities); });
  return array;
}

nb::object totals(SelectorObject& self) {
  return to_python(without_gil([&] { return self.core().totals(); }));
}

/// reprise.Episodes: items of a buffer by episode and position.
struct EpisodesObject {
  [[nodiscard]] BufferObject& owner() const { return self_of<BufferObject>(buffer.ptr()); }
  [[nodiscard]] SharedBuffer::Call enter(const char* call) const { return owner().enter(call); }
  [[nodiscard]] Episodes core() const { return owner().buffer().episodes(); }

  nb::object buffer;
};

nb::object episodes(nb::handle self) {
  // Throws if the buffer has no index of episodes.
  static_cast<void>(self_of<BufferObject>(self.ptr()).buffer().episodes());
  return make_object<EpisodesObject>(nb::borrow(self));
}

nb::object find(EpisodesObject& self, std::uint64_t episode, std::uint64_t position) {
  const std::optional<ItemKey> key =
      without_gil([&] { return self.core().find(episode, position); });
  return key ? to_python(static_cast<std::int64_t>(key->bits)) : nb::none();
}

nb::object update_episode(EpisodesObject& self, std::uint64_t episode, std::uint64_t position,
                          const Priorities& given, std::size_t selector) {
  const auto priorities = copy_in_thread(given.values);
  return result_of(without_gil(
      [&] { return self.core().update_priorities(episode, position, priorities, selector); }));
}

nb::object sums(EpisodesObject& self, const Keys& given, std::size_t selector) {
  const std::vector<ItemKey> keys = copy_of(given);
  const nb::object after = empty_array(DType::F64, {{keys.size()}});
  const nb::object totals = empty_array(DType::F64, {{keys.size()}});
  const auto numbers_of = [&](const nb::object& array) {
    return std::span(reinterpret_cast<double*>(Array(array).data()), keys.size());
  };
  without_gil([&, to_after = numbers_of(after), to_totals = numbers_of(totals)] {
    self.core().sums(keys, to_after, to_totals, selector);
  });
  return nb::make_tuple(after, totals);
}

nb::object gather(EpisodesObject& self, std::uint64_t episode, std::uint64_t position,
                  std::size_t steps) {
  return gather_batch(self.owner(), steps,
                      [&](Batch& batch) { self.core().gather(episode, position, steps, batch); });
}

}  // namespace

void bind_selector(Type<BufferObject>& type, Type<SelectorObject>& handle) {
  type.method<&selector>(
      "selector", "SelectorHandle",
      R"(A handle for one of the buffer's selectors, by its place: for draws by the selector, and
for the priorities that it keeps. ValueError for a place without a selector.)",
      arg("place", 0U));
  handle
      .method<&update>(
          "update", "UpdateResult",
          R"(Sets raw priorities for this selector, as ReplayBuffer.update_priorities does for the first.)",
          arg("keys"), arg("priorities"))
      .method<&priorities>(
          "priorities", "NDArray[np.float32]",
          R"(The present priorities of the items with these keys, float32 [n]; setting the same
priorities changes no weight. NaN for an item that is gone or was drawn as often as
max_times_sampled allows. Errors as `update`.)",
          arg("keys"))
      .method<&totals>(
          "totals", "dict[str, float]",
          R"(A dict of sums over the items. weight: the sum of their weights; an item of weight w is drawn with
probability w / weight. largest: the largest weight (for RankBased and MaxHeap the largest priority,
for MinHeap the largest that there ever was, for Fifo and Lifo 0). items: items that can be drawn.
RankBased, Recency and Mixture give weights in a unit that changes from draw to draw.)")
      .method<&SelectorHandle::set_alpha, true>(
          "set_alpha",
          R"(Sets the exponent of a Proportional, LossAdjusted or Mixture selector, 0 to 8: every weight w
becomes w^(alpha / present alpha). O(items), a few milliseconds per million. ValueError for another
selector, an alpha out of range, or a present alpha of 0.)",
          arg("alpha"))
      .method<&SelectorHandle::alpha>(
          "alpha",
          R"(The present exponent: the one in `options`, or the one of the last `set_alpha`, also if
that came before a checkpoint was saved. ValueError for a selector without an exponent.)")
      .method<&SelectorHandle::decay, true>(
          "decay",
          R"(Multiplies the weight of every item of a Proportional, LossAdjusted or Mixture selector by a factor
above 0 and at most 1. It is the weights that are multiplied: to multiply priorities by x, give
x^alpha. O(items): about a millisecond per million.)",
          arg("factor"))
      .method<&SelectorHandle::reset, true>(
          "reset",
          R"(Gives every item this priority, as `update` of all keys would, but `stats` counts no
update. O(items). The highest priority ever seen stays: with initial "highest_seen" new items may
weigh more.)",
          arg("priority", 1.0F));
}

void bind_episodes(nb::module_& module, Type<BufferObject>& type) {
  type.method<&episodes>("episodes", "Episodes",
                         R"(Items by episode and position. RuntimeError without episode_index.)");
  Type<EpisodesObject>(
      "Episodes",
      R"(The items of a buffer by episode and position, as Batch.episode_ids and positions give them, or
Writer.episode_id; made by ReplayBuffer.episodes. It keeps the buffer alive. Any thread may call it.)")
      .method<&find>(
          "find", "int | None",
          R"(The key of the item that begins with a step, as an int; None if no item begins there,
or if the item is gone, or its window is not complete yet.)",
          arg("episode"), arg("position"))
      .method<&update_episode>(
          "update_priorities", "UpdateResult",
          R"(Sets the priorities, float32 [n], of consecutive steps of an episode, from a position on, for the
selector with this place. Steps with which no item begins count as stale. Errors as
ReplayBuffer.update_priorities, and ValueError for an unknown selector.)",
          arg("episode"), arg("position"), arg("priorities"), arg("selector", 0U))
      .method<&gather>(
          "gather", "Batch",
          R"(ReplayBuffer.gather of the items that begin with `steps` consecutive steps of an episode, from a
position on. An item for which `find` would give None is marked as gone and has a stale key.)",
          arg("episode"), arg("position"), arg("steps"))
      .method<&sums>(
          "sums", "tuple[NDArray[np.float64], NDArray[np.float64]]",
          R"(Weights added up over the episode of each of these items, float64 [n] twice: of the items after
it, and of all of its episode. Weights are those of the selector with this place: with
Proportional(alpha=1, epsilon=0) the priorities. The sums never drift: they are of the items that
can be drawn now. Items beyond a hole of `chunk_steps` steps, which a remover other than Fifo may
have taken out of the episode, add nothing. NaN for an item that is gone.
ValueError for a key of another buffer, or a selector that does not draw by weight alone.)",
          arg("keys"), arg("selector", 0U))
      .method<&Episodes::remove, true>(
          "remove",
          R"(Removes all items of an episode whose windows are complete, as ReplayBuffer.remove.
Returns how many there were.)",
          arg("episode"))
      .add(module);
}

}  // namespace reprise::python
