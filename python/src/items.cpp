
#include "guest.hpp"

#include <variant>

namespace reprise::python {

template <>
inline constexpr auto members_of<UpdateResult> =
    members<&UpdateResult::applied, &UpdateResult::stale>;

/// Gives the last result's tuple again if this result is equal, as most are: tuples are immutable.
nb::object result_of(const UpdateResult& result) {
  static UpdateResult last;
  static auto& last_tuple = *new nb::object;
  if (!last_tuple || last.applied != result.applied || last.stale != result.stale) {
    last_tuple = named_tuple("UpdateResult", result);
    last = result;
  }
  return last_tuple;
}

nb::object run_update(CallName call, const Keys& keys, const Priorities& priorities,
                      const PriorityUpdate& update) {
  const std::size_t n = keys.values.size();
  if (n != priorities.values.size()) {
    fail(ArgumentName(call.text, "priorities"), ": expected float32 of shape (", n,
         ",), one for each key; given shape (", priorities.values.size(), ",)");
  }
  const auto own_keys = copy_in_thread(keys.values);
  const auto own_priorities = copy_in_thread(priorities.values);
  return result_of(
      without_gil([&] { return HostHook::run([&] { return update(own_keys, own_priorities); }); }));
}

namespace {

nb::object update_priorities(BufferObject& self, CallName call, const Keys& keys,
                             const Priorities& priorities) {
  return run_update(call, keys, priorities, [&](auto own_keys, auto own_priorities) {
    return self.buffer().update_priorities(own_keys, own_priorities);
  });
}

nb::object update_guest(GuestObject& self, CallName call, const Keys& keys,
                        const Priorities& priorities, std::size_t selector) {
  return run_update(call, keys, priorities, [&](auto own_keys, auto own_priorities) {
    return self.shared->update_priorities(own_keys, own_priorities, selector);
  });
}

/// Reads the values of an update into `value`: one for each key, or for sequences one for each step
/// of the item's window. Returns the array of these values.
nb::object values_from(const char* call, nb::handle given, const FieldInfo& field,
                       const Window& window, std::size_t keys, Value& value) {
  const ArgumentName argument(call, "values");
  nb::object array = array_of(given, argument);
  const Array read(array);
  const std::size_t steps = sequence_steps(window);
  if (steps == 0 || read.shape().size() != field.spec.shape.size() + 2) {
    value.assign(array, field, {call}, keys);
    return array;
  }
  if (static_cast<std::size_t>(read.shape()[0]) != keys ||
      static_cast<std::size_t>(read.shape()[1]) != steps) {
    fail(argument, ": expected shape (", keys, ", ", steps,
         ", ...), one for each key and step; given ", read.described());
  }
  nb::list shape;
  shape.append(keys * steps);
  for (const Py_ssize_t size : read.shape().subspan(2)) {
    shape.append(size);
  }
  array = array.attr("reshape")(nb::tuple(shape));
  value.assign(array, field, {call}, keys * steps);
  return array;
}

nb::object update(BufferObject& self, CallName call, const Keys& keys, const std::string& name,
                  ArrayLike given, std::size_t skip) {
  const NamedField named = self.shared->table.find(nb::str(name.c_str()).ptr());
  if (named.field == nullptr || !named.field->traits().changes) {
    std::uint64_t mutable_columns = 0;
    for (const FieldInfo& field : self.shared->table.fields()) {
      mutable_columns |= field.traits().changes ? field.bit() : 0;
    }
    fail(ArgumentName(call.text, "field"), " is '", name,
         "'; allowed: mutable columns, of which the schema has: ",
         self.shared->table.names(mutable_columns));
  }
  Value value;
  const nb::object values =
      values_from(call.text, given, *named.field, self.shared->window, keys.values.size(), value);
  const auto own_keys = copy_in_thread(keys.values);
  const FieldSpec& spec = named.field->spec;
  const std::span bytes(value.data(), Array(values).size() / spec.elements * spec.bytes);
  return result_of(
      without_gil([&] { return self.buffer().update(own_keys, named.field->field, bytes, skip); }));
}

constexpr const char* kUpdate =
    R"(Sets raw priorities, such as absolute TD errors, of the items named by keys, for the first selector.
For another selector call `selector(i).update` of the buffer, or give a guest's call `selector`.

keys: int64 [n], of Batch.item_keys or Batch.torch; numbers of another type are a TypeError.
priorities: float32 [n], finite, at least 0; other numbers are converted.
Returns UpdateResult(applied, stale). The last of repeated keys wins; stale keys, whose item was
evicted, are counted and skipped.
ValueError, before anything is changed, for shapes that differ, a priority that is NaN, infinite,
negative or too large to be weighed, a key of another buffer.
Both arrays are copied before the call gives the GIL up: other threads may write to them meanwhile.)";

}  // namespace

template <>
void add_update_priorities(Type<BufferObject>& type) {
  type.method<&update_priorities>("update_priorities", "UpdateResult", kUpdate, arg("keys"),
                                  arg("priorities"));
}
template <>
void add_update_priorities(Type<GuestObject>& type) {
  type.method<&update_guest>("update_priorities", "UpdateResult", kUpdate, arg("keys"),
                             arg("priorities"), arg("selector", 0U));
}

void bind_updates(Type<BufferObject>& type) {
  type.method<&update>(
      "update", "UpdateResult",
      R"(Replaces values of a mutable column (Schema.mutable_column) in the items named by keys: latents
that a learner writes back, values made anew, relabelled rewards.

keys: int64 [n], of Batch.item_keys or Batch.torch. field: its name.
values: [n, *shape], for the step with which each item begins, or, of sequences, [n, T, *shape], for
each step of its window; those beyond an item's length are not read. Arrays, or tensors of the CPU;
other numbers are converted.
skip: how many steps at the beginning of each window keep their values; what `values` has for them
is not read. For latents give the window's burn_in: the values drawn for these steps may be older
than those that another item's update has given them since, or gives them earlier in this call.
The update changes steps: all windows that contain a step show its new value. (Where an episode goes
on in another chunk, up to T steps are stored in both, and each window shows those of its own chunk.)
The later of two values for one step counts, in the order of the keys. Other threads may append, draw
and update meanwhile: each value is read whole.
Returns UpdateResult(applied, stale); stale keys, whose item is gone, are counted and skipped.
ValueError, before anything is changed, for another field, a wrong shape, a number out of range, a
skip that is not below the number of values of a key, a key of another buffer; TypeError for a type
that does not convert. Do not write to values during the call, which gives the GIL up.)",
      arg("keys"), arg("field"), arg("values"), keyword("skip", 0U));
}

nb::object gather_batch(BufferObject& self, std::size_t n,
                        const std::function<void(Batch&)>& gather) {
  if (!self.pool) {
    self.pool = std::make_shared<BatchPool>(*self.shared, Allocator());
  }
  nb::object object = make_batch(self.pool, n);
  Batch& batch = self_of<BatchObject>(object.ptr()).batch;
  without_gil([&] { gather(batch); });
  return object;
}

namespace {

nb::object gather(BufferObject& self, const Keys& given) {
  const std::vector<ItemKey> keys = copy_of(given);
  return gather_batch(self, keys.size(), [&](Batch& batch) { self.buffer().gather(keys, batch); });
}

std::size_t remove(BufferObject& self, const Keys& given) {
  const std::vector<ItemKey> keys = copy_of(given);
  const GilRelease released;
  return self.buffer().remove(keys);
}

}  // namespace

void bind_items(Type<BufferObject>& type) {
  type.method<&gather>(
          "gather", "Batch",
          R"(A batch of the items with these keys, int64 [n] of Batch.item_keys, in the order of the keys. It is
no draw: neither the rate limiter nor max_times_sampled counts it. Where an item is gone, `lengths`
and `weights` are 0 and every field is zeros; elsewhere weights are 1. Items drawn as often as
max_times_sampled allows can be read until they are evicted, before others. So can items that steps
appended since the last draw or len() push out. ValueError for a key of another buffer. Other threads
may append and draw.)",
          arg("keys"))
      .method<&remove>(
          "remove",
          R"(Removes the items with these keys for good, int64 [n] of Batch.item_keys: they are not drawn,
found or read any more. Their steps stay, because windows of other items have them, and count for
the capacity until they are evicted, but not in len(). Returns how many items were removed.
ValueError for a key of another buffer.)",
          arg("keys"))
      .method<&ReplayBuffer::set_samples_per_insert, true>(
          "set_samples_per_insert",
          R"(Sets the ratio that a SampleToInsertRatio holds, for the steps appended from now on: earlier steps
count as they did, so a change leaves no burst of samples and no pause. Waiting calls go by the new
ratio at once. Batches that the limiter could never let through, above 2 * error_buffer -
samples_per_insert * a block of a writer (the steps that it counts at once), are refused from then
on, those of a Prefetcher too. `options` has the first ratio; a checkpoint keeps the present one.
ValueError for another rate limiter, or a ratio above its error_buffer or max_times_sampled.)",
          arg("samples_per_insert"))
      .method<&ReplayBuffer::clear, true>(
          "clear",
          R"(Evicts every step whose item's window is complete: keys of these items are stale then,
and the steps count as evicted. Episodes under way go on; statistics, exponents and the rate
limiter's counts stay.)");
}

}  // namespace reprise::python
