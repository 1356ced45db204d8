#include "buffer_object.hpp"
#include "writer.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

/// Who begins the episode after one that ended, and where its first observation is.
enum class AutoReset : std::uint8_t {
  SameStep,  ///< In the call that ended the episode; the final ones are given apart.
  NextStep,  ///< In the call after it, which takes no step.
  Disabled,  ///< The caller begins episodes.
};

constexpr std::string_view kAutoResets[] = {"same_step", "next_step", "disabled"};

constexpr std::size_t kEnd = 0;
constexpr std::size_t kFinal = 1;
constexpr std::size_t kPriorities = 2;

/// The environments that a call names, which its arrays have a row each of; null if it names none.
PyObject* env_ids_of(const Arguments& arguments) {
  for (Py_ssize_t i = 0; i < arguments.keywords(); ++i) {
    if (PyUnicode_CompareWithASCIIString(arguments.keyword(i), "env_ids") == 0) {
      return arguments.value(i) == Py_None ? nullptr : arguments.value(i);
    }
  }
  return nullptr;
}

/// Whether it is a mapping: sequences and arrays have items too, but no keys.
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

/// reprise.VectorWriter: the C++ vector writer, and what simulators that reset themselves need.
class VectorWriterObject {
 public:
  VectorWriterObject(std::shared_ptr<SharedBuffer> buffer, std::size_t environments,
                     AutoReset autoreset, std::chrono::nanoseconds timeout)
      : buffer_(std::move(buffer)),
        group_(std::make_shared<WriterGroup>(buffer_->buffer, environments, timeout)),
        autoreset_(autoreset),
        size_(environments),
        resetting_(std::make_unique<bool[]>(environments)),
        values_(buffer_->table),
        final_(buffer_->table),
        resets_(std::make_unique<bool[]>(environments)),
        loose_(buffer_->table) {}
  ~VectorWriterObject() {
    const Released released(group_.use_count() == 1);
    group_.reset();
  }
  VectorWriterObject(const VectorWriterObject&) = delete;
  VectorWriterObject& operator=(const VectorWriterObject&) = delete;

  [[nodiscard]] Entered enter(const char* call) const {
    return {group_->in_use, "VectorWriter", *buffer_, call};
  }
  void begin(Arguments& arguments);
  void append(Arguments& arguments);
  void append_transitions(Arguments& arguments);
  [[nodiscard]] std::size_t completing(const Arguments& arguments);
  void close() {
    for (std::size_t e = 0; e < size_; ++e) {
      group_->close(e);
    }
  }
  [[nodiscard]] Py_ssize_t size() const noexcept { return static_cast<Py_ssize_t>(size_); }
  [[nodiscard]] nb::object item(PyObject* given) const;

 private:
  [[nodiscard]] VectorWriter& writers() const { return *group_->vector; }
  /// Row i of what a call gives is of environment `environment(i)`.
  [[nodiscard]] std::size_t rows() const { return writers().chosen().size(); }
  [[nodiscard]] std::size_t environment(std::size_t row) const { return writers().chosen()[row]; }
  void choose(PyObject* env_ids);
  void check_writers(const char* call) const;
  void check_open(const char* call) const;
  void end_resets();
  void check_environments(const char* call) const;
  void read_final(nb::handle given, const char* call);
  [[nodiscard]] nb::object gathered(const nb::object& given, const FieldInfo& field) const;
  [[nodiscard]] std::span<const bool> resets();
  [[nodiscard]] bool ends(std::size_t row) const {
    return ends_[row] != End::Continue && !resetting_[environment(row)];
  }
  void await_resets();
  void write_rows(std::uint64_t mask, bool next, bool to_next);
  void write_final();
  void begin_episodes();

  std::shared_ptr<SharedBuffer> buffer_;
  std::shared_ptr<WriterGroup> group_;
  const AutoReset autoreset_;
  const std::size_t size_;
  std::unique_ptr<bool[]> resetting_;  ///< NextStep: the next append takes no step of it.
  /// The last append did not take the steps of all: what it checked is as it was.
  bool unfinished_ = false;

  // Of the append under way:
  StepValues values_;
  StepValues final_;  ///< `final`, as next observations.
  std::vector<End> ends_;
  std::vector<std::size_t> ids_;
  std::unique_ptr<bool[]> resets_;  ///< `resetting_` of each row.
  LooseRows loose_;
};

/// Chooses the environments of a call's rows: all if `env_ids` is null.
void VectorWriterObject::choose(PyObject* env_ids) {
  std::span<const std::size_t> all = writers().chosen();
  ids_.assign(all.begin(), all.end());
  if (env_ids == nullptr) {
    writers().choose_all();
  } else {
    const nb::object array = array_of(env_ids, "env_ids");
    if (Array(array).kind() == 'b') {
      throw WrongKind("env_ids: expected the numbers of environments; given " +
                      Array(array).described() + ": use numpy.flatnonzero");
    }
    std::vector<std::size_t> chosen(Array(array).size());
    if (!chosen.empty()) {  // An empty list has no type.
      const nb::object owner = row_from(array, DType::I64, "env_ids", std::nullopt);
      std::memcpy(chosen.data(), Array(owner).data(), chosen.size() * sizeof(std::size_t));
    }
    writers().choose(chosen);
  }
  all = writers().chosen();
  if (!std::equal(all.begin(), all.end(), ids_.begin(), ids_.end())) {
    unfinished_ = false;
    loose_.start_anew();
  }
}

std::span<const bool> VectorWriterObject::resets() {
  if (autoreset_ != AutoReset::NextStep) {
    return {};
  }
  for (std::size_t row = 0; row < rows(); ++row) {
    resets_[row] = resetting_[environment(row)];
  }
  return {resets_.get(), rows()};
}

void VectorWriterObject::check_writers(const char* call) const {
  if (std::find(group_->closed.begin(), group_->closed.end(), 1) != group_->closed.end()) {
    throw Closed(std::string(call) + ": the writer is closed");
  }
}

void VectorWriterObject::check_open(const char* call) const {
  check_writers(call);
  buffer_->check_process();
}

/// Copies [E, ...] rows of the fields of a mask to the current or the next steps.
void VectorWriterObject::write_rows(std::uint64_t mask, bool next, bool to_next) {
  mask &= next ? values_.given_next : values_.given_now;
  for (const FieldInfo& field : buffer_->table.fields()) {
    if ((mask & field.bit()) != 0) {
      const Value& value = (next ? values_.next : values_.now)[field.field.index()];
      const std::span<const std::byte> given(value.data(), rows() * field.spec.bytes);
      to_next ? writers().next(field.field, given) : writers().now(field.field, given);
    }
  }
}

/// The simulator was told to reset the chosen environments, without an answer yet: their episodes
/// end here, and the next append of each brings its first observations.
void VectorWriterObject::await_resets() {
  const Released released;  // An episode that is cut short may wait for a chunk.
  for (const std::size_t e : writers().chosen()) {
    if (!writers()[e].in_episode() || writers()[e].episode_steps() != 0) {
      writers()[e].begin_episode();
    }
    group_->begun[e] = 0;
    resetting_[e] = true;
  }
}

void VectorWriterObject::begin(Arguments& arguments) {
  check_open(arguments.call());
  buffer_->check_open(arguments.call());
  PyObject* const env_ids = env_ids_of(arguments);
  choose(env_ids);
  if (autoreset_ == AutoReset::NextStep && arguments.keywords() == (env_ids != nullptr ? 1 : 0)) {
    await_resets();
    return;
  }
  const TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  read_fields(arguments, table, {.now = table.observations(), .rows = rows()}, values_);
  const Released released(table.copied_bytes() * rows() > kCopyWithGil);
  for (const std::size_t e : writers().chosen()) {
    if (!writers()[e].in_episode()) {
      writers()[e].begin_episode();
    }
    if (writers()[e].episode_steps() == 0) {
      group_->begun[e] = 1;
      resetting_[e] = false;
    }
  }
  write_rows(table.observations(), false, false);
}

/// An environment whose episode was begun by hand since it ended is not being reset.
void VectorWriterObject::end_resets() {
  for (std::size_t e = 0; e < size_; ++e) {
    resetting_[e] = resetting_[e] && group_->begun[e] == 0;
  }
}

/// RuntimeError for one outside an episode, ValueError for one that needs recurrent states that are
/// not given.
void VectorWriterObject::check_environments(const char* call) const {
  for (const std::size_t e : writers().chosen()) {
    if (resetting_[e]) {
      continue;
    }
    if (!group_->in_episode(e)) {
      throw std::logic_error(std::string(call) + ": environment " + std::to_string(e) +
                             " is outside an episode: give its first observations to begin");
    }
    check_states(values_, buffer_->table, buffer_->window, call, writers()[e].episode_steps(), e);
  }
}

/// Converts rows in a list, tuple or array of objects to an array [E, *shape]. Rows of environments
/// that do not end are not read, because simulators have None there.
nb::object VectorWriterObject::gathered(const nb::object& given, const FieldInfo& field) const {
  const bool one_by_one = PyList_Check(given.ptr()) || PyTuple_Check(given.ptr()) ||
                          (is_array(given) && Array(given).kind() == 'O');
  if (!one_by_one || PyObject_Size(given.ptr()) != static_cast<Py_ssize_t>(rows())) {
    return given;
  }
  std::vector<std::size_t> shape = field.spec.shape;
  shape.insert(shape.begin(), rows());
  nb::object made = empty_array(field.spec.dtype, shape);
  std::byte* const to = Array(made).data();
  std::fill_n(to, rows() * field.spec.bytes, std::byte{0});
  for (std::size_t row = 0; row < rows(); ++row) {
    if (ends(row)) {
      Value value;
      const nb::object one = given[row];
      value.take(one, field, "final.", std::nullopt);
      std::copy_n(value.data(), field.spec.bytes, to + row * field.spec.bytes);
    }
  }
  return made;
}

/// The final observations of environments that end, if any does.
void VectorWriterObject::read_final(nb::handle given, const char* call) {
  const FieldTable& table = buffer_->table;
  const std::string name = std::string(call) + ": final";
  const bool is_given = given.is_valid() && !given.is_none();
  if (is_given && autoreset_ != AutoReset::SameStep) {
    throw std::invalid_argument(name + " is taken with autoreset='same_step' alone; it is '" +
                                std::string(kAutoResets[static_cast<std::size_t>(autoreset_)]) +
                                "', whose next observations are the final ones");
  }
  if (is_given && !has_keys(given)) {
    throw WrongKind(name + " is " + kind_text(given) +
                    "; allowed: a dict of arrays, the final observations, [E, ...], by name: " +
                    table.names(table.observations()));
  }
  if (is_given) {
    for (const nb::handle key : nb::list(checked(PyMapping_Keys(given.ptr())))) {
      const Named named = table.find(key.ptr());
      if (named.field == nullptr || named.next || !named.field->traits().has_next) {
        throw std::invalid_argument(name + ": unknown field " + repr_of(key) +
                                    "; fields: " + table.names(table.observations()));
      }
    }
  }
  bool any = false;
  for (std::size_t row = 0; row < rows() && !any; ++row) {
    any = ends(row);
  }
  if (autoreset_ != AutoReset::SameStep || !any) {
    return;
  }
  if (!is_given) {
    throw std::invalid_argument(
        name +
        " is missing: an environment ended, and with autoreset='same_step' next observations are "
        "those after the reset; give a dict of the final observations, [E, ...], by name: " +
        table.names(table.observations()));
  }
  for (const FieldInfo& field : table.fields()) {
    if (!field.traits().has_next) {
      continue;
    }
    const nb::object found = nb::steal(PyObject_GetItem(given.ptr(), field.name));
    if (!found) {
      nb::python_error error;
      if (!error.matches(PyExc_KeyError)) {
        throw std::move(error);
      }
      throw std::invalid_argument(name + ": missing field " + field.spec.name);
    }
    const nb::object given_rows = gathered(found, field);
    Value& taken = final_.next[field.field.index()];
    final_.given_next |= field.bit();
    taken.take(given_rows, field, "final.", rows());
    if (taken.data() == Array(given_rows).data()) {
      taken.own(given_rows);
    }
    for (std::size_t row = 0; row < rows(); ++row) {
      if (ends(row)) {
        taken.check_finite(field, "final.", row, 1);
      }
    }
  }
}

/// The final observations in place of those after the reset.
void VectorWriterObject::write_final() {
  for (std::size_t row = 0; final_.given_next != 0 && row < rows(); ++row) {
    if (ends(row)) {
      write_next(writers()[environment(row)], buffer_->table, final_, row);
    }
  }
}

/// After all environments took their steps: those that were reset begin with the next observations,
/// which C++ takes where an episode begins alone.
void VectorWriterObject::begin_episodes() {
  bool any = false;
  for (std::size_t row = 0; row < rows(); ++row) {
    const std::size_t e = environment(row);
    const bool ended = ends(row);
    any = any || ended || resetting_[e];
    if (autoreset_ != AutoReset::SameStep && (ended || resetting_[e])) {
      group_->begun[e] = resetting_[e] ? 1 : 0;
    }
    resetting_[e] = ended && autoreset_ == AutoReset::NextStep;
  }
  if (any && autoreset_ != AutoReset::Disabled) {
    write_rows(buffer_->table.observations(), true, false);
  }
}

void VectorWriterObject::append(Arguments& arguments) {
  check_open(arguments.call());
  choose(env_ids_of(arguments));
  end_resets();
  const TakenValues taken(values_);
  const TakenValues taken_final(final_);
  const FieldTable& table = buffer_->table;
  read_fields(arguments, table,
              {.now = table.columns(),
               .optional = table.recurrent_states(),
               .next = table.observations(),
               .rows = rows()},
              values_);
  if (arguments[kEnd] == nullptr) {
    throw std::invalid_argument(std::string(arguments.call()) + ": end is missing");
  }
  ends_from(arguments[kEnd], rows(), ends_);
  if (!unfinished_) {
    check_environments(arguments.call());
  }
  read_final(arguments[kFinal], arguments.call());
  nb::object owner;
  std::span<const float> priorities;
  if (arguments.has(kPriorities)) {
    priorities = priorities_from(arguments[kPriorities], owner);
    if (!unfinished_) {
      check_some(priorities, writers().completing(ends_, resets()), arguments.call());
    }
  }
  const auto again = [&] {
    const CommitStatus status = writers().commit(ends_, priorities, resets());
    if (status == CommitStatus::Committed) {
      begin_episodes();
    }
    unfinished_ = status != CommitStatus::Committed && status != CommitStatus::Closed;
    return status;
  };
  const auto attempt = [&] {
    write_rows(~table.observations(), false, false);
    write_rows(table.observations(), true, true);
    write_final();
    return again();
  };
  try {
    commit(*buffer_, *group_, table.copied_bytes() * rows() > kCopyWithGil, arguments.call(),
           attempt, again, [] {
             return "the steps of some environments were not taken: call again with the same "
                    "arguments, which takes no step twice";
           });
  } catch (const std::system_error&) {
    unfinished_ = true;
    throw;
  }
}

/// No auto-reset: observations say where an episode goes on.
void VectorWriterObject::append_transitions(Arguments& arguments) {
  check_open(arguments.call());
  choose(env_ids_of(arguments));
  const TakenValues taken(values_);
  unfinished_ = false;
  loose_.append(arguments, *buffer_, *group_, values_, rows(), [&](std::size_t row) -> Writer& {
    group_->begun[environment(row)] = 1;
    return writers()[environment(row)];
  });
}

std::size_t VectorWriterObject::completing(const Arguments& arguments) {
  check_writers(arguments.call());
  choose(arguments.has(1) ? arguments[1] : nullptr);
  ends_from(arguments[kEnd], rows(), ends_);
  end_resets();
  return writers().completing(ends_, resets());
}

nb::object VectorWriterObject::item(PyObject* given) const {
  const auto environment = value_from<Py_ssize_t>(given, "VectorWriter: environment");
  if (environment < -size() || environment >= size()) {
    throw std::out_of_range("environment " + std::to_string(environment) + " of " +
                            std::to_string(size()));
  }
  const Py_ssize_t place = environment < 0 ? environment + size() : environment;
  return make_object<WriterObject>(buffer_, group_, static_cast<std::size_t>(place));
}

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

What becomes of environments that end depends
on who begins their next episode, `autoreset`:

'same_step' (gym's vector environments and Gymnasium's before 1.0, Gymnasium's
  AutoresetMode.SAME_STEP, VecEnv of Stable-Baselines3): where `end` is not CONTINUE, next
  observations are already the first ones of the next episode, and the final ones are given apart:
  `final={"state": ...}`, [E, ...] or a list or array of E objects, of which only rows of
  environments that ended are read. Where none ended it is not read, and may be None or left out.
'next_step' (Gymnasium's NEXT_STEP, its default since 1.0, and EnvPool): next observations are the
  final ones. The call after that is the reset: its next observations of that environment are the
  first ones of the new episode; its action, reward and end are ignored, and nothing is appended.
'disabled': next observations are the final ones, and before the next append `begin` gives the first
  ones of the new episodes.

Conversion, errors, waiting and timeouts are as of Writer; everything is checked before the first
environment's step is appended. With 256 environments of small steps a step costs less than 100 ns.
One thread at a time.)";

constexpr const char* kBegin =
    R"(First observations, [E, *shape] each, by name. They are taken by environments at the start of an
episode, or outside one, and ignored by the others. To cut an episode short call `begin_episode` of
its writer, `writers[e]`.

Without observations, with autoreset 'next_step' alone: the simulator was told to reset these
environments. Their episodes end as truncated, and the next append of each is its reset.
env_ids: the environments of the rows; None for all.)";

constexpr const char* kAppend =
    R"(Appends one step of every environment: columns by name and next observations as `next_` and name,
[E, *shape] each; recurrent states by name where items may begin.

end: [E] integers, 0 continue, 1 terminated, 2 truncated: reprise.ends(terminated, truncated).
final: with 'same_step' alone, a dict of the final observations by name, [E, *shape], where any
  environment ended: an array, or a list, tuple or array of E objects, which may be None where none
  ended.
priorities: None, or float32 [completing(end)], one for each item decided, environment by
  environment.
env_ids: None, or integers, no two alike: row i of every array is of environment env_ids[i].
RuntimeError, naming the environment, if one is outside an episode. TimeoutError, what interrupts
the wait, and OSError if the disk of a mapped file is full: the steps of some environments were not
taken. Call again with the same arguments before anything else: it goes on with those.)";

constexpr const char* kTransitions =
    R"(Appends one loose transition of every environment: every field by its name and observations as
`next_` and name too, [E, *shape] each, whatever `autoreset` is; env_ids as of `append`. For
simulators whose loops hand over observation and next observation; where the two are at hand anyway
`append` is cheaper.

An environment's transition continues its episode if its observations equal the last `next_` ones
byte for byte, else it begins a new one and truncates the old. end: as of `append`, with the final
observations in `next_`. It brings no priorities, as Writer.append_transition. TimeoutError, what
interrupts the wait, and OSError: call again with the same arguments before anything else, which
takes no transition twice.)";

}  // namespace

nb::object make_vector_writer(BufferObject& buffer, const Arguments& arguments) {
  const auto environments = arguments.get<std::size_t>(0);
  const std::size_t most = buffer.buffer().options().max_writers;
  // Refused before anything is made for them.
  if (environments == 0 || environments > most) {
    throw std::invalid_argument(arguments.what(0).text() + " is " + std::to_string(environments) +
                                "; allowed: 1 to max_writers, " + std::to_string(most));
  }
  const auto autoreset = arguments.word(1, kAutoResets, AutoReset::SameStep);
  return make_object<VectorWriterObject>(buffer.shared, environments, autoreset,
                                         std::chrono::nanoseconds(arguments.timeout_ns(2)));
}

void bind_vector_writer(nb::module_& module) {
  using Self = VectorWriterObject;
  Type<Self>("VectorWriter", kDoc)
      .method<&Self::begin>(
          "begin(self, *, env_ids: ArrayLike | None = None, **observations: ArrayLike) -> None",
          kBegin)
      .method<&Self::append>(
          "append(self, *, end: ArrayLike, final: Mapping[str, ArrayLike] | None = None, "
          "priorities: ArrayLike | None = None, env_ids: ArrayLike | None = None, "
          "**fields: ArrayLike) -> None",
          kAppend)
      .method<&Self::append_transitions>(

          "append_transitions(self, *, end: ArrayLike, env_ids: ArrayLike | None = None, "
          "**fields: ArrayLike) -> None",
          kTransitions)
      .method<&Self::completing>(
          "completing(self, end: ArrayLike, env_ids: ArrayLike | None = None) -> int",
          "Items that an append with these ends, [E], would decide: the number of its priorities.\n"
          "env_ids: as of `append`.")
      .method<&Self::close>(
          "close(self) -> None",
          "Closes the writers of all environments, which ends their episodes as truncated.")
      .closes<&Self::close>()
      .special<&Self::size, Py_ssize_t>(Py_sq_length, "__len__(self) -> int")
      .special<&Self::item, PyObject*, PyObject*>(Py_mp_subscript,
                                                  "__getitem__(self, key: int) -> Writer")
      .special<&iterate, PyObject*>(Py_tp_iter, "__iter__(self) -> Iterator[Writer]")
      .add(module);
}

}  // namespace reprise::python
