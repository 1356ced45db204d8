#pragma once

#include <reprise/remote.hpp>

#include "base/life.hpp"
#include "base/one_thread.hpp"
#include "base/random.hpp"
#include "buffer/outline.hpp"
#include "remote/draft.hpp"
#include "remote/exchange.hpp"
#include "window/batch_store.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

namespace reprise::remote {

/// Implements `ShardClient`, whose calls have the same names here. Keeps the totals that each shard
/// told last, the batches that are begun and not finished, and the requests without an answer. One
/// thread at a time.
class ClientCore {
 public:
  /// Throws as `ShardClient`.
  ClientCore(const Schema& schema, const Options& of_shards, std::size_t shards,
             const ShardClientOptions& options);

  [[nodiscard]] Batch make_batch(std::size_t n, std::pmr::memory_resource* memory,
                                 bool unique_frames) const;

  [[nodiscard]] std::optional<ShardClient::Ticket> begin(window::BatchStore& batch,
                                                         std::size_t offset, std::size_t n,
                                                         const SampleOptions& options);
  [[nodiscard]] Blob request(std::size_t shard, std::chrono::nanoseconds timeout);
  void answer(std::size_t shard, Bytes answer);
  void lose(std::size_t shard, bool restarted);
  [[nodiscard]] ShardClient::State state(ShardClient::Ticket ticket) const;
  [[nodiscard]] std::vector<std::size_t> waits_for(ShardClient::Ticket ticket) const;
  [[nodiscard]] ShardClient::Origins finish(ShardClient::Ticket ticket);
  void drop(ShardClient::Ticket ticket);
  std::size_t update(std::span<const ItemKey> keys, std::span<const std::uint32_t> shards,
                     std::span<const std::uint64_t> incarnations,
                     std::span<const float> priorities);

  [[nodiscard]] std::size_t shards() const noexcept { return shards_.size(); }
  [[nodiscard]] const ShardTotals& totals(std::size_t shard) const;
  [[nodiscard]] std::uint64_t stale_updates() const noexcept { return stale_updates_; }
  [[nodiscard]] std::uint64_t reallotted() const noexcept { return reallotted_; }

  base::OneThread one_thread;  ///< The calls of `ShardClient` enter it.
  const base::Life life;       ///< Never closed; only tells whether this is a forked child.

 private:
  /// A draw in a request: one run of one batch.
  struct Piece {
    ShardClient::Ticket ticket;
    std::uint64_t run;
    DrawRequest draw;
  };
  /// A request without an answer.
  struct InFlight {
    std::vector<Piece> pieces;
    std::vector<ItemKey> keys;  ///< Keys of the updates that the request carries.
    std::vector<float> priorities;
  };
  struct Shard {
    ShardTotals totals;
    std::optional<std::uint32_t> key_tag;         ///< The tag of its keys, from its last answer.
    std::map<std::uint64_t, InFlight> in_flight;  ///< Requests without an answer, by number.
    std::vector<ItemKey> keys;                    ///< Keys of the updates for the next request.
    std::vector<float> priorities;
  };
  [[nodiscard]] Blob request_blob(const Shard& shard, std::span<const DrawRequest> draws,
                                  std::chrono::nanoseconds timeout) const;
  struct Parsed;
  [[nodiscard]] Parsed parse(const Shard& shard, Bytes blob) const;
  void take_draw(const Parsed& parsed, std::size_t draw, Bytes blob, std::size_t shard);
  void leave_out(Draft& draft, std::size_t shard);
  void check_shard(std::size_t shard) const;
  [[nodiscard]] Draft& draft(ShardClient::Ticket ticket);
  [[nodiscard]] const Draft& draft(ShardClient::Ticket ticket) const;

  const buffer::Outline outline_;
  const BatchKinds kinds_;
  const std::uint64_t fingerprint_;
  const std::size_t selector_;
  base::Random random_;
  const std::uint64_t id_;  ///< Tells shards which client made a request.
  std::vector<Shard> shards_;
  std::map<ShardClient::Ticket, Draft> drafts_;
  ShardClient::Ticket next_ticket_ = 0;
  std::uint64_t next_request_ = 0;
  std::uint64_t stale_updates_ = 0;
  std::uint64_t reallotted_ = 0;
};

}  // namespace reprise::remote
