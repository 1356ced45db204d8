#include "remote/client_core.hpp"

#include "base/text.hpp"
#include "buffer/update.hpp"
#include "remote/random_id.hpp"
#include "window/batch_access.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

namespace reprise::remote {

ClientCore::ClientCore(const Schema& schema, const Options& of_shards, std::size_t shards,
                       const ShardClientOptions& options)
    : outline_(schema, of_shards),
      kinds_(outline_.format.schema, outline_.format.window),
      fingerprint_(fingerprint(schema, of_shards.window)),
      selector_(options.selector),
      random_(options.seed),
      id_(random_id()),
      shards_(shards) {
  check_laws("ShardClient", outline_.selectors);
  base::require(shards != 0 && shards <= std::numeric_limits<std::uint32_t>::max(),
                base::Call{"ShardClient"}, shards, " shards; allowed: at least 1");
  base::require(selector_ < outline_.selectors.size(), base::OptionsOf{"ShardClientOptions"},
                "selector is ", selector_, "; allowed: 0 to ", outline_.selectors.size() - 1);
}

Batch ClientCore::make_batch(std::size_t n, std::pmr::memory_resource* memory,
                             bool unique_frames) const {
  return window::BatchAccess::make(outline_.format.schema, outline_.format.window, n, memory,
                                   unique_frames);
}

void ClientCore::check_shard(std::size_t shard) const {
  base::require(shard < shards_.size(), base::Call{"ShardClient"}, "shard ", shard,
                "; allowed: 0 to ", shards_.size() - 1);
}

Draft& ClientCore::draft(ShardClient::Ticket ticket) {
  return const_cast<Draft&>(std::as_const(*this).draft(ticket));
}

const Draft& ClientCore::draft(ShardClient::Ticket ticket) const {
  const auto found = drafts_.find(ticket);
  base::require(found != drafts_.end(), base::Call{"ShardClient"}, "no batch has ticket ", ticket);
  return found->second;
}

std::optional<ShardClient::Ticket> ClientCore::begin(window::BatchStore& batch, std::size_t offset,
                                                     std::size_t n, const SampleOptions& options) {
  base::require(n != 0, base::Call{"ShardClient::begin"}, "batch size is 0; allowed: at least 1");
  base::require(options.beta >= 0.0F && options.beta <= 1.0F, base::Call{"ShardClient::begin"},
                "beta is ", options.beta, "; allowed: 0 to 1");
  base::require(options.draws != Draws::WithoutReplacement, base::Call{"ShardClient::begin"},
                "draws is ", base::Enumerator{"WithoutReplacement"},
                "; allowed: ", base::Enumerator{"Stratified"}, " and ",
                base::Enumerator{"Independent"}, ", as the others need all shards at one moment");
  base::require(options.draws != Draws::Epoch, base::Call{"ShardClient::begin"}, "draws is ",
                base::Enumerator{"Epoch"}, "; allowed: ", base::Enumerator{"Stratified"}, " and ",
                base::Enumerator{"Independent"},
                ", as a pass that a lost shard has begun could not be taken up by another");
  batch.check_places("ShardClient::begin", outline_.format.schema, outline_.format.window, offset,
                     n);
  std::vector<Draft::Known> known(shards_.size());
  bool any_weight = false;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    const ShardTotals& totals = shards_[s].totals;
    if (totals.alive && totals.total > 0.0) {
      known[s] = {totals.total, totals.min_positive, static_cast<double>(totals.items)};
      any_weight = true;
    }
  }
  if (!any_weight) {
    return std::nullopt;
  }
  drafts_.emplace(std::piecewise_construct, std::forward_as_tuple(next_ticket_),
                  std::forward_as_tuple(batch, offset, n, options, std::move(known), random_));
  return next_ticket_++;
}

Blob ClientCore::request(std::size_t number, std::chrono::nanoseconds timeout) {
  check_shard(number);
  base::require(timeout.count() >= 0, base::Call{"ShardClient::request"}, "timeout is ",
                timeout.count(), " ns; allowed: at least 0");
  Shard& shard = shards_[number];
  InFlight in_flight;
  std::vector<DrawRequest> draws;
  for (auto& [ticket, draft] : drafts_) {
    for (const Draft::Run& run : draft.runs()) {
      if (run.shard == number && !run.asked) {
        draws.push_back({run.count, static_cast<std::uint32_t>(draft.draws()),
                         draft.unique_frames() ? 1U : 0U, draft.targets()});
        in_flight.pieces.push_back({ticket, run.id, draws.back()});
      }
    }
  }
  Blob blob = request_blob(shard, draws, timeout);
  InFlight& sent = shard.in_flight.emplace(next_request_, std::move(in_flight)).first->second;
  // Nothing throws from here on.
  ++next_request_;
  sent.keys.swap(shard.keys);
  sent.priorities.swap(shard.priorities);
  for (auto& [ticket, draft] : drafts_) {
    for (Draft::Run& run : draft.runs()) {
      run.asked = run.asked || run.shard == number;
    }
  }
  return blob;
}

/// The next request to a shard: for these draws, with the updates that wait for it.
Blob ClientCore::request_blob(const Shard& shard, std::span<const DrawRequest> draws,
                              std::chrono::nanoseconds timeout) const {
  std::vector<std::uint64_t> waits;
  std::ranges::transform(shard.in_flight, std::back_inserter(waits),
                         [](const auto& one) { return one.first; });
  Blob blob(sizeof(BlobHeader) + sizeof(RequestHead) + waits.size() * sizeof(std::uint64_t) +
            shard.keys.size() * (sizeof(ItemKey) + sizeof(float)) +
            draws.size() * sizeof(DrawRequest));
  BlobWriter writer(blob);
  writer.value(RequestHead{.timeout_ns = static_cast<std::uint64_t>(timeout.count()),
                           .updates = shard.keys.size(),
                           .selector = static_cast<std::uint32_t>(selector_),
                           .draws = static_cast<std::uint32_t>(draws.size()),
                           .incarnation = shard.totals.alive ? shard.totals.incarnation : 0,
                           .waits = waits.size()});
  writer.bytes(std::as_bytes(std::span(waits)));
  writer.bytes(std::as_bytes(std::span(shard.keys)));
  writer.bytes(std::as_bytes(std::span(shard.priorities)));
  writer.bytes(std::as_bytes(draws));
  seal(blob, {.kind = BlobKind::Request,
              .fingerprint = fingerprint_,
              .origin = id_,
              .number = next_request_});
  return blob;
}

struct ClientCore::Parsed {
  BlobHeader header;
  AnswerHead head;
  const InFlight* in_flight;
  std::vector<DrawStatus> statuses;
  AnswerLayout layout;
};

/// Checks the whole answer before any part of it is used.
ClientCore::Parsed ClientCore::parse(const Shard& shard, Bytes blob) const {
  const BlobHeader header = open(blob, BlobKind::Answer, fingerprint_);
  const auto found = shard.in_flight.find(header.number);
  base::require(found != shard.in_flight.end(), "answer ", header.number,
                ": no request of this shard waits for it");
  const std::vector<Piece>& pieces = found->second.pieces;
  BlobReader reader(blob, "answer");
  const auto head = reader.value<AnswerHead>();
  reader.require(head.draws == pieces.size(), head.draws, " draws; the request had ",
                 pieces.size());
  reader.require(std::isfinite(head.total) && head.total >= 0.0 && head.min_positive >= 0.0,
                 "totals that are not numbers of at least 0");
  std::vector<DrawStatus> statuses(pieces.size());
  std::vector<DrawRequest> draws;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    statuses[i] = reader.value<DrawStatus>();
    draws.push_back(pieces[i].draw);
  }
  AnswerLayout layout(kinds_, draws);
  reader.require(layout.bytes() == blob.size(), "the answer has ", blob.size(),
                 " bytes; allowed for its draws: ", layout.bytes());
  return {header, head, &found->second, std::move(statuses), std::move(layout)};
}

void ClientCore::answer(std::size_t number, Bytes blob) {
  check_shard(number);
  Shard& shard = shards_[number];
  const Parsed parsed = parse(shard, blob);
  shard.totals = {.alive = true,
                  .incarnation = parsed.header.origin,
                  .total = parsed.head.total,
                  .min_positive = parsed.head.min_positive,
                  .items = parsed.head.items,
                  .inserts = parsed.head.inserts,
                  .samples = parsed.head.samples,
                  .applied_updates = parsed.head.applied_updates,
                  .stale_updates = parsed.head.stale_updates};
  shard.key_tag = parsed.head.key_tag;
  for (std::size_t i = 0; i < parsed.statuses.size(); ++i) {
    take_draw(parsed, i, blob, number);
  }
  shard.in_flight.erase(parsed.header.number);
}

void ClientCore::take_draw(const Parsed& parsed, std::size_t draw, Bytes blob, std::size_t shard) {
  const Piece& piece = parsed.in_flight->pieces[draw];
  const auto found = drafts_.find(piece.ticket);
  Draft::Run* const run = found == drafts_.end() ? nullptr : found->second.find(piece.run);
  if (run == nullptr) {
    return;  // The batch was dropped, or the run's places were given to other shards.
  }
  const auto code = static_cast<SampleStatus::Code>(parsed.statuses[draw]);
  if (code != SampleStatus::Code::Ok) {
    found->second.timed_out |=
        code == SampleStatus::Code::TimedOut || code == SampleStatus::Code::Stopped;
    leave_out(found->second, shard);
    return;
  }
  if (run->count == 0) {
    Draft::fill(*run, parsed.header.origin);
    return;
  }
  // Nothing is written to the answer, so the cast is safe.
  window::BatchStore items(outline_.format.schema, outline_.format.window, nullptr,
                           piece.draw.unique_frames != 0);
  items.lay_over(const_cast<std::byte*>(blob.data()) + parsed.layout.place(draw), run->count);
  found->second.fill(*run, items, parsed.header.origin);
}

void ClientCore::leave_out(Draft& draft, std::size_t shard) {
  reallotted_ += draft.leave_out(shard, random_);
  // A lost shard that had filled its runs before may have been given new places just now.
  for (bool again = true; again;) {
    again = false;
    for (std::size_t s = 0; s < shards_.size(); ++s) {
      if (!shards_[s].totals.alive && draft.waits_for(s)) {
        reallotted_ += draft.leave_out(s, random_);
        again = true;
      }
    }
  }
}

void ClientCore::lose(std::size_t number, bool restarted) {
  check_shard(number);
  Shard& shard = shards_[number];
  shard.totals.alive = false;
  shard.totals.total = 0.0;
  shard.totals.items = 0;
  // Collects the updates in the order in which they were made, because of two updates of one key
  // the later one counts.
  std::vector<ItemKey> keys;
  std::vector<float> priorities;
  const auto add = [&](const auto& updates) {
    keys.insert(keys.end(), updates.keys.begin(), updates.keys.end());
    priorities.insert(priorities.end(), updates.priorities.begin(), updates.priorities.end());
  };
  for (const auto& [request, in_flight] : shard.in_flight) {
    add(in_flight);
  }
  add(shard);
  if (!restarted) {
    stale_updates_ += keys.size();
    keys.clear();
    priorities.clear();
  }
  shard.keys = std::move(keys);
  shard.priorities = std::move(priorities);
  shard.in_flight.clear();
  for (auto& [ticket, draft] : drafts_) {
    if (draft.waits_for(number)) {
      leave_out(draft, number);
    }
  }
}

ShardClient::State ClientCore::state(ShardClient::Ticket ticket) const {
  const Draft& batch = draft(ticket);
  if (batch.nothing_left()) {
    return batch.timed_out ? ShardClient::State::TimedOut : ShardClient::State::NothingToDraw;
  }
  return batch.ready() ? ShardClient::State::Ready : ShardClient::State::Waiting;
}

std::vector<std::size_t> ClientCore::waits_for(ShardClient::Ticket ticket) const {
  const Draft& batch = draft(ticket);
  std::vector<std::size_t> shards;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (batch.waits_for(s)) {
      shards.push_back(s);
    }
  }
  return shards;
}

ShardClient::Origins ClientCore::finish(ShardClient::Ticket ticket) {
  Draft& batch = draft(ticket);
  if (!batch.ready()) {
    base::refuse<std::logic_error>(base::Call{"ShardClient::finish"},
                                   "shards have not answered for the batch");
  }
  ShardClient::Origins origins = batch.finish();
  drafts_.erase(ticket);
  return origins;
}

void ClientCore::drop(ShardClient::Ticket ticket) {
  static_cast<void>(draft(ticket));
  drafts_.erase(ticket);
}

std::size_t ClientCore::update(std::span<const ItemKey> keys, std::span<const std::uint32_t> shards,
                               std::span<const std::uint64_t> incarnations,
                               std::span<const float> priorities) {
  base::require(shards.size() == keys.size() && incarnations.size() == keys.size() &&
                    priorities.size() == keys.size(),
                base::Call{"ShardClient::update"}, keys.size(), " keys, ", shards.size(),
                " shards, ", incarnations.size(), " incarnations and ", priorities.size(),
                " priorities; allowed: equal counts");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_shard(shards[i]);
  }
  // The priorities are checked here, because a shard would refuse the whole request with its draws.
  buffer::check_priorities("ShardClient::update", priorities, outline_.selectors.at(selector_));
  std::size_t stale = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Shard& shard = shards_[shards[i]];
    // A shard that was restarted from a checkpoint keeps the tag of its keys, and tells valid keys
    // from stale ones by their generations. A shard that has not answered yet gets all keys.
    const bool may_be_valid = !shard.key_tag || shard.totals.incarnation == incarnations[i] ||
                              keys[i].tag() == *shard.key_tag;
    if (!may_be_valid) {
      ++stale;
      continue;
    }
    shard.keys.push_back(keys[i]);
    shard.priorities.push_back(priorities[i]);
  }
  stale_updates_ += stale;
  return stale;
}

const ShardTotals& ClientCore::totals(std::size_t shard) const {
  check_shard(shard);
  return shards_[shard].totals;
}

}  // namespace reprise::remote
