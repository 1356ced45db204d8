#include <reprise/remote.hpp>

#include "api/access.hpp"
#include "base/text.hpp"
#include "remote/deliveries.hpp"
#include "remote/random_id.hpp"
#include "remote/remote_writers.hpp"
#include "remote/shard_server.hpp"

#include <cstring>
#include <memory>
#include <utility>

namespace reprise {
namespace {

/// Refuses mutable columns, because no request updates them.
std::shared_ptr<buffer::BufferCore> checked(std::shared_ptr<buffer::BufferCore> core) {
  for (const FieldSpec& field : core->schema().fields()) {
    base::require(!field.traits().changes, base::Call{"ReplayShard"}, "field '", field.name,
                  "' is a ", field.traits().name, "; allowed: columns that do not change");
  }
  return core;
}

std::uint64_t checked(std::uint64_t incarnation) {
  base::require(incarnation != 0, base::Call{"ReplayShard"},
                "incarnation is 0, which in calls means any; allowed: others");
  return incarnation;
}

}  // namespace

ReplayShard::ReplayShard(ReplayBuffer& buffer, std::optional<std::uint64_t> seed,
                         std::optional<std::uint64_t> incarnation, const ShardPatience& patience)
    : core_(checked(detail::Access::core(buffer))),
      writers_(std::make_unique<remote::RemoteWriters>(core_)),
      server_(std::make_unique<remote::ShardServer>(
          core_, seed, checked(incarnation ? *incarnation : remote::random_id()),
          patience.forgotten)),
      deliveries_(std::make_unique<remote::Deliveries>(*core_, *writers_, server_->incarnation(),
                                                       patience)) {}

ReplayShard::~ReplayShard() = default;
ReplayShard::ReplayShard(ReplayShard&&) noexcept = default;
ReplayShard& ReplayShard::operator=(ReplayShard&&) noexcept = default;

std::uint64_t ReplayShard::incarnation() const noexcept {
  return server_->incarnation();
}
AppendResult ReplayShard::append(std::span<const std::byte> shipment,
                                 std::chrono::nanoseconds timeout, WaitHook* hook) {
  return writers_->append(shipment, timeout, hook);
}
std::size_t ReplayShard::close_writer(std::uint64_t writer_id) {
  return writers_->close(writer_id);
}
std::size_t ReplayShard::writers() const {
  return writers_->size();
}
Blob ReplayShard::exchange(std::span<const std::byte> request, const BlobAllocator& room,
                           WaitHook* hook) {
  return server_->exchange(request, room, hook);
}
Blob ReplayShard::append_all(std::span<const std::byte> call, std::chrono::nanoseconds timeout,
                             std::size_t most, WaitHook* hook) {
  return deliveries_->append_all(call, timeout, most, hook);
}
void ReplayShard::note_alive(std::uint64_t process) {
  deliveries_->note_alive(process);
}
bool ReplayShard::is_silent(std::uint64_t process) const {
  return deliveries_->is_silent(process);
}
DeliveryCounts ReplayShard::deliveries() const {
  return deliveries_->counts();
}

Blob ReplayShard::serve(std::span<const std::byte> call, const BlobAllocator& room) {
  if (remote::open_any(call, "call").kind == remote::BlobKind::Shipments) {
    return append_all(call, std::chrono::nanoseconds(0));
  }
  // Must not wait: this thread also takes the shipments that would end the wait.
  class NoWait final : public WaitHook {
    [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override {
      return false;
    }
  } no_wait;
  return exchange(call, room, &no_wait);
}

ShardState state_of(std::span<const std::byte> answer) {
  using remote::BlobKind;
  remote::BlobHeader header;
  base::require(answer.size() >= sizeof(header), "answer: ", answer.size(),
                " bytes; allowed: at least ", sizeof(header));
  std::memcpy(&header, answer.data(), sizeof(header));
  const BlobKind kind = header.kind;
  base::require(header.magic == remote::BlobHeader::kMagic && kind != BlobKind::Shipment &&
                    kind != BlobKind::Request && kind != BlobKind::Shipments,
                "answer: it is none of a shard");
  return {.incarnation = header.origin,
          .committed = header.steps,
          .closed = kind == BlobKind::Closed,
          .done = kind == BlobKind::Answer || kind == BlobKind::Outcomes};
}

}  // namespace reprise
