#include "guest.hpp"
#include "writer.hpp"

#include <cstring>

namespace reprise::python {
namespace {

nb::object iterate(VectorWriterObject& writers) {
  nb::list all;
  for (Py_ssize_t e = 0; e < writers.size(); ++e) {
    all.append(writers.item(nb::int_(e).ptr()));
  }
  return checked(PyObject_GetIter(all.ptr()));
}

constexpr const char* kDoc =
    R"(Appends the steps of a vector of E environments in one call; made by ReplayBuffer.vector_writer.

    first, _ = envs.reset()
    writers.begin(state=first)
    while True:
        next, reward, terminated, truncated, info = envs.step(action)
        writers.append(action=action, reward=reward, next_state=next,
                       end=reprise.ends(terminated, truncated), final=...)

Row e of each [E, ...] array belongs to environment e; with `env_ids=ids`, row i of [len(ids), ...]
to environment ids[i], for simulators that step a part of their environments at a time, as EnvPool
in its asynchronous mode:

    writers = replay.vector_writer(envs)  # 'next_step', as envs declares it.
    envs.async_reset()
    writers.begin()                       # What is received first is first observations.
    while True:
        seen, reward, terminated, truncated, info = envs.recv()
        ids = info["env_id"]
        writers.append(env_ids=ids, action=action[ids], reward=reward, next_state=seen,
                       end=reprise.ends(terminated, truncated))
        action[ids] = policy(seen)
        envs.send(action[ids], ids)

What an append gives for environments that end depends on who begins their next episode, `autoreset`:

'same_step' (gym's vector environments and Gymnasium's before 1.0, Gymnasium's
  AutoresetMode.SAME_STEP, VecEnv of Stable-Baselines3): where `end` is not CONTINUE, next
  observations are already the first ones of the next episode, and the final ones are given apart:
  `final={"state": ...}`, [E, ...] or a list or array of E objects, of which only the rows of
  environments that ended are read. If no environment ended, `final` may be None or left out.
'next_step' (Gymnasium's NEXT_STEP, its default since 1.0, and EnvPool): next observations are the
  final ones. The call after an environment's end is its reset: its next observations there are the
  first ones of the new episode; its action, reward and end are ignored, and no step is appended.
'disabled': next observations are the final ones, and before the next append `begin` gives the first
  ones of the new episodes.

Conversion, errors, waiting and timeouts are as in Writer; everything is checked before the first
environment's step is appended. With 256 environments of small steps a step costs less than 100 ns.
One thread at a time.)";

constexpr const char* kBegin =
    R"(First observations, [E, *shape] each, by name. Environments outside an episode begin one, also
where a simulator that resets itself was reset by hand.

For an environment within an episode that has steps: with 'disabled' the observations are ignored,
so that a call may give the observations of all. With 'same_step' and 'next_step' the episode ends
as truncated at its last step, as in Writer.begin_episode, for which the call may wait up to a
second, and another one begins.

A call without observations, allowed with autoreset 'next_step' alone, says that the simulator was
told to reset these environments. Their episodes end as truncated, and the next append of each is
its reset.
env_ids: the environments of the rows; None for all.)";

constexpr const char* kAppend =
    R"(Appends one step of every environment: columns by name and next observations as `next_` and name,
[E, *shape] each; recurrent states by name where items may begin.

end: [E] integers, 0 continue, 1 terminated, 2 truncated: reprise.ends(terminated, truncated).
final: with 'same_step' alone, and needed if an environment ended: a dict of the final observations
  by name, each an array [E, *shape], or a list, tuple or array of E objects, which may be None for
  environments that did not end.
priorities: None, or float32 [completing(end)], one for each item that the call completes,
  environment by environment.
env_ids: None, or integers, no two alike: row i of every array is of environment env_ids[i].
RuntimeError, naming the environment, if one is outside an episode. TimeoutError, an exception that
interrupts the wait, and OSError if the disk of a mapped file is full mean that the steps of some
environments were not taken. Call again with the same arguments before anything else: that appends
the steps left over. Other arguments would be taken as the rest of the same step.)";

constexpr const char* kTransitions =
    R"(Appends one loose transition of every environment: every field by its name and observations as
`next_` and name too, [E, *shape] each; env_ids as in `append`. For simulators whose loops hand over
observation and next observation; where the two are at hand anyway `append` is cheaper.

With 'next_step' a row behind an end whose observations equal the final ones byte for byte is the
simulator's reset, and not appended. Any other row behind an end begins an episode, so a loop may
leave resets out; but not where an episode may begin with the observations that the last one ended
with, because its first step would be taken for the reset: then make the writer with 'disabled'.
Other modes append every row.

An environment's transition continues its episode if its observations equal the last `next_` ones
byte for byte; else it ends that episode as truncated and begins a new one. end: as in `append`, with
the final observations in `next_`. It has no priorities, as in Writer.append_transition. After a
TimeoutError, an exception that interrupts the wait, or an OSError call again with the same arguments
before anything else: no transition is appended twice.)";

/// Whether an object is a mapping. A list and an array can be indexed too, but have no keys.
bool has_keys(nb::handle given) {
  const nb::object keys = nb::steal(PyObject_GetAttrString(given.ptr(), "keys"));
  if (!keys) {
    nb::python_error error;
    if (!error.matches(PyExc_AttributeError)) {
      throw std::move(error);
    }
  }
  return static_cast<bool>(keys);
}

}  // namespace

/// Chooses the environments of the call's rows: all if `env_ids` is null. If they are others than
/// those of the last call, this call does not continue that one.
void VectorWriterObject::choose(nb::handle env_ids, const char* call) {
  const std::span<const std::size_t> last = writers().chosen();
  ids_.assign(last.begin(), last.end());
  if (!env_ids.is_valid()) {
    writers().choose_all();
  } else {
    const ArgumentName argument(call, "env_ids");
    const nb::object array = array_of(env_ids, argument);
    if (Array(array).kind() == 'b') {
      fail<WrongKind>(argument, ": expected the numbers of environments; given ",
                      Array(array).described(), ": use numpy.flatnonzero");
    }
    std::vector<std::size_t> chosen(Array(array).size());
    if (!chosen.empty()) {  // An empty list has no dtype.
      const nb::object owner = row_from(array, DType::I64, argument);
      std::memcpy(chosen.data(), Array(owner).data(), chosen.size() * sizeof(std::size_t));
    }
    for (const std::size_t id : chosen) {
      if (id >= size_) {
        fail(argument, ": environment ", static_cast<std::int64_t>(id), "; allowed: each of 0 to ",
             size_ - 1, " once");
      }
    }
    writers().choose(chosen);
  }
  if (!std::ranges::equal(writers().chosen(), ids_)) {
    unfinished_ = false;
    loose_.reset();
  }
}

void VectorWriterObject::check_writers(const char* call) const {
  if (std::find(group_->closed.begin(), group_->closed.end(), 1) != group_->closed.end()) {
    throw Closed(std::string(call) + ": the writer is closed");
  }
}

void VectorWriterObject::check_open(const char* call) const {
  check_writers(call);
  origin_->check_process();
}

/// Adds the fields given under their own names to the arguments of the C++ call.
void VectorWriterObject::add_rows_now(const StepValues& values, std::vector<AnyValue>& to) const {
  for (const FieldInfo& field : origin_->table.fields()) {
    if ((values.given_now & field.bit()) != 0) {
      const Value& value = values.now[field.field.index()];
      to.push_back({field.field, /*next=*/false, {value.data(), rows() * field.spec.bytes}});
    }
  }
}
/// Adds the fields given as next observations.
void VectorWriterObject::add_rows_next(const StepValues& values, std::vector<AnyValue>& to) const {
  for (const FieldInfo& field : origin_->table.fields()) {
    if ((values.given_next & field.bit()) != 0) {
      const Value& value = values.next[field.field.index()];
      to.push_back({field.field, /*next=*/true, {value.data(), rows() * field.spec.bytes}});
    }
  }
}

void VectorWriterObject::begin(ArrayLike env_ids, const Fields& fields) {
  check_open(fields.call());
  origin_->check_open(fields.call(), group_->restore_count);
  choose(env_ids, fields.call());
  if (autoreset_ == AutoReset::NextStep && fields.empty()) {
    const GilRelease released;  // Ending an open episode may wait for a chunk.
    writers().await_resets();
    return;
  }
  const ValuesReset reset_at_end(values_);
  const FieldTable& table = origin_->table;
  read_fields(fields, table, {.now = table.observation_mask(), .rows = rows()}, values_);
  rows_.clear();
  add_rows_now(values_, rows_);
  // Ending an open episode may wait for a chunk.
  const GilRelease released(autoreset_ != AutoReset::Disabled ||
                            table.copied_bytes() * rows() > kCopyWithGil);
  writers().begin(rows_);
}

/// RuntimeError for an environment outside an episode, Closed if the buffer is, and ValueError if
/// recurrent states are needed and not given.
void VectorWriterObject::check_environments(const char* call) const {
  for (const std::size_t e : writers().chosen()) {
    if (writers().resetting(e)) {
      continue;
    }
    if (!group_->in_episode(e)) {
      origin_->check_open(call, group_->restore_count);
      fail<std::logic_error>(call, ": environment ", e,
                             " is outside an episode: give its first observations to begin");
    }
    check_states(values_, origin_->table, origin_->window, call, writers()[e].episode_steps(), e);
  }
}

/// Converts rows in a list, tuple or array of objects to an array [E, *shape]. Rows of environments
/// that do not end are not read, because simulators put None there.
nb::object VectorWriterObject::rows_to_array(const nb::object& given, const FieldInfo& field,
                                             GivenIn in) const {
  const bool one_by_one = PyList_Check(given.ptr()) || PyTuple_Check(given.ptr()) ||
                          (is_array(given) && Array(given).kind() == 'O');
  if (!one_by_one || PyObject_Size(given.ptr()) != static_cast<Py_ssize_t>(rows())) {
    return given;
  }
  std::vector<std::size_t> shape = field.spec.shape;
  shape.insert(shape.begin(), rows());
  nb::object array = empty_array(field.spec.dtype, shape);
  std::byte* const to = Array(array).data();
  std::fill_n(to, rows() * field.spec.bytes, std::byte{0});
  for (std::size_t row = 0; row < rows(); ++row) {
    if (ends(row)) {
      Value value;
      const nb::object element = given[row];
      value.assign(element, field, in, /*rows=*/std::nullopt);
      std::copy_n(value.data(), field.spec.bytes, to + row * field.spec.bytes);
    }
  }
  return array;
}

/// Refuses what is given as final observations where there are none, and what is no dict of them.
void VectorWriterObject::check_final_names(nb::handle given, const std::string& name) const {
  const FieldTable& table = origin_->table;
  if (autoreset_ != AutoReset::SameStep) {
    fail(name, " is taken with autoreset='same_step' alone; it is '",
         words_of<AutoReset>.names[static_cast<std::size_t>(autoreset_)],
         "', whose next observations are the final ones");
  }
  if (!has_keys(given)) {
    fail<WrongKind>(name, " is ", python_type_name(given),
                    "; allowed: a dict of arrays, the final observations, [E, ...], by name: ",
                    table.names(table.observation_mask()));
  }
  for (const nb::handle key : nb::list(checked(PyMapping_Keys(given.ptr())))) {
    const NamedField named = table.find(key.ptr());
    if (named.field == nullptr || named.next || !named.field->traits().has_next) {
      fail(name, ": unknown field ", repr_of(key),
           "; fields: ", table.names(table.observation_mask()));
    }
  }
}

/// Reads the final observations of the environments that end, if there are such environments.
void VectorWriterObject::read_final(nb::handle given, const char* call) {
  const FieldTable& table = origin_->table;
  const std::string name = std::string(call) + ": final";
  const bool is_given = given.is_valid();
  if (is_given) {
    check_final_names(given, name);
  }
  const bool any_ends = std::ranges::any_of(ends_, [](End end) { return end != End::Continue; });
  if (autoreset_ != AutoReset::SameStep || !any_ends) {
    return;
  }
  if (!is_given) {
    fail(name,
         " is missing: an environment ended, and with autoreset='same_step' next observations are "
         "those after the reset; give a dict of the final observations, [E, ...], by name: ",
         table.names(table.observation_mask()));
  }
  for (const FieldInfo& field : table.fields()) {
    if (!field.traits().has_next) {
      continue;
    }
    const nb::object observations = nb::steal(PyObject_GetItem(given.ptr(), field.name));
    if (!observations) {
      nb::python_error error;
      if (!error.matches(PyExc_KeyError)) {
        throw std::move(error);
      }
      fail(name, ": missing field ", field.spec.name);
    }
    read_final_field(field, observations, call);
  }
}

void VectorWriterObject::read_final_field(const FieldInfo& field, const nb::object& given,
                                          const char* call) {
  const GivenIn in{call, "final."};
  const nb::object given_rows = rows_to_array(given, field, in);
  Value& taken = final_.next[field.field.index()];
  final_.given_next |= field.bit();
  taken.assign(given_rows, field, in, rows());
  if (taken.data() == Array(given_rows).data()) {
    taken.keep_alive(given_rows);
  }
  for (std::size_t row = 0; row < rows(); ++row) {
    if (ends(row)) {
      taken.check_finite(field, in, row, 1);
    }
  }
}

void VectorWriterObject::append(ArrayLike end, Given<"Mapping[str, ArrayLike]"> final,
                                const std::optional<Priorities>& given, ArrayLike env_ids,
                                const Fields& fields) {
  check_open(fields.call());
  choose(env_ids, fields.call());
  const ValuesReset reset_at_end(values_);
  const ValuesReset reset_final_at_end(final_);
  const FieldTable& table = origin_->table;
  read_fields(fields, table,
              {.now = table.column_mask(),
               .optional = table.state_mask() | table.version_mask(),
               .next = table.observation_mask(),
               .rows = rows(),
               .unchecked = true},
              values_);
  // Checks runs of rows that are all steps or all resets. Of a reset only the next observations,
  // which begin the next episode, are stored, so only they are checked.
  const auto resets = [this](std::size_t row) { return writers().resetting(environment(row)); };
  for (std::size_t first = 0, end_of_run = 1; first < rows(); ++end_of_run) {
    if (end_of_run == rows() || resets(end_of_run) != resets(first)) {
      check_rows(fields.call(), table, values_, first, end_of_run - first, resets(first));
      first = end_of_run;
    }
  }
  ends_from(end, fields.call(), rows(), ends_);
  if (!unfinished_) {
    check_environments(fields.call());
  }
  read_final(final, fields.call());
  const std::size_t items = given && !unfinished_ ? writers().completing(ends_) : 0;
  const std::span<const float> priorities = priorities_or_none(given, items, fields.call());
  rows_.clear();
  finals_.clear();
  add_rows_now(values_, rows_);
  add_rows_next(values_, rows_);
  add_rows_next(final_, finals_);
  const auto attempt = [&] {
    const CommitStatus status = writers().append(ends_, rows_, finals_, priorities);
    unfinished_ = status != CommitStatus::Committed && status != CommitStatus::Closed;
    return status;
  };
  try {
    commit(*origin_, *group_, first_try(table.copied_bytes() * rows()), fields.call(), attempt,
           attempt, [] {
             return "the steps of some environments were not taken: call again with the same "
                    "arguments, which takes no step twice";
           });
  } catch (const std::system_error&) {
    unfinished_ = true;
    throw;
  }
}

/// The observations show whether an episode goes on, so `autoreset_` says only whether there are
/// rows of resets: see LooseRows.
void VectorWriterObject::append_transitions(ArrayLike end, ArrayLike env_ids,
                                            const Fields& fields) {
  check_open(fields.call());
  choose(env_ids, fields.call());
  const ValuesReset reset_at_end(values_);
  unfinished_ = false;
  const LooseRows::Call loose_call{fields, values_, rows(), /*end=*/{}, end};
  loose_.append(loose_call, *origin_, *group_,
                [&](std::size_t row) -> Writer& { return writers()[environment(row)]; });
}

std::size_t VectorWriterObject::completing(CallName call, ArrayLike end, ArrayLike env_ids) {
  check_writers(call.text);
  choose(env_ids, call.text);
  ends_from(end, call.text, rows(), ends_);
  return writers().completing(ends_);
}

nb::object VectorWriterObject::item(PyObject* given) const {
  const auto environment = value_from<Py_ssize_t>(given, "VectorWriter: environment");
  if (environment < -size() || environment >= size()) {
    fail<std::out_of_range>("environment ", environment, " of ", size());
  }
  const Py_ssize_t from_front = environment < 0 ? environment + size() : environment;
  return make_object<WriterObject>(origin_, group_, static_cast<std::size_t>(from_front));
}

namespace {

template <class Self>
nb::object make_vector_writer(Self& self, CallName call, std::size_t environments,
                              AutoReset autoreset, std::chrono::nanoseconds timeout) {
  const std::size_t max_writers = self.shared->max_writers();
  // A wrong number is refused before anything is allocated for it.
  if (environments == 0 || environments > max_writers) {
    fail(ArgumentName(call.text, "environments"), " is ", environments,
         "; allowed: 1 to max_writers, ", max_writers);
  }
  return make_object<VectorWriterObject>(self.shared, environments, autoreset, timeout);
}

}  // namespace

template <class Self>
void add_vector_writer(Type<Self>& type) {
  type.template method<&make_vector_writer<Self>>("vector_writer", "VectorWriter",
                                                  "What ReplayBuffer.vector_writer of _spaces.py "
                                                  "calls with the number of environments and the\n"
                                                  "mode.",
                                                  arg("environments"),
                                                  keyword("autoreset", AutoReset::SameStep),
                                                  keyword("timeout", kNoTimeout));
}
template void add_vector_writer(Type<BufferObject>& type);
template void add_vector_writer(Type<GuestObject>& type);
template void add_vector_writer(Type<PackerObject>& type);

void bind_vector_writer(nb::module_& module) {
  using Self = VectorWriterObject;
  constexpr auto kIds = keyword("env_ids", "None");
  constexpr auto kFields = arg("fields");
  Type<Self>("VectorWriter", kDoc)
      .method<&Self::begin>("begin", kBegin, kIds, arg("observations"))
      .method<&Self::append>("append", kAppend, keyword("end"), keyword("final", "None"),
                             keyword("priorities", std::nullopt), kIds, kFields)
      .method<&Self::append_transitions>("append_transitions", kTransitions, keyword("end"), kIds,
                                         kFields)
      .method<&Self::completing>("completing",
                                 "How many items an append with these ends, [E], would complete: "
                                 "its number of priorities.\n"
                                 "env_ids: as in `append`.",
                                 arg("end"), arg("env_ids", "None"))
      .method<&Self::set_version>("set_version",
                                  "`Writer.set_version` of all environments, in `env_ids` or not.",
                                  arg("version"))
      .method<&Self::close>(
          "close",
          "Closes the writers of all environments, which ends their episodes as truncated.")
      .closes<&Self::close>()
      .special<&Self::size>(Py_sq_length, "__len__(self) -> int")
      .special<&Self::item>(Py_mp_subscript, "__getitem__(self, key: int) -> Writer")
      .special<&iterate>(Py_tp_iter, "__iter__(self) -> Iterator[Writer]")
      .add(module);
}

}  // namespace reprise::python
