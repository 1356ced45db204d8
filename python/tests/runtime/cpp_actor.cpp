// A user's extension module, whose C++ threads append to a buffer made in Python.
#include <reprise/replay_buffer.hpp>
#include <reprise/strategy_kind.hpp>
#include <reprise/writer.hpp>

#include <nanobind/nanobind.h>

#include <cstring>
#include <memory>
#include <thread>

namespace nb = nanobind;

namespace {

/// Appends one episode of `steps` steps; state and reward are the step's number.
void act(reprise::ReplayBuffer& buffer, int steps) {
  const reprise::Schema schema = buffer.schema();
  const reprise::AnyField state = schema.find("state").value();
  const reprise::AnyField reward = schema.find("reward").value();
  reprise::Writer writer = buffer.writer();
  const auto put = [](std::span<std::byte> to, float value) {
    std::memcpy(to.data(), &value, to.size());
  };
  writer.begin_episode();
  put(writer.now(state), 0.0F);
  for (int t = 0; t < steps; ++t) {
    put(writer.now(reward), static_cast<float>(t));
    put(writer.next(state), static_cast<float>(t + 1));
    writer.commit(t + 1 == steps ? reprise::End::Terminated : reprise::End::Continue);
  }
}

reprise::ReplayBuffer& buffer_of(const nb::object& capsule) {
  void* const buffer =
      PyCapsule_GetPointer(capsule.ptr(), "reprise::ReplayBuffer " REPRISE_VERSION);
  if (buffer == nullptr) {
    throw nb::python_error();
  }
  return *static_cast<reprise::ReplayBuffer*>(buffer);
}

/// Sets alpha. Returns whether that throws a Refusal: its code is in the module that made the
/// buffer, so the type has to be known across modules.
bool alpha_is_refused(const nb::object& capsule, float alpha) {
  try {
    buffer_of(capsule).selector().set_alpha(alpha);
  } catch (const reprise::Refusal&) {
    return true;
  }
  return false;
}

class Actor {
 public:
  Actor(nb::object capsule, int steps) : capsule_(std::move(capsule)) {
    thread_ = std::thread([&buffer = buffer_of(capsule_), steps] { act(buffer, steps); });
  }
  ~Actor() { join(); }
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  void join() {
    if (thread_.joinable()) {
      const nb::gil_scoped_release released;
      thread_.join();
    }
  }

 private:
  nb::object capsule_;
  std::thread thread_;
};

}  // namespace

NB_MODULE(cpp_actor, module) {
  module.def("alpha_is_refused", &alpha_is_refused, nb::arg("capsule"), nb::arg("alpha"));
  nb::class_<Actor>(module, "Actor")
      .def(nb::init<nb::object, int>(), nb::arg("capsule"), nb::arg("steps"))
      .def("join", &Actor::join);
}
