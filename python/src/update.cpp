#include "update.hpp"

#include "fast_method.hpp"
#include "numbers.hpp"
#include "released.hpp"
#include "scalars.hpp"
#include "values.hpp"
#include "vocabulary.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::python {
namespace {

constexpr const char* kCall = "ReplayBuffer.update_priorities";

/// Reads keys as a batch has them, without a copy if they are contiguous.
std::span<const ItemKey> keys_from(PyObject* given, py::object& owner) {
  const std::string expected = "keys: expected int64 of shape (n,), as Batch.keys; given ";
  if (!py::isinstance<py::array>(given)) {
    throw py::type_error(expected + Py_TYPE(given)->tp_name);
  }
  auto array = py::reinterpret_borrow<py::array>(given);
  const py::dtype dtype = array.dtype();
  if (dtype.kind() != 'i' || dtype.itemsize() != sizeof(std::int64_t)) {
    throw py::type_error(expected + describe(dtype, array.attr("shape")));
  }
  if (array.ndim() != 1) {
    throw std::invalid_argument(expected + describe(dtype, array.attr("shape")));
  }
  constexpr int kPlain =
      py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  if ((array.flags() & kPlain) != kPlain ||
      py::detail::array_descriptor_proxy(dtype.ptr())->byteorder == '>') {
    array = converted(array, py::dtype("int64"), "keys");
  }
  // An ItemKey has only its 64 bits, so the array can be read as keys.
  const std::span<const ItemKey> keys(static_cast<const ItemKey*>(array.data()),
                                      static_cast<std::size_t>(array.size()));
  owner = std::move(array);
  return keys;
}

/// Reads the priorities of an update; None is refused.
std::span<const float> update_from(PyObject* given, const char* call, py::object& owner) {
  if (given == Py_None) {
    throw py::type_error(std::string(call) +
                         ": priorities: expected float32 of shape (n,); given None");
  }
  return priorities_from(given, owner);
}

struct UpdateArguments {
  PyObject* keys = nullptr;
  PyObject* priorities = nullptr;
  PyObject* selector = nullptr;
};

UpdateArguments read(const Arguments& arguments) {
  check_positional(arguments, 3, kCall);
  PyObject* given[3] = {};
  constexpr const char* kNames[] = {"keys", "priorities", "selector"};
  for (py::ssize_t i = 0; i < arguments.positional(); ++i) {
    given[i] = arguments[i];
  }
  for (py::ssize_t i = 0; i < arguments.named(); ++i) {
    std::size_t at = 0;
    while (at < 3 && PyUnicode_CompareWithASCIIString(arguments.name(i), kNames[at]) != 0) {
      ++at;
    }
    if (at == 3 || given[at] != nullptr) {
      throw py::type_error(std::string(kCall) + ": unexpected keyword " +
                           py::repr(py::handle(arguments.name(i))).cast<std::string>());
    }
    given[at] = arguments.value(i);
  }
  if (given[0] == nullptr || given[1] == nullptr) {
    throw py::type_error(std::string(kCall) + ": " + (given[0] == nullptr ? "keys" : "priorities") +
                         " is missing");
  }
  return {given[0], given[1], given[2]};
}

std::size_t selector_from(PyObject* given) {
  return given == nullptr
             ? 0
             : number_from<std::size_t>(given, "ReplayBuffer.update_priorities: selector");
}

/// Copies the values that a call checks and then reads without the GIL, because other threads may
/// write to the arrays meanwhile. Call it after the last code of the user has run, because that
/// code may make such a call too and overwrite the copy.
std::span<const ItemKey> copied(std::span<const ItemKey> keys) {
  thread_local std::vector<ItemKey> own;
  own.assign(keys.begin(), keys.end());
  return own;
}
std::span<const float> copied(std::span<const float> priorities) {
  thread_local std::vector<float> own;
  own.assign(priorities.begin(), priorities.end());
  return own;
}

py::object result_tuple(const UpdateResult& result) {
  return named_tuple(vocabulary().update_result, py::make_tuple(result.applied, result.stale));
}

py::object update_priorities(SharedBuffer& shared, const Arguments& arguments) {
  const SharedBuffer::Call under_way(shared, kCall);
  const UpdateArguments given = read(arguments);
  py::object keys_owner;
  py::object priorities_owner;
  // Keys are read last, because reading them runs no code of the user, which might resize the
  // arrays that were read before.
  const std::size_t selector = selector_from(given.selector);
  const std::span<const float> priorities = update_from(given.priorities, kCall, priorities_owner);
  const std::span<const ItemKey> keys = keys_from(given.keys, keys_owner);
  if (keys.size() != priorities.size()) {
    throw std::invalid_argument(
        "priorities: expected float32 of shape (" + std::to_string(keys.size()) +
        ",), one for each key; given shape (" + std::to_string(priorities.size()) + ",)");
  }
  const std::span<const ItemKey> own_keys = copied(keys);
  const std::span<const float> own_priorities = copied(priorities);
  UpdateResult result;
  {
    const Released released;
    result = shared.buffer.update_priorities(own_keys, own_priorities, selector);
  }
  return result_tuple(result);
}

std::optional<std::int64_t> find(SharedBuffer& shared,
                                 Checked<std::uint64_t, "ReplayBuffer.find: episode"> episode,
                                 Checked<std::uint64_t, "ReplayBuffer.find: position"> position) {
  const SharedBuffer::Call under_way(shared, "ReplayBuffer.find");
  const Released released;
  const std::optional<ItemKey> key = shared.buffer.find(episode, position);
  return key ? std::optional(static_cast<std::int64_t>(key->bits)) : std::nullopt;
}

py::object update_episode(
    SharedBuffer& shared,
    Checked<std::uint64_t, "ReplayBuffer.update_episode_priorities: episode"> episode,
    Checked<std::uint64_t, "ReplayBuffer.update_episode_priorities: position"> position,
    py::handle given,
    Checked<std::size_t, "ReplayBuffer.update_episode_priorities: selector"> selector) {
  const SharedBuffer::Call under_way(shared, "ReplayBuffer.update_episode_priorities");
  py::object owner;
  const std::span<const float> priorities =
      copied(update_from(given.ptr(), "ReplayBuffer.update_episode_priorities", owner));
  UpdateResult result;
  {
    const Released released;
    result = shared.buffer.update_episode_priorities(episode, position, priorities, selector);
  }
  return result_tuple(result);
}

constexpr const char* kUpdate = R"(update_priorities($self, /, keys, priorities, selector=0)
--

Sets raw priorities, such as absolute TD errors, of the items named by keys.

keys: int64 [n], of Batch.keys; anything else is a TypeError.
priorities: float32 [n], finite, at least 0; other numbers are converted.
selector: whose, by its place among the buffer's selectors.
Returns UpdateResult(applied, stale). The last of repeated keys wins; stale keys, whose item was
evicted, are counted and skipped.
ValueError, before anything is changed, for shapes that differ, a priority that is NaN, infinite,
negative or too large to be weighed, a key of another buffer, an unknown selector.
Both are copied before the call gives the GIL up: other threads may write to them meanwhile.)";

}  // namespace

void bind_updates(py::class_<SharedBuffer, std::shared_ptr<SharedBuffer>>& type) {
  add_fast_method<&update_priorities>(type, "update_priorities", kUpdate);
  type.def("find", &find, py::arg("episode"), py::arg("position"),
           R"(find(self, /, episode, position)
--

The key of the item that begins with a step, named as by Batch.episode_ids and positions or
Writer.episode_id, as an int; None if no item does, if it is gone, or not decided yet.
RuntimeError without episode_index.)")
      .def("update_episode_priorities", &update_episode, py::arg("episode"), py::arg("position"),
           py::arg("priorities"), py::arg("selector") = 0,
           R"(update_episode_priorities(self, /, episode, position, priorities, selector=0)
--

Sets the priorities, float32 [n], of consecutive steps of an episode, from a position on. Steps with
which no item begins count as stale. Errors as update_priorities; RuntimeError without
episode_index.)");
}

}  // namespace reprise::python
