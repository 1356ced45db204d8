#include <reprise/remote.hpp>

#include "base/one_thread.hpp"
#include "remote/client_core.hpp"
#include "window/batch_access.hpp"

#include <memory>

namespace reprise {

using Inside = base::OneThread::Inside;

namespace {

/// Returns the core; throws in a forked child. The child's requests would have the id and the
/// numbers of its parent's requests, and a shard would take them for those.
remote::ClientCore& usable(const std::unique_ptr<remote::ClientCore>& core) {
  core->life.check_not_forked();
  return *core;
}

}  // namespace

ShardClient::ShardClient(const Schema& schema, const Options& of_shards, std::size_t shards,
                         const ShardClientOptions& options)
    : core_(std::make_unique<remote::ClientCore>(schema, of_shards, shards, options)) {}

ShardClient::~ShardClient() = default;
ShardClient::ShardClient(ShardClient&&) noexcept = default;
ShardClient& ShardClient::operator=(ShardClient&&) noexcept = default;

Batch ShardClient::make_batch(std::size_t n, std::pmr::memory_resource* memory,
                              bool unique_frames) const {
  return usable(core_).make_batch(n, memory, unique_frames);
}
std::optional<ShardClient::Ticket> ShardClient::begin(Batch& batch, std::size_t offset,
                                                      std::size_t n, const SampleOptions& options) {
  const Inside inside(usable(core_).one_thread, "ShardClient::begin");
  return core_->begin(window::BatchAccess::store(batch), offset, n, options);
}
Blob ShardClient::request(std::size_t shard, std::chrono::nanoseconds timeout) {
  const Inside inside(usable(core_).one_thread, "ShardClient::request");
  return core_->request(shard, timeout);
}
void ShardClient::answer(std::size_t shard, std::span<const std::byte> answer) {
  const Inside inside(usable(core_).one_thread, "ShardClient::answer");
  core_->answer(shard, answer);
}
void ShardClient::lose(std::size_t shard, bool restarted) {
  const Inside inside(usable(core_).one_thread, "ShardClient::lose");
  core_->lose(shard, restarted);
}
ShardClient::State ShardClient::state(Ticket ticket) const {
  return usable(core_).state(ticket);
}
std::vector<std::size_t> ShardClient::waits_for(Ticket ticket) const {
  return usable(core_).waits_for(ticket);
}
ShardClient::Origins ShardClient::finish(Ticket ticket) {
  const Inside inside(usable(core_).one_thread, "ShardClient::finish");
  return core_->finish(ticket);
}
void ShardClient::drop(Ticket ticket) {
  const Inside inside(usable(core_).one_thread, "ShardClient::drop");
  core_->drop(ticket);
}
std::size_t ShardClient::update(std::span<const ItemKey> keys,
                                std::span<const std::uint32_t> shards,
                                std::span<const std::uint64_t> incarnations,
                                std::span<const float> priorities) {
  const Inside inside(usable(core_).one_thread, "ShardClient::update");
  return core_->update(keys, shards, incarnations, priorities);
}
std::size_t ShardClient::shards() const noexcept {
  return core_->shards();
}
ShardTotals ShardClient::totals(std::size_t shard) const {
  return usable(core_).totals(shard);
}
std::uint64_t ShardClient::stale_updates() const noexcept {
  return core_->stale_updates();
}
std::uint64_t ShardClient::reallotted() const noexcept {
  return core_->reallotted();
}

}  // namespace reprise
