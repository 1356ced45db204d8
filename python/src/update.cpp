#include "buffer_object.hpp"
#include "values.hpp"
#include "vocabulary.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::python {

std::span<const ItemKey> keys_from(nb::handle given, nb::object& owner) {
  owner = array_of(given, "keys");
  const Array array(owner);
  // Of any byte order.
  if (array.kind() != 'i' || array.element_bytes() != sizeof(std::int64_t)) {
    throw WrongKind("keys: expected int64 of shape (n,), as Batch.item_keys; given " +
                    array.described());
  }
  owner = row_from(owner, DType::I64, "keys");
  const Array read(owner);
  // A key is its 64 bits.
  return {reinterpret_cast<const ItemKey*>(read.data()), read.size()};
}

namespace {

/// Priorities of an update, which None is not.
std::span<const float> update_from(const Arguments& arguments, std::size_t at, nb::object& owner) {
  if (!arguments.has(at)) {
    throw WrongKind(std::string(arguments.call()) +
                    ": priorities: expected float32 of shape (n,); given None");
  }
  return priorities_from(arguments[at], owner);
}

/// A copy of what a call checks and then reads without the GIL, while other threads may write to
/// the array. Taken after the last code of the user's has run: that may call again.
template <class T>
std::span<const T> copied(std::span<const T> given) {
  thread_local std::vector<T> own;
  own.assign(given.begin(), given.end());
  return own;
}

/// Most updates of a learner have the same result; tuples do not change.
nb::object result_tuple(const UpdateResult& result) {
  static UpdateResult last;
  static auto& made = *new nb::object;
  if (!made || last.applied != result.applied || last.stale != result.stale) {
    made = named_tuple("UpdateResult", result.applied, result.stale);
    last = result;
  }
  return made;
}

nb::object update_priorities(BufferObject& self, const Arguments& arguments) {
  nb::object keys_owner;
  nb::object priorities_owner;
  const auto selector = arguments.get<std::size_t>(2);
  const std::span<const float> priorities = update_from(arguments, 1, priorities_owner);
  const std::span<const ItemKey> keys = keys_from(arguments[0], keys_owner);
  if (keys.size() != priorities.size()) {
    throw std::invalid_argument(
        "priorities: expected float32 of shape (" + std::to_string(keys.size()) +
        ",), one for each key; given shape (" + std::to_string(priorities.size()) + ",)");
  }
  const auto own_keys = copied(keys);
  const auto own_priorities = copied(priorities);
  return result_tuple(without_gil(
      [&] { return self.buffer().update_priorities(own_keys, own_priorities, selector); }));
}

nb::object find(BufferObject& self, const Arguments& arguments) {
  const auto episode = arguments.get<std::uint64_t>(0);
  const auto position = arguments.get<std::uint64_t>(1);
  const std::optional<ItemKey> key =
      without_gil([&] { return self.buffer().find(episode, position); });
  return key ? nb::object(nb::int_(static_cast<std::int64_t>(key->bits))) : nb::none();
}

nb::object update_episode(BufferObject& self, const Arguments& arguments) {
  const auto episode = arguments.get<std::uint64_t>(0);
  const auto position = arguments.get<std::uint64_t>(1);
  const auto selector = arguments.get<std::size_t>(3);
  nb::object owner;
  const auto priorities = copied(update_from(arguments, 2, owner));
  return result_tuple(without_gil([&] {
    return self.buffer().update_episode_priorities(episode, position, priorities, selector);
  }));
}

}  // namespace

void bind_updates(Type<BufferObject>& type) {
  type.method<&update_priorities>(
          "update_priorities(self, keys: ArrayLike, priorities: ArrayLike, "
          "selector: int = 0) -> UpdateResult",
          R"(Sets raw priorities, such as absolute TD errors, of the items named by keys.

keys: int64 [n], of Batch.item_keys or Batch.torch; numbers of another type are a TypeError.
priorities: float32 [n], finite, at least 0; other numbers are converted.
selector: whose, by its place among the buffer's selectors.
Returns UpdateResult(applied, stale). The last of repeated keys wins; stale keys, whose item was
evicted, are counted and skipped.
ValueError, before anything is changed, for shapes that differ, a priority that is NaN, infinite,
negative or too large to be weighed, a key of another buffer, an unknown selector.
Both are copied before the call gives the GIL up: other threads may write to them meanwhile.)")
      .method<&find>(
          "find(self, episode: int, position: int) -> int | None",
          R"(The key of the item that begins with a step, named as by Batch.episode_ids and positions or
Writer.episode_id, as an int; None if no item does, if it is gone, or not decided yet.
RuntimeError without episode_index.)")
      .method<&update_episode>(
          "update_episode_priorities(self, episode: int, position: int, priorities: ArrayLike, "
          "selector: int = 0) -> UpdateResult",
          R"(Sets the priorities, float32 [n], of consecutive steps of an episode, from a position on. Steps with
which no item begins count as stale. Errors as update_priorities; RuntimeError without
episode_index.)")
      .forward<&ReplayBuffer::set_alpha, true>(
          "set_alpha(self, alpha: float, selector: int = 0) -> None",
          R"(Sets the exponent of a Proportional, LossAdjusted or Mixture selector, 0 to 8: every weight w
becomes w^(alpha / present alpha). O(items), a few milliseconds per million. ValueError for another
selector, an alpha out of range, or a present alpha of 0.)")
      .forward<&ReplayBuffer::alpha>(
          "alpha(self, selector: int = 0) -> float",
          R"(The present exponent of a selector that has one: that of `options`, or what `set_alpha` made of it,
before a checkpoint was saved too. ValueError for another selector.)")
      .forward<&ReplayBuffer::decay, true>(
          "decay(self, factor: float, selector: int = 0) -> None",
          R"(Multiplies the weight of every item of a Proportional, LossAdjusted or Mixture selector by a factor
above 0 and at most 1; weights, not priorities: a factor of x^alpha is one of x on priorities.
O(items): about a millisecond per million.)");
}

}  // namespace reprise::python
