#include "buffer.hpp"
#include "options.hpp"

#include <variant>

namespace reprise::python {
namespace {

BatchObject& batch_of(nb::handle self) {
  return self_of<BatchObject>(self.ptr());
}

/// The shape of a field's array, whose first dimension is the items: the memory may be for more.
std::vector<std::size_t> shape_of(const BatchObject& batch, const FieldInfo& field) {
  std::vector<std::size_t> shape = batch.batch.shape(field.field);
  shape.front() = batch.n;
  return shape;
}

/// The shape of discounts and returns: [B], or [B, T] for sequences with n_step.
std::vector<std::size_t> shape_of_targets(const BatchObject& batch) {
  const BatchPool& pool = *batch.pool;
  return pool.steps != 0 && pool.has_returns ? std::vector{batch.n, pool.steps}
                                             : std::vector{batch.n};
}

/// An observation's unique frames: [B, F + n_step, *shape], or [B, F + T, *shape] for sequences.
nb::object frames(nb::handle self, const FieldInfo& field) {
  const BatchObject& batch = batch_of(self);
  const BatchPool& pool = *batch.pool;
  std::vector<std::size_t> shape = field.spec.shape;
  shape.insert(shape.begin(), {batch.n, pool.stack + pool.full_steps});
  return view_of(field.spec.dtype, shape, batch.batch.frames(field.field).data(), self);
}

bool has_frames(const BatchObject& batch, const FieldInfo& field) {
  return batch.pool->unique_frames && field.traits().has_next;
}

/// A view of a field's frames as stacks, one for each item or, for sequences, for each step. The
/// first stack of each item begins at the item's frame `begin`.
nb::object stacks_at(nb::handle self, const FieldInfo& field, std::size_t begin) {
  const BatchObject& batch = batch_of(self);
  const BatchPool& pool = *batch.pool;
  const std::size_t frame = field.spec.bytes;
  std::vector<std::size_t> strides{frame * (pool.stack + pool.full_steps)};
  // The steps of a sequence, and the frames of a stack, follow each other frame by frame.
  const std::size_t dimensions_of_frames =
      (pool.steps != 0 ? 1U : 0U) + (pool.stack != 1 ? 1U : 0U);
  strides.insert(strides.end(), dimensions_of_frames, frame);
  std::size_t inner = frame;
  for (const std::size_t dimension : field.spec.shape) {
    strides.push_back(inner /= dimension);
  }
  return strided_view_of(field.spec.dtype, shape_of(batch, field), strides,
                         batch.batch.frames(field.field).data() + begin * frame, self);
}

nb::object now(nb::handle self, const FieldInfo& field) {
  const BatchObject& batch = batch_of(self);
  if (has_frames(batch, field)) {
    return stacks_at(self, field, 0);
  }
  return view_of(field.spec.dtype, shape_of(batch, field), batch.batch.now(field.field).data(),
                 self);
}

/// The next observations of a batch with unique frames: a view of the frames if the items are
/// sequences or every window has all n_step steps; else a copy.
nb::object next_from_frames(nb::handle self, const FieldInfo& field) {
  const BatchObject& batch = batch_of(self);
  if (batch.pool->steps != 0) {
    return stacks_at(self, field, 1);
  }
  const std::size_t n_step = batch.pool->full_steps;
  const std::span<const std::uint32_t> lengths =
      batch.batch.lengths().first(std::min(batch.n, batch.batch.size()));
  if (std::ranges::all_of(lengths, [=](std::uint32_t length) { return length == n_step; })) {
    return stacks_at(self, field, n_step);
  }
  nb::object copy = empty_array(field.spec.dtype, shape_of(batch, field));
  const Stacks<std::byte> stacks = batch.batch.next_stacks(field.field);
  std::byte* to = Array(copy).data();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    to = std::ranges::copy(stacks[i], to).out;
  }
  return copy;
}

nb::object next(nb::handle self, const FieldInfo& field) {
  const BatchObject& batch = batch_of(self);
  if (has_frames(batch, field)) {
    return next_from_frames(self, field);
  }
  return view_of(field.spec.dtype, shape_of(batch, field), batch.batch.next(field.field).data(),
                 self);
}

nb::object returns(nb::handle self, const FieldInfo& field) {
  const BatchObject& batch = batch_of(self);
  return view_of(DType::F32, shape_of_targets(batch), batch.batch.returns(field.field).data(),
                 self);
}

/// A column with a value for each step, which batches have only if windows cross ends of episodes.
struct StreamColumn {
  const char* name;
  std::span<bool> (Batch::*column)() const;
};
constexpr StreamColumn kStreamColumns[] = {{"is_first", &Batch::is_first},
                                           {"terminated", &Batch::terminated},
                                           {"truncated", &Batch::truncated}};

/// The column with this name; null if the batch has none.
const StreamColumn* find_stream_column(const BatchObject& batch, PyObject* name) {
  if (!batch.pool->crosses_episodes || PyUnicode_Check(name) == 0) {
    return nullptr;
  }
  const auto has_name = [name](const StreamColumn& column) {
    return PyUnicode_CompareWithASCIIString(name, column.name) == 0;
  };
  const auto* const match = std::ranges::find_if(kStreamColumns, has_name);
  return match != std::end(kStreamColumns) ? match : nullptr;
}

nb::object item(nb::handle self, PyObject* name) {
  const BatchObject& batch = batch_of(self);
  const FieldTable& table = batch.table();
  const NamedField named = table.find(name);
  if (const StreamColumn* const stream = find_stream_column(batch, name); stream != nullptr) {
    return view_of(DType::Bool, {{batch.n, batch.pool->steps}},
                   (batch.batch.*stream->column)().data(), self);
  }
  if (named.field == nullptr) {
    const std::string message =
        "no field " + repr_of(name) + "; fields: " + table.names(kAllFields) + ", " +
        table.names(table.observation_mask(), "next_") +
        (batch.pool->crosses_episodes ? ", is_first, terminated, truncated" : "");
    PyErr_SetObject(PyExc_KeyError, text_of(message).ptr());
    throw nb::python_error();
  }
  return named.next ? next(self, *named.field) : now(self, *named.field);
}

/// A read-only dict with the array that `kMake` makes of each field for which `wanted` is true. The
/// message for another key names `property`, and lists the keys, or says `if_empty`.
template <auto kMake, class Wanted>
nb::object arrays(nb::handle self, const char* property, const Wanted& wanted,
                  const char* if_empty = "none") {
  const nb::object by_name = vocabulary("Arrays")(property, if_empty);
  for (const FieldInfo& field : batch_of(self).table().fields()) {
    if (wanted(field)) {
      by_name[nb::handle(field.name)] = kMake(self, field);
    }
  }
  return checked(PyDictProxy_New(by_name.ptr()));
}

nb::object now_arrays(nb::handle self) {
  return arrays<&now>(self, "Batch.now", [](const FieldInfo& /*any*/) { return true; });
}
nb::object next_arrays(nb::handle self) {
  return arrays<&next>(self, "Batch.next",
                       [](const FieldInfo& field) { return field.traits().has_next; });
}
nb::object returns_arrays(nb::handle self) {
  const bool has_returns = batch_of(self).pool->has_returns;
  return arrays<&returns>(
      self, "Batch.returns",
      [has_returns](const FieldInfo& field) { return has_returns && field.traits().has_returns; },
      has_returns ? "none" : "none: sequences have returns with n_step");
}

nb::object frames_arrays(nb::handle self) {
  const BatchObject& batch = batch_of(self);
  return arrays<&frames>(
      self, "Batch.frames", [&](const FieldInfo& field) { return has_frames(batch, field); },
      batch.pool->unique_frames ? "none" : "none, without unique_frames=True");
}

template <auto kColumn, DType kType>
nb::object column(nb::handle self) {
  const BatchObject& batch = batch_of(self);
  return view_of(kType, {{batch.n}}, (batch.batch.*kColumn)().data(), self);
}

nb::object discounts(nb::handle self) {
  const BatchObject& batch = batch_of(self);
  return view_of(DType::F32, shape_of_targets(batch), batch.batch.discounts().data(), self);
}

nb::list names(nb::handle self) {
  nb::list names;
  for (const FieldInfo& field : batch_of(self).table().fields()) {
    names.append(nb::handle(field.name));
    if (field.traits().has_next) {
      names.append(nb::handle(field.next_name));
    }
  }
  for (const StreamColumn& column : kStreamColumns) {
    if (batch_of(self).pool->crosses_episodes) {
      names.append(text_of(column.name));
    }
  }
  return names;
}

nb::object keys(nb::handle self) {
  return checked(PyList_AsTuple(names(self).ptr()));
}

nb::object iterate(nb::handle self) {
  return checked(PyObject_GetIter(names(self).ptr()));
}

int contains(BatchObject& batch, PyObject* name) {
  return batch.table().find(name).field != nullptr || find_stream_column(batch, name) != nullptr
             ? 1
             : 0;
}

Py_ssize_t length(BatchObject& batch) {
  return static_cast<Py_ssize_t>(batch.n);
}

nb::object text(BatchObject& batch) {
  return text_of("Batch(" + std::to_string(batch.n) + " items of " +
                 batch.table().names(kAllFields) + ")");
}

constexpr const char* kDoc = R"(A batch of B items as named numpy arrays, B items first.

    batch["state"], batch["next_state"], batch["action"], batch.returns["reward"],
    batch.discounts, batch.weights, batch.item_keys

It is a mapping of names to arrays: dict(batch), {**batch} and batch.items() work; len(batch) is B.

For Transitions an observation is [B, *shape], with frame_stack F > 1 [B, F, *shape], oldest frame
first; other fields are [B, *shape]. For sequences of T = burn_in + length steps every field is
[B, T, *shape] in the order of time, but an observation with frame_stack F > 1 is
[B, T, F, *shape], and a recurrent state is [B, *shape]. With end="continue" batch["is_first"],
batch["terminated"] and batch["truncated"] are bool [B, T]: whether a step is the first of its
episode, ended it by termination, or was its last otherwise.

The batch and its arrays are yours: no later call changes them, unless `views` is True, and you may
change them in place. With unique_frames several stacks share a frame, so a change of the frame
shows in all of them.
The arrays share the batch's memory without a copy, and are made anew each time they are asked for.
Once nothing refers to the batch or one of its arrays, its memory is used for another batch.

`torch()` gives tensors. torch.from_numpy and DLPack (np.from_dlpack, torch.from_dlpack) share the
memory of a single array. pickle, copies and queues of processes make a batch of its own memory.

Any threads may read it at once. Nothing checks that none of them writes into its arrays.)";

bool views(BatchObject& self) {
  return self.views;
}

/// The arguments with which `of` makes a batch of the same kind.
nb::object layout(BatchObject& self) {
  const BatchPool& pool = *self.pool;
  return nb::make_tuple(make_object<Schema>(pool.schema), to_python(pool.window),
                        pool.unique_frames);
}

nb::object of(Schema& schema, const Window& window, bool unique_frames, std::size_t n) {
  auto pool = std::make_shared<BatchPool>(schema, std::make_shared<FieldTable>(schema), window,
                                          Allocator(), unique_frames);
  return make_object<BatchObject>(
      std::move(pool), Batch::of(schema, window, std::max<std::size_t>(n, 1), unique_frames), n);
}

}  // namespace

BatchPool::BatchPool(Schema batch_schema, std::shared_ptr<const FieldTable> fields,
                     const Window& batch_window, const Allocator& allocator, bool unique)
    : schema(std::move(batch_schema)),
      table(std::move(fields)),
      window(batch_window),
      has_returns(reprise::has_returns(window)),
      unique_frames(unique),
      crosses_episodes(continues(window)),
      steps(sequence_steps(window)),
      full_steps(steps != 0 ? steps
                            : std::visit([](const auto& kind) { return kind.n_step; }, window)),
      stack(std::visit([](const auto& kind) { return kind.frame_stack; }, window)) {
  if (allocator.is_valid()) {
    memory_ = std::make_unique<UserMemory>(allocator);
  }
}

Batch BatchPool::take(std::size_t n, bool exactly) {
  const auto fitting = std::find_if(spare_.begin(), spare_.end(), [=](const Batch& batch) {
    return exactly ? batch.capacity() == n : batch.capacity() >= n;
  });
  if (fitting == spare_.end()) {
    // No spare batch fits, so all are released. Releasing memory of the user's may run finalizers,
    // which may call `give`, so `spare_` is emptied first.
    const std::vector<Batch> released = std::exchange(spare_, {});
    // A batch of 0 items has room for 1, because its arrays need an address.
    return Batch::of(schema, window, std::max<std::size_t>(n, 1), unique_frames, memory_.get());
  }
  Batch batch = std::move(*fitting);
  spare_.erase(fitting);
  return batch;
}

void BatchPool::give(Batch batch) {
  if (spare_.size() < kMaxSpare) {
    spare_.push_back(std::move(batch));
  }
}

void* UserMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  // With these extra bytes the memory has an aligned part that is large enough.
  const std::size_t asked = bytes + alignment - 1;
  const nb::object owner = vocabulary("bytes_of")(
      allocator_(asked), (argument_.text() + " gave").c_str(), /*writable=*/true);
  const Array memory(owner);
  if (memory.size() < asked) {
    fail(argument_, " gave ", memory.size(), " bytes; asked for ", asked);
  }
  void* at = memory.data();
  std::size_t room = asked;
  std::align(alignment, bytes, at, room);
  allocations_.insert_or_assign(at, owner);
  return at;
}

void UserMemory::do_deallocate(void* at, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  allocations_.erase(at);
}

void bind_batch(nb::module_& module) {
  constexpr auto kF32 = DType::F32;
  constexpr auto kI64 = DType::I64;
  Type<BatchObject>("Batch", kDoc)
      .special<&item>(Py_mp_subscript, "__getitem__(self, key: str) -> NDArray[Any]")
      .special<&length>(Py_mp_length, "__len__(self) -> int")
      .special<&contains>(Py_sq_contains, "__contains__(self, key: object) -> bool")
      .special<&iterate>(Py_tp_iter, "__iter__(self) -> Iterator[str]")
      .special<&text>(Py_tp_repr, "__repr__(self) -> str")
      .method<&keys>("keys", "tuple[str, ...]", "The names that `batch[name]` takes.")
      .property<&views>("views",
                        "Whether a later call of a sampler, `sample(views=True)` or `sample_into`, "
                        "may fill this\n"
                        "batch again.")
      .property<&now_arrays>("now", "Mapping[str, NDArray[Any]]",
                             "Every field at the item's own step t (for sequences t to t + T - 1), "
                             "by name; read only.")
      .property<&next_arrays>("next", "Mapping[str, NDArray[Any]]",
                              "By name, each observation at t + length, where the return ends: "
                              "bootstrap\n"
                              "from its value. For sequences the observation after each step.")
      .property<&returns_arrays>(
          "returns", "Mapping[str, NDArray[np.float32]]",
          R"(The n-step return of each reward, by name, float32 [B]; for sequences with n_step
the return from each step on, [B, T], 0 beyond `lengths`; empty for sequences without n_step.)")
      .property<&frames_arrays>(
          "frames", "Mapping[str, NDArray[Any]]",
          R"(With unique_frames: for each observation, by name, the frames of an item, each once:
[B, F + n_step, *shape]; else empty. The stack of `now` is a view of the first F frames.
The stack of `next` begins at frame lengths[i], which is n_step, or less where the episode
ended sooner: `next` is a view if all lengths are n_step, as always with n_step=1, else a
new array. Behind a shorter window its last frame is repeated.
For sequences [B, F + T, *shape]: `now` and `next` are always views, and the stack of step
t begins at frame t. Behind a shorter item there are zeros, so the stacks of the steps that
it lacks show its last frames, too.)")
      .property<&discounts>(
          "discounts", "NDArray[np.float32]",
          R"(What to multiply the value of `next` by, float32 [B]: discount^length, times the steps'
own discounts; 0 after a termination. **Gamma is in it**: do not multiply by it again. For
sequences 1, or 0 if the last step terminated;
with n_step [B, T]: the discount of step t is for the value of the item's observation number
min(t + n_step, lengths[i]); number 0 is the first one of `now`, and number k > 0 the k-th of
`next`. With end='continue', if the episode ends sooner, it is for the episode's last observation:
the one after the first step from t on that is terminated or truncated.)")
      .property<&column<&Batch::weights, kF32>>(
          "weights", "NDArray[np.float32]",
          "Importance weights (N * P(i))^-beta, float32 [B], normalised as the call asked.")
      .property<&column<&Batch::probabilities, DType::F64>>(
          "probabilities", "NDArray[np.float64]",
          R"(P(i), float64 [B]: the probability with which one draw of the call picked the item. With
draws='without_replacement' the probability that the batch has the item, given the batch's
threshold, divided by B. In other draws with max_times_sampled the probability when the batch began:
an item whose limit the batch reaches is drawn no more, and the others more often.)")
      .property<&column<&Batch::keys, kI64>>(
          "item_keys", "NDArray[np.int64]",
          R"(Keys for ReplayBuffer.update_priorities, int64 [B]. A key names its item for as long as
the item is in the buffer.)")
      .property<&column<&Batch::episode_ids, kI64>>("episode_ids", "NDArray[np.int64]",
                                                    "Id of the item's episode, int64 [B].")
      .property<&column<&Batch::positions, kI64>>(
          "positions", "NDArray[np.int64]",
          "Position of the item's step in its episode, from 0, int64 [B].")
      .property<&column<&Batch::lengths, DType::I32>>(
          "lengths", "NDArray[np.int32]",
          "Steps in the item, int32 [B]: in its return, 1 to n_step, or in its sequence, 1 to T.")
      .method<&layout>("_layout", "tuple[Schema, _Window, bool]",
                       "The arguments of `_of`, for pickles.")
      .static_method<&of>("_of", "Batch", "A batch of n items, whose arrays the caller fills.",
                          arg("schema"), arg("window"), arg("unique_frames"), arg("n"))
      .add(module);
}

}  // namespace reprise::python
