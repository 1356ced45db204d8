#include <reprise/schema.hpp>

#include "fields.hpp"
#include "type.hpp"
#include "values.hpp"
#include "vocabulary.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprise::python {
namespace {

using Shape = std::vector<std::size_t>;

Shape shape_from(nb::handle shape, const std::string& field) {
  const bool text = PyUnicode_Check(shape.ptr());
  const nb::object all = text ? nb::object() : nb::steal(PyObject_GetIter(shape.ptr()));
  PyErr_Clear();
  check_kind(all.is_valid(), shape, "field '" + field + "': shape",
             "a sequence of integers of at least 1");
  Shape sizes;
  for (const nb::handle size : nb::list(all)) {
    sizes.push_back(value_from<std::size_t>(
        size, "field '" + field + "': shape[" + std::to_string(sizes.size()) + "]"));
  }
  // An array of numpy 1 has at most 32, and batches put items, times and frames before these.
  constexpr std::size_t kMostDimensions = 29;
  if (sizes.size() > kMostDimensions) {
    throw std::invalid_argument("field '" + field + "': shape has " + std::to_string(sizes.size()) +
                                " dimensions; allowed: at most " + std::to_string(kMostDimensions));
  }
  return sizes;
}

void declare(Schema& schema, const std::string& name, Role role, DType dtype, const Shape& shape) {
  check_name(schema, name, role);
  schema.declare(name, role, dtype, shape);
}

std::string role_name(Role role) {
  std::string name = traits(role).name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

/// Methods that declare a field give the schema itself.
template <Role R>
nb::object declare_typed(nb::handle self, const Arguments& arguments) {
  const auto name = arguments.get<std::string>(0);
  const DType dtype = dtype_from(arguments[1], name);
  declare(self_of<Schema>(self.ptr()), name, R, dtype,
          arguments[2] == nullptr ? Shape() : shape_from(arguments[2], name));
  return nb::borrow(self);
}

template <Role R>
nb::object declare_float(nb::handle self, const Arguments& arguments) {
  declare(self_of<Schema>(self.ptr()), arguments.get<std::string>(0, role_name(R)), R, DType::F32,
          {});
  return nb::borrow(self);
}

nb::object require_finite(nb::handle self, const Arguments& arguments) {
  self_of<Schema>(self.ptr()).require_finite(arguments.get<bool>(0, true));
  return nb::borrow(self);
}

nb::object compress(nb::handle self, const Arguments& arguments) {
  auto& schema = self_of<Schema>(self.ptr());
  const auto name = arguments.get<std::string>(0);
  const auto field = schema.find(name);
  if (!field) {
    throw std::invalid_argument("Schema.compress: there is no field '" + name + "'");
  }
  schema.compress(*field);
  return nb::borrow(self);
}

/// Fields like the values of an example: arrays keep their dtype; Python's floats are float32,
/// ints int64, bools bool.
void infer(Schema& schema, Role role, const Arguments& arguments, std::size_t at) {
  const nb::handle examples(arguments[at]);
  if (role != Role::Observation && !arguments.has(at)) {
    return;
  }
  check_kind(nb::hasattr(examples, "keys"), examples, arguments.what(at),
             "a mapping of names to example values");
  const std::string parameter = arguments.what(at).text().substr(sizeof("Schema.from_step: ") - 1);
  // Making arrays runs the values' code, which may change the mapping.
  const nb::object held = nb::module_::import_("builtins").attr("dict")(examples);
  for (const nb::handle pair : nb::list(held.attr("items")())) {
    const std::string name = text_from(pair[0], "Schema.from_step: a name in " + parameter);
    const nb::object value = pair[1];
    const nb::object array = array_of(value, "field '" + name + "'");
    const Array read(array);
    const DType dtype = !nb::hasattr(value, "dtype") && read.kind() == 'f'
                            ? DType::F32
                            : dtype_from(read.dtype(), name);
    declare(schema, name, role, dtype, Shape(read.shape().begin(), read.shape().end()));
  }
}

nb::object from_step(const Arguments& arguments) {
  Schema schema;
  infer(schema, Role::Observation, arguments, 0);
  infer(schema, Role::Column, arguments, 1);
  if (arguments[2] == nullptr) {
    schema.reward("reward");
  } else {
    const nb::handle rewards(arguments[2]);
    check_kind(PySequence_Check(rewards.ptr()) != 0 && !PyUnicode_Check(rewards.ptr()), rewards,
               arguments.what(2), "a sequence of names");
    for (const nb::handle name : nb::tuple(rewards)) {
      declare(schema, text_from(name, "Schema.from_step: a name in rewards"), Role::Reward,
              DType::F32, {});
    }
  }
  if (const auto discount = arguments.optional<std::string>(3)) {
    declare(schema, *discount, Role::Discount, DType::F32, {});
  }
  infer(schema, Role::RecurrentState, arguments, 4);
  infer(schema, Role::MutableColumn, arguments, 5);
  return make_object<Schema>(std::move(schema));
}

nb::object fields_of(Schema& schema) {
  nb::list fields;
  const nb::object field = vocabulary("Field");
  const nb::object role = vocabulary("Role");
  for (const FieldSpec& spec : schema.fields()) {
    nb::list shape;
    for (const std::size_t size : spec.shape) {
      shape.append(size);
    }
    fields.append(field(spec.name.c_str(), role(static_cast<int>(spec.role)), dtype_of(spec.dtype),
                        nb::tuple(shape)));
  }
  return nb::tuple(fields);
}

nb::object compressed(Schema& schema) {
  nb::list names;
  for (std::size_t i = 0; i < schema.fields().size(); ++i) {
    if (schema.compresses(i)) {
      names.append(schema.fields()[i].name.c_str());
    }
  }
  return nb::tuple(names);
}

nb::object text(Schema& schema) {
  std::string text = "Schema(";
  for (const FieldSpec& spec : schema.fields()) {
    text += (&spec == schema.fields().data() ? "" : ", ") + spec.name + ": " +
            role_name(spec.role) + " " + described(name_of(spec.dtype), spec.shape) +
            (schema.compresses(static_cast<std::size_t>(&spec - schema.fields().data()))
                 ? ", compressed"
                 : "");
  }
  return text_of(text + ")");
}

nb::object compare(Schema& schema, PyObject* other, int how) {
  if (!nb::isinstance<Schema>(other) || (how != Py_EQ && how != Py_NE)) {
    return nb::borrow(Py_NotImplemented);
  }
  const bool equal = schema == self_of<Schema>(other);
  return nb::borrow(equal == (how == Py_EQ) ? Py_True : Py_False);
}

void make(Schema* place, const Arguments& /*none*/) {
  new (place) Schema();
}

constexpr const char* kDoc =
    R"(The fields of one step. Build it once, then give it to a ReplayBuffer, which copies it.

    schema = (reprise.Schema()
              .observation("state", np.float32, (4,))
              .column("action", np.int64)
              .reward())

Each method that declares a field returns the schema itself. A field is named by its schema
name; the next observation of field `x` is `next_x`, as keyword and as key of a batch.

dtypes: bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, also as dtypes of
torch; anything else is a TypeError. bfloat16 needs the package ml_dtypes.
Errors: ValueError for an empty or duplicate name, for `end`, `priorities` and `final`, which
are keywords of the append calls, for a name that is that of a next observation, a dimension of
0, more than 64 fields or a second discount; the schema is then unchanged.
Thread safety: declare fields from one thread; reading is safe from any.)";

}  // namespace

void bind_schema(nb::module_& module) {
  Type<Schema>("Schema", kDoc)
      .constructor<&make>("__init__(self) -> None", "It has no fields at first.")
      .static_method<&from_step>(
          "from_step(*, observations: Mapping[str, ArrayLike], "
          "columns: Mapping[str, ArrayLike] | None = None, rewards: Sequence[str] = ['reward'], "
          "discount: str | None = None, recurrent_states: Mapping[str, ArrayLike] | None = None, "
          "mutable_columns: Mapping[str, ArrayLike] | None = None) -> Schema",
          R"(A schema like an example step: mappings of names to example values.

Arrays and numpy's numbers keep their dtype and shape. Python's floats, and lists of them,
become float32; ints int64; bools bool. Rewards and the discount are float32 scalars.)")
      .method<&declare_typed<Role::Observation>>(
          "observation(self, name: str, dtype: DTypeLike, shape: Sequence[int] = ()) -> Schema",
          R"(What the agent sees; each step also has a next one. A shape of () is a scalar. It is stored once
per step, row-major.)")
      .method<&declare_typed<Role::Column>>(
          "column(self, name: str, dtype: DTypeLike, shape: Sequence[int] = ()) -> Schema",
          "Belongs to one step: an action, a log-probability, anything else.")
      .method<&declare_typed<Role::MutableColumn>>(
          "mutable_column(self, name: str, dtype: DTypeLike, shape: Sequence[int] = ()) -> Schema",
          R"(A column whose values `ReplayBuffer.update` may replace while the step is stored, such as latents
or values that a learner makes anew. Appended and drawn as any column; each value is read whole. It
takes whole words of 8 bytes, and 4 bytes more per step. A save writes what changed.)")
      .method<&declare_float<Role::Reward>>(
          "reward(self, name: str = 'reward') -> Schema",
          "A float32 scalar that n-step returns are summed over. Several are allowed; each has its "
          "own.")
      .method<&declare_float<Role::Discount>>(
          "discount(self, name: str = 'discount') -> Schema",
          R"(A float32 scalar in [0, 1] of each step that multiplies into Batch.discounts and into the later
rewards of Batch.returns (the convention of dm_env). One at most; of sequences without n_step a
plain column.)")
      .method<&declare_typed<Role::RecurrentState>>(
          "recurrent_state(self, name: str, dtype: DTypeLike, shape: Sequence[int]) -> Schema",
          R"(What a recurrent network carries into a step, for `Sequences`: an item keeps that of its first
step (the stored state of Kapturowski et al., R2D2, 2019). Give it to `append` at each step with
which an item may begin: positions that are multiples of the period, all with end='overlap'. A
batch has it as [B, *shape]. A buffer of `Transitions` refuses it: declare a column there.)")
      .method<&require_finite>(
          "require_finite(self, on: bool = True) -> Schema",
          R"(Whether NaN and infinite values are refused, with a ValueError that names field, step and value, in
observations and rewards of floats. The step is not taken. Off by default; costs a pass
over these fields per step. A checkpoint keeps it; schemas that differ in it alone are equal.)")
      .method<&compress>(
          "compress(self, name: str) -> Schema",
          R"(Keeps an observation compressed in memory, losslessly, for images that resemble each other: a
frame of an Atari game takes a fifth to a thirtieth. Batches stay as they are. An append takes 1
to 5 us more for 7 KB, and a frame that is drawn 0.3 to 1 us. What cannot be compressed takes 8
bytes more. Schemas that differ in it alone are equal. The method stats of a buffer tells both
sizes. ValueError for other fields and for observations of less than 512 bytes.)")
      .forward_property<&Schema::requires_finite>(
          "requires_finite(self) -> bool",
          "Whether NaN and infinite observations and rewards are refused.")
      .property<&compressed>("compressed(self) -> tuple[str, ...]",
                             "Names of the observations that are kept compressed in memory.")
      .property<&fields_of>("fields(self) -> tuple[Field, ...]",
                            "The fields in order of declaration: a tuple of reprise.Field.")
      .forward_property<&Schema::step_bytes>(
          "step_bytes(self) -> int",
          "Bytes of one step's fields, without padding and the buffer's own\n"
          "bookkeeping, and without recurrent states, which items keep.")
      .special<&compare, PyObject*, PyObject*, int>(Py_tp_richcompare,
                                                    "__eq__(self, other: object) -> bool")
      .special<&text, PyObject*>(Py_tp_repr, "__repr__(self) -> str")
      .add(module);
}

}  // namespace reprise::python
