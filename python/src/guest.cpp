#include "guest.hpp"

#include "options.hpp"

#include <chrono>

namespace reprise::python {
namespace {

constexpr std::chrono::nanoseconds kDefaultTimeout = std::chrono::seconds(10);

constexpr const char* kDoc =
    R"(The replay buffer of another process of this machine, the host, which shares the buffer
(ReplayBuffer.share); reprise.attach is another name for this class.

    guest = reprise.attach(address)                # In a child, by any start method.
    with guest.writer() as writer:                 # Or guest.vector_writer(envs).
        writer.begin_episode(state=s)
        writer.append(action=a, reward=r, next_state=s2)
    batch = guest.sampler(seed=1).sample(256)
    guest.update_priorities(batch.item_keys, np.abs(errors))

Its writers, samplers and prefetchers are of the same classes as those of the buffer, with the same
calls, but each has a connection of its own. What differs:

Once an append returns, its step will be in the buffer, whatever becomes of this process, unless the
host ends before it takes the step, some milliseconds later. A writer may be `ring_steps` steps
ahead of the buffer, a number that the host sets (ReplayBuffer.share); then an append waits.
Writer.episode_id counts the writer's own episodes. A sampler's batches are copied once more, from
memory that host and guest share.

Once the host has ended its block, closed the buffer or died, calls raise Closed, as do calls that
wait; priorities that are set then count as stale. Any thread may call a guest. It works only in the
process that attached: RuntimeError in a forked child, which has to attach by itself.)";

constexpr const char* kInit =
    R"(address: of the host, as ReplayBuffer.share gives it. timeout: seconds within which a host
has to listen there and answer.
OSError if no host does; RuntimeError with the reason if the host refuses this process, for example
because it has another version of reprise.)";

void make(GuestObject* place, const std::string& address, std::chrono::nanoseconds timeout) {
  const AttachOptions options{.timeout = timeout, .hook = &HostHook::instance()};
  new (place) GuestObject(std::make_shared<SharedGuest>(
      without_gil([&] { return HostHook::run([&] { return attach(address, options); }); })));
}

nb::object schema_of(GuestObject& self) {
  return make_object<Schema>(self.shared->schema());
}

nb::object window_of(GuestObject& self) {
  return to_python(self.shared->window);
}

bool closed(GuestObject& self) {
  return self.shared->closed();
}

void close(GuestObject& self) {
  self.shared->close();
}

}  // namespace

void bind_guest(nb::module_& module) {
  Type<GuestObject> type("Guest", kDoc);
  type.constructor<&make>(kInit, arg("address"), arg("timeout", kDefaultTimeout));
  add_writer(type);
  add_vector_writer(type);
  add_sampler(type);
  add_prefetch(type);
  add_update_priorities(type);
  add_stats(type);
  type.property<&schema_of>("schema", "Schema", "A copy of the buffer's schema.")
      .property<&window_of>("window", "_Window", "The buffer's window.")
      .property<&closed>("closed", "True after `close`, and once the host is gone.")
      .method<&close>("close",
                      "Ends the connection. Writers, samplers and prefetchers keep their own.")
      .closes<&close>()
      .add(module);
}

}  // namespace reprise::python
