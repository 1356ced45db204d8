#include "fields.hpp"
#include "items.hpp"
#include "texts.hpp"
#include "values.hpp"
#include "vocabulary.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::python {
namespace {

using Shape = std::vector<std::size_t>;

Shape shape_from(py::handle shape, const std::string& field) {
  Shape sizes;
  if (!py::isinstance<py::iterable>(shape) || py::isinstance<py::str>(shape)) {
    throw py::type_error("field '" + field + "': shape is " + py::repr(shape).cast<std::string>() +
                         "; allowed: a sequence of integers of at least 1");
  }
  const std::string what = "field '" + field + "': shape[";
  for (const py::handle size : py::iter(shape)) {
    sizes.push_back(number_from<std::size_t>(size, what + std::to_string(sizes.size()) + "]"));
  }
  return sizes;
}

/// The name of the method that declares a field of this role.
std::string name_of(Role role) {
  std::string name = traits(role).name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

/// Reads the argument `name` of that method.
template <Role R>
std::string name_from(py::handle name) {
  return text_from(name, "Schema." + name_of(R) + ": name");
}

Schema& declare(Schema& schema, const std::string& name, Role role, DType dtype,
                const Shape& shape) {
  check_name(schema, name, role);
  schema.declare(name, role, dtype, shape);
  return schema;
}

template <Role R>
Schema& declare_typed(Schema& schema, py::handle given, py::handle dtype, py::handle shape) {
  const std::string name = name_from<R>(given);
  if (dtype.is_none()) {  // numpy's default is float64.
    throw py::type_error("field '" + name +
                         "': dtype is None; allowed: bool, int8 to int64, uint8 to uint64, "
                         "float32, float64");
  }
  return declare(schema, name, R, dtype_from(dtype, name), shape_from(shape, name));
}

template <Role R>
Schema& declare_float(Schema& schema, py::handle name) {
  return declare(schema, name_from<R>(name), R, DType::F32, {});
}

/// Declares fields like the values of an example. Arrays keep their dtype; Python floats become
/// float32, ints int64, bools bool.
void infer(Schema& schema, Role role, const char* argument, py::handle examples) {
  if (examples.is_none() && role != Role::Observation) {
    return;
  }
  check_kind(py::hasattr(examples, "keys"), examples, "Schema.from_step: " + std::string(argument),
             "a mapping of names to example values");
  // Making arrays runs code of the values, which may change the mapping.
  for (const auto& [key, value] :
       items_of(py::dict(py::reinterpret_borrow<py::object>(examples)))) {
    const std::string name = text_from(key, "Schema.from_step: a name in " + std::string(argument));
    const py::array array = array_of(value.ptr(), "field '" + name + "'");
    const bool has_dtype = py::hasattr(value, "dtype");
    const DType dtype =
        !has_dtype && array.dtype().kind() == 'f' ? DType::F32 : dtype_from(array.dtype(), name);
    declare(schema, name, role, dtype, Shape(array.shape(), array.shape() + array.ndim()));
  }
}

Schema from_step(py::handle observations, py::handle columns, py::handle rewards,
                 const std::optional<Checked<std::string, "Schema.from_step: discount">>& discount,
                 py::handle recurrent_states) {
  check_kind(PySequence_Check(rewards.ptr()) != 0 && PyUnicode_Check(rewards.ptr()) == 0, rewards,
             "Schema.from_step: rewards", "a sequence of names");
  Schema schema;
  infer(schema, Role::Observation, "observations", observations);
  infer(schema, Role::Column, "columns", columns);
  for (const py::handle name : rewards) {
    declare(schema, text_from(name, "Schema.from_step: a name in rewards"), Role::Reward,
            DType::F32, {});
  }
  if (discount) {
    declare(schema, discount->value, Role::Discount, DType::F32, {});
  }
  infer(schema, Role::RecurrentState, "recurrent_states", recurrent_states);
  return schema;
}

py::tuple fields_of(const Schema& schema) {
  py::list fields;
  for (const FieldSpec& spec : schema.fields()) {
    fields.append(vocabulary().field(spec.name, vocabulary().role(static_cast<int>(spec.role)),
                                     numpy_dtype(spec.dtype), py::tuple(py::cast(spec.shape))));
  }
  return py::tuple(fields);
}

std::string text_of(const Schema& schema) {
  std::string text = "Schema(";
  for (const FieldSpec& spec : schema.fields()) {
    text += (text.back() == '(' ? "" : ", ") + spec.name + ": " + name_of(spec.role) + " " +
            describe(numpy_dtype(spec.dtype), py::tuple(py::cast(spec.shape)));
  }
  return text + ")";
}

constexpr const char* kDoc =
    R"(The fields of one step. Build it once, then give it to a ReplayBuffer, which copies it.

    schema = (reprise.Schema()
              .observation("state", np.float32, (4,))
              .column("action", np.int64)
              .reward())

Each method that declares a field returns the schema itself. A field is named by its schema
name; the next observation of field `x` is `next_x`, as keyword and as key of a batch.

dtypes: bool, int8 to int64, uint8 to uint64, float32, float64; anything else is a TypeError.
Errors: ValueError for an empty or duplicate name, for `end`, `priorities` and `final`, which
are keywords of the append calls, for a name that is that of a next observation, a dimension of
0, more than 64 fields or a second discount; the schema is then unchanged.
Thread safety: declare fields from one thread; reading is safe from any.)";

}  // namespace

void bind_schema(py::module_& module) {
  py::class_<Schema>(module, "Schema", kDoc)
      .def(py::init<>(), "__init__(self, /)\n--\n\nA schema without fields.")
      .def_static(
          "from_step", &from_step, py::kw_only(), py::arg("observations"),
          py::arg("columns") = py::none(), py::arg("rewards") = std::vector<std::string>{"reward"},
          py::arg("discount") = py::none(), py::arg("recurrent_states") = py::none(),
          R"(from_step(*, observations, columns=None, rewards=['reward'], discount=None, recurrent_states=None)
--

A schema like an example step: mappings of names to example values.

Arrays and numpy's numbers keep their dtype and shape. Python's floats, and lists of them,
become float32; ints int64; bools bool. Rewards and the discount are float32 scalars.)")
      .def("observation", &declare_typed<Role::Observation>, py::arg("name"), py::arg("dtype"),
           py::arg("shape") = py::tuple(), py::return_value_policy::reference,
           R"(observation(self, /, name, dtype, shape=())
--

What the agent sees; each step also has a next one. A shape of () is a scalar. It is stored once
per step, row-major.)")
      .def("column", &declare_typed<Role::Column>, py::arg("name"), py::arg("dtype"),
           py::arg("shape") = py::tuple(), py::return_value_policy::reference,
           R"(column(self, /, name, dtype, shape=())
--

Belongs to one step: an action, a log-probability, anything else.)")
      .def("reward", &declare_float<Role::Reward>, py::arg("name") = "reward",
           py::return_value_policy::reference, R"(reward(self, /, name='reward')
--

A float32 scalar that n-step returns are summed over. Several are allowed; each has its own.)")
      .def("discount", &declare_float<Role::Discount>, py::arg("name") = "discount",
           py::return_value_policy::reference, R"(discount(self, /, name='discount')
--

A float32 scalar in [0, 1] of each step that multiplies into Batch.discounts and into the later
rewards of Batch.returns (the convention of dm_env). One at most; of sequences a plain column.)")
      .def("recurrent_state", &declare_typed<Role::RecurrentState>, py::arg("name"),
           py::arg("dtype"), py::arg("shape"), py::return_value_policy::reference,
           R"(recurrent_state(self, /, name, dtype, shape)
--

What a recurrent network carries into a step, for `Sequences`: an item keeps that of its first
step (the stored state of Kapturowski et al., R2D2, 2019). Give it to `append` at each step with
which an item may begin: positions that are multiples of the period, all with end='overlap'. A
batch has it as [B, *shape]. A buffer of `Transitions` refuses it: declare a column there.)")
      .def(
          "require_finite",
          [](Schema& schema, const Checked<bool, "Schema.require_finite: on">& on) -> Schema& {
            schema.require_finite(on.value);
            return schema;
          },
          py::arg("on") = true, py::return_value_policy::reference,
          R"(require_finite(self, /, on=True)
--

Whether NaN and infinite values are refused, with a ValueError that names field, step and value, in
observations and rewards of float32 and float64. The step is not taken. Off by default; costs a pass
over these fields per step. A checkpoint keeps it; schemas that differ in it alone are equal.)")
      .def_property_readonly("requires_finite", &Schema::requires_finite,
                             "Whether NaN and infinite observations and rewards are refused.")
      .def_property_readonly("fields", &fields_of,
                             "The fields in order of declaration: a tuple of reprise.Field.")
      .def_property_readonly("step_bytes", &Schema::step_bytes,
                             "Bytes of one step's fields, without padding and the buffer's own\n"
                             "bookkeeping, and without recurrent states, which items keep.")
      .def(
          "__eq__", [](const Schema& a, const Schema& b) { return a == b; }, py::is_operator())
      .def("__repr__", &text_of);
}

}  // namespace reprise::python
