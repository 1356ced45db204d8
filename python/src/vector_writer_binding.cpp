#include "vector_writer.hpp"

#include <stdexcept>
#include <string>

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
