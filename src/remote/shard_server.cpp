#include "remote/shard_server.hpp"

#include "base/normal.hpp"
#include "base/text.hpp"
#include "buffer/priorities.hpp"
#include "buffer/update.hpp"
#include "remote/deliveries.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace reprise::remote {
namespace {

template <class T>
std::vector<T> values(Bytes bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!result.empty()) {
    std::memcpy(result.data(), bytes.data(), bytes.size());
  }
  return result;
}

/// Removes the updates of keys that another buffer gave, and returns how many it removed.
std::size_t drop_foreign(std::vector<ItemKey>& keys, std::vector<float>& priorities,
                         buffer::BufferCore& core) {
  const std::size_t slots = core.store().chunks() * core.store().chunk_rows();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].tag() == core.tag() && keys[i].slot() < slots) {
      keys[kept] = keys[i];
      priorities[kept++] = priorities[i];
    }
  }
  const std::size_t dropped = keys.size() - kept;
  keys.resize(kept);
  priorities.resize(kept);
  return dropped;
}

}  // namespace

struct ShardServer::Request {
  BlobHeader header;
  RequestHead head;
  std::vector<std::uint64_t> waits;
  std::vector<ItemKey> keys;
  std::vector<float> priorities;
  std::vector<DrawRequest> draws;
  std::size_t stale = 0;  ///< How many updates had keys that this buffer never gave.
};

ShardServer::ShardServer(std::shared_ptr<buffer::BufferCore> core,
                         std::optional<std::uint64_t> seed, std::uint64_t incarnation,
                         std::chrono::nanoseconds forgotten)
    : core_(std::move(core)),
      fingerprint_(fingerprint(core_->schema(), core_->options().window)),
      incarnation_(incarnation),
      kinds_(core_->schema(), core_->window()),
      forgotten_(forgotten) {
  base::require(core_->options().max_times_sampled == 0, base::Call{"ReplayShard"},
                "max_times_sampled is ", core_->options().max_times_sampled,
                "; allowed: 0, as each such draw needs all shards at one moment");
  check_laws("ReplayShard", core_->selectors());
  for (std::size_t s = 0; s < core_->selectors().size(); ++s) {
    samplers_.push_back(std::make_unique<sampler::SamplerCore>(
        core_, SamplerOptions{.seed = seed.value_or(incarnation) + s}, s));
  }
}

ShardServer::Request ShardServer::parse(Bytes blob) const {
  Request request;
  request.header = open(blob, BlobKind::Request, fingerprint_);
  BlobReader reader(blob, "request");
  request.head = reader.value<RequestHead>();
  const RequestHead& head = request.head;
  reader.require(head.selector < core_->selectors().size(), "selector ", head.selector,
                 "; allowed: below ", core_->selectors().size());
  reader.require(head.timeout_ns <= std::numeric_limits<std::int64_t>::max(), "timeout ",
                 head.timeout_ns, " ns");
  request.waits = values<std::uint64_t>(reader.bytes(head.waits, sizeof(std::uint64_t)));
  request.waits.push_back(request.header.number);
  reader.require(std::ranges::is_sorted(request.waits),
                 "requests not in the sequence of their numbers");
  request.keys = values<ItemKey>(reader.bytes(head.updates, sizeof(ItemKey)));
  request.priorities = values<float>(reader.bytes(head.updates, sizeof(float)));
  request.draws = values<DrawRequest>(reader.bytes(head.draws, sizeof(DrawRequest)));
  reader.finish();
  // The selector need not be able to weigh these: its exponent may have been set since the client
  // asked its own.
  for (const float priority : request.priorities) {
    reader.require(base::finite_and_not_negative(priority), "priority ", priority,
                   "; allowed: finite, at least 0");
  }
  request.stale = drop_foreign(request.keys, request.priorities, *core_);
  for (const DrawRequest& draw : request.draws) {
    reader.require(draw.draws <= static_cast<std::uint32_t>(Draws::Independent), "draws of kind ",
                   draw.draws, "; allowed: stratified and independent ones");
    reader.require(kinds_.has(draw), "unique frames: ", draw.unique_frames,
                   "; allowed: 0, and 1 of Transitions");
    if (draw.targets.n_step != 0) {
      static_cast<void>(core_->window().targets(draw.targets.n_step, draw.targets.discount));
    }
    if (draw.items != 0) {
      core_->limiter().check_batch(static_cast<std::size_t>(draw.items));
    }
  }
  return request;
}

Blob ShardServer::exchange(Bytes blob, const BlobAllocator& room, WaitHook* hook) {
  core_->life().check_not_forked();
  const Request request = parse(blob);
  const base::MutexLock lock(mutex_);
  Client& client = client_of(request);
  const std::uint64_t number = request.header.number;
  if (const auto kept = client.answers.find(number); kept != client.answers.end()) {
    return kept->second;
  }
  const std::uint64_t incarnation = request.head.incarnation;
  // If the client does not wait for the answer, this is a late copy of a request that was answered.
  const bool waits = std::ranges::binary_search(client.waits, number);
  const bool for_this = incarnation == 0 || incarnation == incarnation_;
  if (!waits || !for_this || core_->closed()) {
    return refusal(*core_, incarnation_);
  }
  const auto entry = client.answers.emplace(number, Blob()).first;
  try {
    entry->second = answer(request, room, hook);
  } catch (...) {
    client.answers.erase(entry);
    throw;
  }
  return entry->second;
}

/// Returns the client of a request. Forgets the answers that the client has confirmed, and clients
/// that were silent for longer than `forgotten_`.
ShardServer::Client& ShardServer::client_of(const Request& request) {
  Client& client = clients_[request.header.origin];
  client.last_heard = base::Clock::now();
  if (client.waits.empty() || client.waits.back() < request.header.number) {
    client.waits = request.waits;
    std::erase_if(client.answers, [&](const auto& answer) {
      return !std::ranges::binary_search(client.waits, answer.first);
    });
  }
  constexpr std::chrono::seconds kSweepInterval{1};  // Sweeping at each request would cost more.
  if (client.last_heard - last_sweep_ > kSweepInterval) {
    last_sweep_ = client.last_heard;
    std::erase_if(clients_, [&](const auto& other) {
      return client.last_heard - other.second.last_heard > forgotten_;
    });
  }
  return client;
}

/// Executes a request: its updates, and then its draws, so that the draws see the updates.
Blob ShardServer::answer(const Request& request, const BlobAllocator& room, WaitHook* hook) {
  const AnswerLayout layout(kinds_, request.draws);
  Blob answer = room ? room(layout.bytes()) : Blob(layout.bytes());
  const base::Clock::time_point deadline = base::deadline_after(
      std::chrono::nanoseconds(static_cast<std::int64_t>(request.head.timeout_ns)));
  static_cast<void>(
      buffer::update_checked(*core_, request.keys, request.priorities, request.head.selector));
  // Relaxed, because this is only a statistic.
  core_->counters.stale_updates.fetch_add(request.stale, std::memory_order_relaxed);
  std::vector<DrawStatus> statuses(request.draws.size());
  for (std::size_t i = 0; i < request.draws.size(); ++i) {
    statuses[i] = draw(request, i, answer.bytes().data() + layout.place(i), deadline, hook);
  }
  AnswerHead head = totals(request.head.selector);
  head.draws = request.head.draws;
  BlobWriter writer(answer);
  writer.value(head);
  writer.bytes(std::as_bytes(std::span(statuses)));
  seal(answer, {.kind = BlobKind::Answer,
                .fingerprint = fingerprint_,
                .origin = incarnation_,
                .number = request.header.number,
                .steps = head.inserts});
  return answer;
}

/// Executes one draw of a request, into a batch whose memory is at `place` in the answer.
DrawStatus ShardServer::draw(const Request& request, std::size_t draw, std::byte* place,
                             base::Clock::time_point deadline, WaitHook* hook) {
  const DrawRequest& asked = request.draws[draw];
  const auto n = static_cast<std::size_t>(asked.items);
  if (n == 0) {
    const bool nothing = !(totals(request.head.selector).total > 0.0);
    return static_cast<DrawStatus>(nothing ? SampleStatus::Code::NothingToDraw
                                           : SampleStatus::Code::Ok);
  }
  window::BatchStore batch(core_->schema(), core_->window(), nullptr, asked.unique_frames != 0);
  batch.lay_over(place, n);
  SampleOptions options;
  options.beta = 0.0F;
  options.normalise = Normalise::Not;
  options.draws = static_cast<Draws>(asked.draws);
  if (asked.targets.n_step != 0) {
    options.n_step = asked.targets.n_step;
    options.discount = asked.targets.discount;
  }
  options.timeout = std::max(std::chrono::nanoseconds(deadline - base::Clock::now()),
                             std::chrono::nanoseconds(0));
  options.hook = hook;
  SampleStatus::Code code = samplers_[request.head.selector]->sample(batch, 0, n, options).code;
  // Without weight there is nothing to draw, however long the client would wait.
  if (code != SampleStatus::Code::Ok && !(totals(request.head.selector).total > 0.0)) {
    code = SampleStatus::Code::NothingToDraw;
  }
  return static_cast<DrawStatus>(code);
}

/// What an answer tells of the whole shard, at this moment.
AnswerHead ShardServer::totals(std::size_t selector) const {
  core_->shards().ingest_pending();
  const SelectorSummary hint = buffer::hinted(*core_, selector);
  AnswerHead head;
  head.total = hint.total;
  head.min_positive = static_cast<double>(hint.min_positive);
  head.items = core_->shards().items();
  head.inserts = core_->slots().committed();
  const buffer::Counters& counters = core_->counters;
  // Relaxed, because these are only statistics.
  head.samples = counters.sampled_items.load(std::memory_order_relaxed);
  head.applied_updates = counters.applied_updates.load(std::memory_order_relaxed);
  head.stale_updates = counters.stale_updates.load(std::memory_order_relaxed);
  head.key_tag = core_->tag();
  return head;
}

}  // namespace reprise::remote
