#pragma once

#include <reprise/detail/blob.hpp>
#include <reprise/replay_buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

/// A replay buffer for other processes of the same machine and user: the process that has the
/// buffer is the host, those that attach to it are guests (`reprise/guest.hpp`).
///
/// Not stable: calls may change with any version.
namespace reprise {

namespace process {
class Server;
}

/// Answers a call that is not for the buffer. A service should make its answer in memory from
/// `room`, which the guest has mapped, and may keep an answer and return it again. The thread in
/// `Host::run` calls the service, so it should not wait. If the service throws, the guest gets the
/// exception as `ServiceClient::Answer::error`.
using Service = std::function<Blob(std::span<const std::byte> call, const BlobAllocator& room)>;

/// Options of a `Host`.
struct HostOptions {
  /// Where guests attach: a path of a Unix socket, which must not exist, or `@name` for a name that
  /// is in no file system and vanishes with the host. Empty: `@reprise-` and a random number.
  std::string address = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.
  /// Steps that each environment of a guest may be ahead of the buffer, 8 to 2^20; rounded up to a
  /// power of two. 0 chooses: as many as take 4 MiB for each writer or vector writer, within 16 and
  /// 4096. Steps ahead are not in the buffer yet, so a rate limiter does not count them.
  std::size_t ring_steps = 0;
  /// Most bytes of a batch that a guest asks for: each of its samplers has memory for its largest
  /// one, and while the thread in `run` copies a batch, other guests wait. 1 GiB holds 32,768 items
  /// of 32 KiB each, as two stacks of 16 KiB are. 0: guests draw no batches.
  std::size_t max_batch_bytes = std::size_t{1} << 30U;
  /// Answers the calls of each `ServiceClient`. Empty: such calls are refused.
  Service service = {};  // NOLINT(readability-redundant-member-init): as above.
};

/// Serves a buffer to guests.
///
/// A guest's writer fills memory that both processes have mapped. The thread in `run` takes its
/// steps from there and commits them to the buffer, as an ordinary writer would: within two
/// milliseconds, or at once for a guest that waits for room. A step that the rate limiter holds, or
/// for which there is no room, stays in the shared memory, and the guest waits once that memory is
/// full. A guest's sampler asks over a socket; the thread draws into memory that the guest has
/// mapped.
///
/// No guest can hold up the buffer or another guest. A guest that dies, at any instruction, leaves
/// the steps that it has committed, and its episodes end as truncated at the last of these steps. A
/// stopped guest stays as it is. A guest whose memory holds what no writer could have written loses
/// its connection. A process of another user, of another version of reprise, or for which the host
/// has no file descriptor left, is refused.
///
/// Thread safety: every method from any thread, but `run` from one at a time. Lifetime: may outlive
/// the buffer, which then reads as closed; after `ReplayBuffer::restore` make another one.
/// Destroying a host ends every wait of its guests, which then read as closed.
class Host {
 public:
  /// Guests may attach from now on, and are served once `run` runs. Errors: `std::invalid_argument`
  /// for options out of range; `std::system_error` naming the address, for example if it is taken.
  explicit Host(ReplayBuffer& buffer, const HostOptions& options = {});
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// The address for `attach`, in any process of this machine and user.
  [[nodiscard]] const std::string& address() const noexcept;

  /// Serves until stop is requested, which it notices within two milliseconds, or the buffer is
  /// closed. Steps that guests have committed before the request are in the buffer when the call
  /// returns, as far as there is room. Guests stay attached, and may be served by a later call.
  /// `std::system_error` if the system refuses what it needs; `std::logic_error` in a forked child.
  void run(std::stop_token stop);

 private:
  std::unique_ptr<process::Server> server_;
};

}  // namespace reprise
