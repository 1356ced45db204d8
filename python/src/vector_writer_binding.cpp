#include "numbers.hpp"
#include "options.hpp"
#include "vector_writer.hpp"

#include <string>

namespace reprise::python {
namespace {

template <void (VectorWriterObject::*kMethod)(const Arguments&)>
py::object call(VectorWriterObject& writers, const Arguments& arguments) {
  (writers.*kMethod)(arguments);
  return py::none();
}

std::shared_ptr<WriterObject> item(const VectorWriterObject& writers,
                                   Checked<py::ssize_t, "VectorWriter: environment"> given) {
  const py::ssize_t environment = given;
  const auto size = static_cast<py::ssize_t>(writers.size());
  if (environment < -size || environment >= size) {
    throw py::index_error("environment " + std::to_string(environment) + " of " +
                          std::to_string(size));
  }
  return writers[static_cast<std::size_t>(environment < 0 ? environment + size : environment)];
}

constexpr const char* kDoc =
    R"(Appends the steps of a vector of E environments in one call; made by ReplayBuffer.vector_writer.

    first, _ = envs.reset()
    writers.begin(state=first)
    while True:
        next, reward, terminated, truncated, info = envs.step(action)
        writers.append(action=action, reward=reward, next_state=next,
                       end=reprise.ends(terminated, truncated), final=...)

Row e of each [E, ...] array belongs to environment e. What becomes of environments that end depends
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

constexpr const char* kBegin = R"(begin($self, /, **observations)
--

First observations, [E, *shape] each, by name. They are taken by environments at the start of an
episode, or outside one, and ignored by the others. To cut an episode short call `begin_episode` of
its writer, `writers[e]`.)";

constexpr const char* kAppend =
    R"(append($self, /, *, end, final=None, priorities=None, **fields)
--

Appends one step of every environment: columns by name and next observations as `next_` and name,
[E, *shape] each; recurrent states by name where items may begin.

end: [E] integers, 0 continue, 1 terminated, 2 truncated: reprise.ends(terminated, truncated).
final: with 'same_step' alone, a dict of the final observations by name, [E, *shape], where any
  environment ended: an array, or a list, tuple or array of E objects, which may be None where none
  ended.
priorities: None, or float32 [completing(end)], one for each item decided, environment by
  environment.
RuntimeError, naming the environment, if one is outside an episode. TimeoutError if some found no
room, OSError if the disk of a mapped file is full, KeyboardInterrupt while it waits: call again
with the same arguments, before anything else; steps that were taken are not taken twice.)";

}  // namespace

AutoReset autoreset_from(py::handle given) {
  constexpr std::string_view kNames[] = {"same_step", "next_step",
                                         "disabled"};  // As autoreset_name.
  return enum_from<AutoReset>(given, "autoreset", kNames);
}

void bind_vector_writer(py::module_& module) {
  py::class_<VectorWriterObject> type(module, "VectorWriter", kDoc);
  add_fast_method<&call<&VectorWriterObject::begin>>(type, "begin", kBegin);
  add_fast_method<&call<&VectorWriterObject::append>>(type, "append", kAppend);
  type.def(
          "completing",
          [](VectorWriterObject& writers, py::handle end) { return writers.completing(end.ptr()); },
          py::arg("end"), R"(completing(self, /, end)
--

Items that an append with these ends, [E], would decide: the number of its priorities.)")
      .def("close", &VectorWriterObject::close, R"(close(self, /)
--

Closes the writers of all environments, which ends their episodes as truncated.)")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](VectorWriterObject& self, const py::args& /*error*/) { self.close(); })
      .def("__len__", &VectorWriterObject::size, "Environments.")
      .def("__getitem__", &item, py::arg("environment"), R"(__getitem__(self, environment, /)
--

The Writer of one environment.)")
      .def(
          "__iter__",
          [](const py::object& self) {
            return py::reinterpret_steal<py::object>(PySeqIter_New(self.ptr()));
          },
          "The writers of the environments, in their order.");
}

}  // namespace reprise::python
