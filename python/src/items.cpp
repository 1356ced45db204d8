
#include "guest.hpp"

#include <variant>

namespace reprise::python {

template <>
inline constexpr auto members_of<UpdateResult> =
    members<&UpdateResult::applied, &UpdateResult::stale>;
template <>
inline constexpr auto members_of<SelectorTotals> =
    members<&SelectorTotals::weight, &SelectorTotals::largest, &SelectorTotals::items>;

namespace {

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
    made = named_tuple("UpdateResult", result);
    last = result;
  }
  return made;
}

}  // namespace

nb::object updated(const Keys& keys, const Priorities& priorities, const PriorityUpdate& update) {
  const std::size_t n = keys.values.size();
  if (n != priorities.values.size()) {
    fail("priorities: expected float32 of shape (", n, ",), one for each key; given shape (",
         priorities.values.size(), ",)");
  }
  const auto own_keys = copied(keys.values);
  const auto own_priorities = copied(priorities.values);
  return result_tuple(without_gil([&] { return update(own_keys, own_priorities); }));
}

namespace {

template <class Self>
nb::object update_priorities(Self& self, const Keys& keys, const Priorities& priorities,
                             std::size_t selector) {
  return updated(keys, priorities, [&](auto own_keys, auto own_priorities) {
    return self.shared->update_priorities(own_keys, own_priorities, selector);
  });
}

/// The values of an update, one for each key or, of sequences, one for each step of its window.
nb::object values_from(nb::handle given, const FieldInfo& field, const Window& window,
                       std::size_t keys, Value& value) {
  nb::object array = array_of(given, "values");
  const Array read(array);
  const auto* const sequences = std::get_if<Sequences>(&window);
  const std::size_t own = field.spec.shape.size();
  if (sequences == nullptr || read.shape().size() != own + 2) {
    value.take(array, field, {}, keys);
    return array;
  }
  const std::size_t steps = sequences->burn_in + sequences->length;
  if (static_cast<std::size_t>(read.shape()[0]) != keys ||
      static_cast<std::size_t>(read.shape()[1]) != steps) {
    fail("values: expected shape (", keys, ", ", steps, ", ...), one for each key and step; given ",
         read.described());
  }
  nb::list shape;
  shape.append(keys * steps);
  for (const Py_ssize_t size : read.shape().subspan(2)) {
    shape.append(size);
  }
  array = array.attr("reshape")(nb::tuple(shape));
  value.take(array, field, {}, keys * steps);
  return array;
}

nb::object update(BufferObject& self, const Keys& keys, const std::string& name, ArrayLike given) {
  const Named named = self.shared->table.find(nb::str(name.c_str()).ptr());
  if (named.field == nullptr || !named.field->traits().changes) {
    std::uint64_t mutable_columns = 0;
    for (const FieldInfo& field : self.shared->table.fields()) {
      mutable_columns |= field.traits().changes ? field.bit() : 0;
    }
    fail("ReplayBuffer.update: field is '", name,
         "'; allowed: mutable columns, of which the schema has: ",
         self.shared->table.names(mutable_columns));
  }
  Value value;
  const nb::object values =
      values_from(given, *named.field, self.shared->window, keys.values.size(), value);
  const auto own_keys = copied(keys.values);
  const FieldSpec& spec = named.field->spec;
  const std::span bytes(value.data(), Array(values).size() / spec.elements * spec.bytes);
  return result_tuple(
      without_gil([&] { return self.buffer().update(own_keys, named.field->field, bytes); }));
}

nb::object find(BufferObject& self, std::uint64_t episode, std::uint64_t position) {
  const std::optional<ItemKey> key =
      without_gil([&] { return self.buffer().find(episode, position); });
  return key ? to_python(static_cast<std::int64_t>(key->bits)) : nb::none();
}

nb::object update_episode(BufferObject& self, std::uint64_t episode, std::uint64_t position,
                          const Priorities& given, std::size_t selector) {
  const auto priorities = copied(given.values);
  return result_tuple(without_gil([&] {
    return self.buffer().update_episode_priorities(episode, position, priorities, selector);
  }));
}

}  // namespace

template <class Self>
void add_update_priorities(Type<Self>& type) {
  type.template method<&update_priorities<Self>>(
      "update_priorities", "UpdateResult",
      R"(Sets raw priorities, such as absolute TD errors, of the items named by keys.

keys: int64 [n], of Batch.item_keys or Batch.torch; numbers of another type are a TypeError.
priorities: float32 [n], finite, at least 0; other numbers are converted.
selector: whose, by its place among the buffer's selectors.
Returns UpdateResult(applied, stale). The last of repeated keys wins; stale keys, whose item was
evicted, are counted and skipped.
ValueError, before anything is changed, for shapes that differ, a priority that is NaN, infinite,
negative or too large to be weighed, a key of another buffer, an unknown selector.
Both are copied before the call gives the GIL up: other threads may write to them meanwhile.)",
      arg("keys"), arg("priorities"), arg("selector", 0U));
}
template void add_update_priorities(Type<BufferObject>& type);
template void add_update_priorities(Type<GuestObject>& type);

void bind_updates(Type<BufferObject>& type) {
  type.method<&update>(
          "update", "UpdateResult",
          R"(Replaces values of a mutable column (Schema.mutable_column) in the items named by keys: latents
that a learner writes back, values made anew, relabelled rewards.

keys: int64 [n], of Batch.item_keys or Batch.torch. field: its name.
values: [n, *shape], for the step with which each item begins, or, of Sequences, [n, T, *shape], for
each step of its window; those beyond an item's length are not read. Arrays, or tensors of the CPU;
other numbers are converted.
The update is of the steps: all windows that contain them show it. (Where an episode goes on in
another chunk, up to T steps are stored in both, and each window shows those of its own chunk.) The
later of two values for one step counts. Other threads may append, draw and update meanwhile: each
value is read whole.
Returns UpdateResult(applied, stale); stale keys, whose item is gone, are counted and skipped.
ValueError, before anything is changed, for another field, a wrong shape, a number out of range, a
key of another buffer; TypeError for a type that does not convert. Do not write to values during the
call, which gives the GIL up.)",
          arg("keys"), arg("field"), arg("values"))
      .method<&find>(
          "find", "int | None",
          R"(The key of the item that begins with a step, named as by Batch.episode_ids and positions or
Writer.episode_id, as an int; None if no item does, if it is gone, or not decided yet.
RuntimeError without episode_index.)",
          arg("episode"), arg("position"))
      .method<&update_episode>(
          "update_episode_priorities", "UpdateResult",
          R"(Sets the priorities, float32 [n], of consecutive steps of an episode, from a position on. Steps with
which no item begins count as stale. Errors as update_priorities; RuntimeError without
episode_index.)",
          arg("episode"), arg("position"), arg("priorities"), arg("selector", 0U))
      .method<&ReplayBuffer::set_alpha, true>(
          "set_alpha",
          R"(Sets the exponent of a Proportional, LossAdjusted or Mixture selector, 0 to 8: every weight w
becomes w^(alpha / present alpha). O(items), a few milliseconds per million. ValueError for another
selector, an alpha out of range, or a present alpha of 0.)",
          arg("alpha"), arg("selector", 0U))
      .method<&ReplayBuffer::alpha>(
          "alpha",
          R"(The present exponent of a selector that has one: that of `options`, or what `set_alpha` made of it,
before a checkpoint was saved too. ValueError for another selector.)",
          arg("selector", 0U))
      .method<&ReplayBuffer::decay, true>(
          "decay",
          R"(Multiplies the weight of every item of a Proportional, LossAdjusted or Mixture selector by a factor
above 0 and at most 1; weights, not priorities: a factor of x^alpha is one of x on priorities.
O(items): about a millisecond per million.)",
          arg("factor"), arg("selector", 0U));
}

namespace {

/// A batch of n items that `gather` fills without the GIL.
template <class Gather>
nb::object gathered(BufferObject& self, std::size_t n, const Gather& gather) {
  if (!self.pool) {
    self.pool = std::make_shared<BatchPool>(*self.shared, nb::none());
  }
  nb::object made = make_batch(self.pool, n);
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
