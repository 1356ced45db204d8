#include <reprise/schema.hpp>

#include "binding/type.hpp"
#include "fields/fields.hpp"

namespace reprise::python {
namespace {

using Shape = std::vector<std::size_t>;

Shape shape_from(nb::handle shape, const std::string& field) {
  const bool is_text = PyUnicode_Check(shape.ptr());
  const nb::object sequence = is_text ? nb::object() : nb::steal(PyObject_GetIter(shape.ptr()));
  PyErr_Clear();
  check_kind(sequence.is_valid(), shape, field + ": shape", "a sequence of integers of at least 1");
  Shape sizes;
  for (const nb::handle size : nb::list(sequence)) {
    sizes.push_back(
        value_from<std::size_t>(size, field + ": shape[" + std::to_string(sizes.size()) + "]"));
  }
  // numpy 1 allows 32 dimensions, of which batches use three for items, times and frames.
  constexpr std::size_t kMaxDimensions = 29;
  if (sizes.size() > kMaxDimensions) {
    fail(field, ": shape has ", sizes.size(), " dimensions; allowed: at most ", kMaxDimensions);
  }
  return sizes;
}

void declare(CallName call, Schema& schema, const std::string& name, Role role, DType dtype,
             const Shape& shape) {
  check_name(call.text, schema, name, role);
  schema.declare(name, role, dtype, shape);
}

std::string role_name(Role role) {
  std::string name = traits(role).name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

using DTypeLike = Given<"DTypeLike">;
using Sizes = Given<"Sequence[int]">;
using Examples = Given<"Mapping[str, ArrayLike]">;

/// The method that declares a field of role R. It returns the schema itself.
template <Role R>
nb::object declare_typed(nb::handle self, CallName call, const std::string& name, DTypeLike type,
                         Sizes shape) {
  const std::string field = field_text(call.text, name);
  const DType dtype = dtype_from(type, field);
  declare(call, self_of<Schema>(self.ptr()), name, R, dtype,
          shape.is_valid() ? shape_from(shape, field) : Shape());
  return nb::borrow(self);
}

template <Role R>
nb::object declare_float(nb::handle self, CallName call, const std::string& name) {
  declare(call, self_of<Schema>(self.ptr()), name, R, DType::F32, {});
  return nb::borrow(self);
}

nb::object declare_version(nb::handle self, CallName call, const std::string& name) {
  declare(call, self_of<Schema>(self.ptr()), name, Role::Version, DType::I64, {});
  return nb::borrow(self);
}

nb::object require_finite(nb::handle self, bool on) {
  self_of<Schema>(self.ptr()).require_finite(on);
  return nb::borrow(self);
}

nb::object compress(nb::handle self, const std::string& name) {
  auto& schema = self_of<Schema>(self.ptr());
  const auto field = schema.find(name);
  if (!field) {
    fail("Schema.compress: there is no field '", name, "'");
  }
  schema.compress(*field);
  return nb::borrow(self);
}

/// Declares a field for each value of an example; float becomes float32, int int64, bool bool.
void infer(CallName call, Schema& schema, Role role, nb::handle examples,
           const std::string& parameter) {
  check_kind(nb::hasattr(examples, "keys"), examples, "Schema.from_step: " + parameter,
             "a mapping of names to example values");
  // Making arrays runs code of the values, which may change the mapping, so a copy is read.
  const nb::object copy = nb::module_::import_("builtins").attr("dict")(examples);
  for (const nb::handle pair : nb::list(copy.attr("items")())) {
    const std::string name =
        value_from<std::string>(pair[0], "Schema.from_step: a name in " + parameter);
    const nb::object value = pair[1];
    const std::string field = field_text(call.text, name);
    const nb::object array = array_of(value, field);
    const Array read(array);
    const DType dtype = !nb::hasattr(value, "dtype") && read.kind() == 'f'
                            ? DType::F32
                            : dtype_from(read.dtype(), field);
    declare(call, schema, name, role, dtype, Shape(read.shape().begin(), read.shape().end()));
  }
}

nb::object from_step(CallName call, Examples observations, Examples columns,
                     Given<"Sequence[str]"> rewards, const std::optional<std::string>& discount,
                     Examples recurrent_states, Examples mutable_columns) {
  Schema schema;
  infer(call, schema, Role::Observation, observations, "observations");
  const auto infer_if_given = [&](Role role, Examples examples, const char* parameter) {
    if (examples.is_valid()) {
      infer(call, schema, role, examples, parameter);
    }
  };
  infer_if_given(Role::Column, columns, "columns");
  if (!rewards.is_valid()) {
    schema.reward("reward");
  } else {
    check_kind(PySequence_Check(rewards.ptr()) != 0 && !PyUnicode_Check(rewards.ptr()), rewards,
               "Schema.from_step: rewards", "a sequence of names");
    for (const nb::handle name : nb::tuple(rewards)) {
      declare(call, schema, value_from<std::string>(name, "Schema.from_step: a name in rewards"),
              Role::Reward, DType::F32, {});
    }
  }
  if (discount) {
    declare(call, schema, *discount, Role::Discount, DType::F32, {});
  }
  infer_if_given(Role::RecurrentState, recurrent_states, "recurrent_states");
  infer_if_given(Role::MutableColumn, mutable_columns, "mutable_columns");
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

nb::object compare(Schema& schema, PyObject* other, int comparison) {
  if (!nb::isinstance<Schema>(other) || (comparison != Py_EQ && comparison != Py_NE)) {
    return nb::borrow(Py_NotImplemented);
  }
  const bool equal = schema == self_of<Schema>(other);
  return nb::borrow(equal == (comparison == Py_EQ) ? Py_True : Py_False);
}

void make(Schema* place) {
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
Errors: ValueError for an empty or duplicate name, for `end`, `priorities`, `final` and `env_ids`,
which are keywords of the append calls, for the name of a next observation, a dimension of 0, more
than 64 fields, a second discount or version; the schema is then unchanged.
Thread safety: declare fields from one thread; any threads may read the schema.)";

}  // namespace

void bind_schema(nb::module_& module) {
  Type<Schema>("Schema", kDoc)
      .constructor<&make>("It has no fields at first.")
      .static_method<&from_step>(
          "from_step", "Schema",
          R"(A schema like an example step: mappings of names to example values.

Arrays and numpy's numbers keep their dtype and shape. Python's floats, and lists of them,
become float32; ints int64; bools bool. Rewards and the discount are float32 scalars.)",
          keyword("observations"), keyword("columns", "None"), keyword("rewards", "['reward']"),
          keyword("discount", std::nullopt), keyword("recurrent_states", "None"),
          keyword("mutable_columns", "None"))
      .method<&declare_typed<Role::Observation>>(
          "observation", "Schema",
          R"(What the agent sees; each step also has a next observation. A shape of () is a scalar.
An observation is stored once per step, row-major.)",
          arg("name"), arg("dtype"), arg("shape", "()"))
      .method<&declare_typed<Role::Column>>(
          "column", "Schema", "Belongs to one step: an action, a log-probability, anything else.",
          arg("name"), arg("dtype"), arg("shape", "()"))
      .method<&declare_typed<Role::MutableColumn>>(
          "mutable_column", "Schema",
          R"(A column whose values `ReplayBuffer.update` may replace while the step is stored, such as latents
or values that a learner makes anew. It is appended and drawn as any column, and takes whole words
of 8 bytes, and 4 bytes more per step. A draw beside an update reads each value whole, the old one
or the new one. A save writes what changed.)",
          arg("name"), arg("dtype"), arg("shape", "()"))
      .method<&declare_float<Role::Reward>>(
          "reward", "Schema",
          "A float32 scalar that n-step returns are summed over. Several are allowed; each has its "
          "own returns.",
          arg("name", "reward"))
      .method<&declare_float<Role::Discount>>(
          "discount", "Schema",
          R"(A float32 scalar in [0, 1] of each step that multiplies into Batch.discounts and into the later
rewards of Batch.returns (the convention of dm_env). At most one; for sequences without n_step it is
a plain column.)",
          arg("name", "discount"))
      .method<&declare_version>(
          "version", "Schema",
          R"(The version of the policy that made a step, an int64: the last `Writer.set_version`, or 0 before
the first. An append may leave the field out; a value given by its name has precedence. A batch has
the field as any column, and `max_staleness` of ReplayBuffer needs it. At most one.)",
          arg("name", "version"))
      .method<&declare_typed<Role::RecurrentState>>(
          "recurrent_state", "Schema",
          R"(What a recurrent network carries into a step, for sequences: an item keeps the state of its first
step (the stored state of Kapturowski et al., R2D2, 2019). Give it to `append` at each step with
which an item may begin: positions that are multiples of the period, with end='overlap' and
'continue' all positions. A batch has it as [B, *shape]. A buffer of `Transitions` refuses it:
declare a column there.)",
          arg("name"), arg("dtype"), arg("shape"))
      .method<&require_finite>(
          "require_finite", "Schema",
          R"(Whether NaN and infinite values are refused, with a ValueError that names field, step and value, in
observations and rewards of floats. The refused step is not taken. Off by default; costs a pass over
these fields per step. A checkpoint keeps the setting; schemas that differ in it alone are equal.)",
          arg("on", true))
      .method<&compress>(
          "compress", "Schema",
          R"(Keeps an observation compressed in memory, losslessly, for images that resemble each other: a
frame of an Atari game takes a fifth to a thirtieth. Batches stay as they are. An append takes 1
to 5 us more for 7 KB, and a drawn frame 0.3 to 1 us more. A frame that cannot be compressed takes
8 bytes more. Schemas that differ in this setting alone are equal. `ReplayBuffer.stats` has the
bytes with and without compression. ValueError for other fields and for observations of less than
512 bytes.)",
          arg("name"))
      .property<&Schema::requires_finite>(
          "requires_finite", "Whether NaN and infinite observations and rewards are refused.")
      .property<&compressed>("compressed", "tuple[str, ...]",
                             "Names of the observations that are kept compressed in memory.")
      .property<&fields_of>("fields", "tuple[Field, ...]",
                            "The fields in order of declaration: a tuple of reprise.Field.")
      .property<&Schema::step_bytes>(
          "step_bytes",
          "Bytes of one step's fields, without padding and the buffer's own\n"
          "bookkeeping, and without recurrent states, which items keep.")
      .special<&compare>(Py_tp_richcompare, "__eq__(self, other: object) -> bool")
      .special<&text>(Py_tp_repr, "__repr__(self) -> str")
      .add(module);
}

}  // namespace reprise::python
