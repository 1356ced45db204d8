#include <reprise/host.hpp>

#include "buffer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

constexpr const char* kDoc =
    R"(Serves a buffer to other processes of this machine and user; made by ReplayBuffer.share.

    with replay.share() as address:
        workers = [context.Process(target=act, args=(address, i)) for i in range(4)]
        ...

A thread that never takes the GIL serves, until the block ends, `close` is called, or the buffer is
closed: then the guests' calls raise Closed. Steps that guests have appended by then are in the
buffer, as far as it has room for them. `with` gives the address.)";

constexpr const char* kShare =
    R"(Lets other processes of this machine and user attach to the buffer. Returns a Host, whose
address they give to reprise.attach.

    with replay.share() as address:
        ...

address: a path of a Unix socket, which must not exist, or '@name' for a name that is in no file
  system and vanishes with this process; None takes a random '@name'. Host.address is the absolute
  path.
ring_steps: steps that each environment of a guest may be ahead of the buffer, 8 to 2**20; they do
  not count for the rate limiter yet. None or 0: as many as take 4 MiB for each writer or vector
  writer, within 16 and 4096.
max_batch_bytes: most bytes of a batch that a guest may ask for; each of a guest's samplers has
  memory for its largest batch. 1 GiB holds 32,768 items of 32 KiB each. 0: guests draw no batches.
ValueError for an address or ring_steps out of range, OSError for an address that is taken, Closed
if the buffer is closed. See docs/processes.md.)";

class HostObject {
 public:
  HostObject(std::shared_ptr<SharedBuffer> buffer, std::unique_ptr<Host> host)
      : address_(host->address()), thread_(serving(std::move(buffer), std::move(host))) {}

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const std::string& entered() const noexcept { return address_; }
  void close() {
    thread_.end();
    thread_.rethrow();
  }

 private:
  /// The work of the thread, which serves guests. The work destroys the host as it ends, which the
  /// guests notice at once.
  static std::function<void(std::stop_token)> serving(std::shared_ptr<SharedBuffer> buffer,
                                                      std::unique_ptr<Host> given) {
    return [buffer = std::move(buffer),
            host = std::shared_ptr<Host>(std::move(given))](const std::stop_token& stop) mutable {
      const std::shared_ptr<Host> served = std::move(host);
      served->run(stop);
    };
  }

  const std::string address_;
  OwnThread thread_;
};

nb::object share(BufferObject& self, std::optional<std::string> address,
                 std::optional<std::size_t> ring_steps, std::size_t max_batch_bytes) {
  const HostOptions options{.address = address.value_or(""),
                            .ring_steps = ring_steps.value_or(0),
                            .max_batch_bytes = max_batch_bytes};
  return make_host(self.shared, options);
}

}  // namespace

nb::object make_host(const std::shared_ptr<SharedBuffer>& shared, const HostOptions& options) {
  if (shared->buffer.closed()) {
    throw Closed("share: the buffer is closed");
  }
  return make_object<HostObject>(shared, std::make_unique<Host>(shared->buffer, options));
}

void bind_host(nb::module_& module, Type<BufferObject>& type) {
  type.method<&share>("share", "Host", kShare, arg("address", std::nullopt),
                      keyword("ring_steps", std::nullopt),
                      keyword("max_batch_bytes", HostOptions().max_batch_bytes));
  using Self = HostObject;
  Type<Self>("Host", kDoc)
      .property<&Self::address>("address",
                                "The address for reprise.attach, in any process of this machine.")
      .method<&Self::close>(
          "close", "Ends the thread. Raises the error that ended the thread before, if one did.")
      .closes<&Self::close, &Self::entered>("str", "The address.")
      .add(module);
}

}  // namespace reprise::python
