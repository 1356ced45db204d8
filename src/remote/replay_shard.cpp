#include <reprise/remote.hpp>

#include "api/access.hpp"
#include "base/text.hpp"
#include "remote/random_id.hpp"
#include "remote/remote_writers.hpp"
#include "remote/shard_server.hpp"

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

}  // namespace

ReplayShard::ReplayShard(ReplayBuffer& buffer, std::uint64_t seed,
                         std::optional<std::uint64_t> incarnation)
    : writers_(std::make_unique<remote::RemoteWriters>(checked(detail::Access::core(buffer)))),
      server_(std::make_unique<remote::ShardServer>(
          detail::Access::core(buffer), seed, incarnation ? *incarnation : remote::random_id())) {}

ReplayShard::~ReplayShard() = default;
ReplayShard::ReplayShard(ReplayShard&&) noexcept = default;
ReplayShard& ReplayShard::operator=(ReplayShard&&) noexcept = default;

std::uint64_t ReplayShard::incarnation() const noexcept {
  return server_->incarnation();
}
AppendResult ReplayShard::append(std::span<const std::byte> shipment,
                                 std::chrono::nanoseconds timeout) {
  return writers_->append(shipment, timeout);
}
std::size_t ReplayShard::close_writer(std::uint64_t writer_id) {
  return writers_->close(writer_id);
}
std::size_t ReplayShard::writers() const {
  return writers_->size();
}
Blob ReplayShard::exchange(std::span<const std::byte> request) {
  return server_->exchange(request);
}

}  // namespace reprise
