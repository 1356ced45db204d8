#include "batch.hpp"
#include "fast_method.hpp"

#include <string>

namespace reprise::python {
namespace {

py::object item(BatchObject& batch, PyObject* name) {
  py::object array = batch.find(name);
  if (!array) {
    const FieldTable& table = batch.table();
    throw py::key_error("no field " + py::repr(py::handle(name)).cast<std::string>() +
                        "; fields: " + table.names(~std::uint64_t{0}) + ", " +
                        table.names(table.observations(), "next_"));
  }
  return array;
}

template <py::object (BatchObject::*kArrays)()>
py::object arrays(BatchObject& batch) {
  return (batch.*kArrays)();
}

template <BatchObject::Column kColumn>
py::object column(BatchObject& batch) {
  return batch.column(kColumn);
}

py::tuple names(const BatchObject& batch) {
  py::list names;
  for (const FieldInfo& field : batch.table().fields()) {
    names.append(field.name);
    if (field.traits().has_next) {
      names.append(field.next_name);
    }
  }
  return py::tuple(names);
}

constexpr const char* kDoc = R"(A batch of B items as named numpy arrays, B items first.

    batch["state"], batch["next_state"], batch["action"], batch.returns["reward"],
    batch.discounts, batch.weights, batch.keys

Of Transitions an observation is [B, *shape], with frame_stack F > 1 [B, F, *shape], oldest frame
first; other fields are [B, *shape]. Of Sequences of T = burn_in + length steps every field is
[B, T, *shape] in the order of time, but a recurrent state is [B, *shape].

The arrays view memory of the sampler, without a copy, and may be changed in place. They are valid
until the sampler's next `sample`, whose contents they then show: as long as n stays the same the
same array objects are given out again, so reshape views of them, not them. `sample(..., owned=True)`
gives a batch of its own, a sampler made with checked=True refuses the use of an old one. The memory
lives as long as any array of it.

torch.from_numpy shares the memory of bool, uint8, int8 to int64, float32 and float64, which are all
the types of torch 1.13: uint16, uint32 and uint64 it refuses, for which there is
`batch["x"].astype(np.int64)`, a copy, or `.view(np.int16)`. DLPack (np.from_dlpack,
torch.from_dlpack) shares the same types but bool, which numpy's refuses before 1.25, and between
numpy arrays unsigned integers too.

One thread at a time.)";

constexpr const char* kItem = R"(__getitem__($self, name, /)
--

`batch["x"]` is `batch.now["x"]`, `batch["next_x"]` is `batch.next["x"]`. KeyError for a name that
is no field.)";

}  // namespace

void bind_batch(py::module_& module) {
  using Column = BatchObject::Column;
  py::class_<BatchObject> type(module, "Batch", kDoc);
  add_fast_item<&item>(type, "__getitem__", kItem);
  add_fast_property<&arrays<&BatchObject::now_arrays>>(
      type, "now",
      "Every field at the item's own step t (of sequences t to t + T - 1), by name; read only.");
  add_fast_property<&arrays<&BatchObject::next_arrays>>(
      type, "next",
      "Of each observation, by name, the one that the return leads to, at t + length: what to\n"
      "bootstrap from. Of sequences the observation after each step.");
  add_fast_property<&arrays<&BatchObject::returns_arrays>>(
      type, "returns",
      "The n-step return of each reward, by name, float32 [B]; empty of sequences.");
  add_fast_property<&column<Column::Discounts>>(
      type, "discounts",
      "What to multiply the value of `next` by, float32 [B]: discount^length, times the steps' "
      "own\n"
      "discounts; 0 after a termination. Of sequences 1, or 0 if the last step terminated.");
  add_fast_property<&column<Column::Weights>>(
      type, "weights",
      "Importance weights (N * P(i))^-beta, float32 [B], normalised as the call asked.");
  add_fast_property<&column<Column::Probabilities>>(
      type, "probabilities",
      "P(i), float64 [B]: the probability with which one draw of the call picked the item.");
  add_fast_property<&column<Column::Keys>>(
      type, "keys",
      "Keys for ReplayBuffer.update_priorities, int64 [B]. They name items for as long as these "
      "are\n"
      "in the buffer; copy them to use them after the next sample.");
  add_fast_property<&column<Column::EpisodeIds>>(type, "episode_ids",
                                                 "Id of the item's episode, int64 [B].");
  add_fast_property<&column<Column::Positions>>(
      type, "positions", "Position of the item's step in its episode, from 0, int64 [B].");
  add_fast_property<&column<Column::Lengths>>(
      type, "lengths",
      "Steps in the item, int32 [B]: in its return, 1 to n_step, or in its sequence, 1 to T.");
  type.def(
          "__len__",
          [](const BatchObject& batch) {
            batch.check();
            return batch.size();
          },
          "Items in the batch, B.")
      .def(
          "__contains__",
          [](const BatchObject& batch, py::handle name) {
            return batch.table().find(name.ptr()).field != nullptr;
          },
          "Whether `batch[name]` is there.")
      .def(
          "__iter__", [](const BatchObject& batch) { return py::iter(names(batch)); },
          "Over the names that `batch[name]` takes.")
      .def("keys_of_fields", &names, R"(keys_of_fields(self, /)
--

The names that `batch[name]` takes.)")
      .def("__repr__", [](const BatchObject& batch) {
        return "Batch(" + std::to_string(batch.size()) + " items of " +
               batch.table().names(~std::uint64_t{0}) + ")";
      });
}

}  // namespace reprise::python
