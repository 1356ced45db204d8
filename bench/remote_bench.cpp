// Measures both ends of a remote buffer on one thread, without a network between them: packing 256
// small steps, appending them to a shard, and a learner's cycle over four shards.

#include <reprise/remote.hpp>
#include <reprise/reprise.hpp>

#include "measure.hpp"

#include <chrono>
#include <memory>
#include <vector>

namespace {

constexpr std::size_t kShipment = 256;
constexpr std::size_t kCapacity = std::size_t{1} << 18U;
constexpr std::size_t kEpisode = 1024;

using Clock = std::chrono::steady_clock;

/// A writer with its packer, and the shard that takes what it packs. Rows have 76 bytes as in W2.
class PackerAndShard {
 public:
  explicit PackerAndShard(std::size_t /*size*/) {}

  void write_step() {
    if (!writer_.in_episode()) {
      writer_.begin_episode();
      std::fill_n(writer_.now(state_).begin(), 32, std::uint8_t{1});
    }
    writer_.now(action_) = 1;
    writer_.now(reward_) = 1.0F;
    std::fill_n(writer_.next(state_).begin(), 32, static_cast<std::uint8_t>(++steps_));
    writer_.commit(steps_ % kEpisode == 0 ? reprise::End::Terminated : reprise::End::Continue);
  }
  reprise::Blob pack() {
    for (std::size_t i = 0; i < kShipment; ++i) {
      write_step();
    }
    return packer_.take();
  }

  reprise::Schema schema_;
  reprise::Observation<std::uint8_t> state_ = schema_.observation<std::uint8_t>("state", {32});
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::Options options_{
      .capacity_steps = kCapacity,
      .selectors = {reprise::Proportional{.alpha = bench::kAlpha, .epsilon = bench::kEpsilon}}};
  reprise::StepPacker packer_{schema_, options_};
  reprise::Writer writer_ = packer_.writer();
  std::size_t steps_ = 0;
  reprise::ReplayBuffer replay_{schema_, options_};
  reprise::ReplayShard shard_{replay_};
};

/// Times the shard's append of a shipment; packing the shipment is not timed.
void append(benchmark::State& state) {
  auto& ends = bench::prepared<PackerAndShard>(1);
  for (auto _ : state) {
    const reprise::Blob shipment = ends.pack();
    const auto start = Clock::now();
    benchmark::DoNotOptimize(ends.shard_.append(shipment.bytes()));
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  bench::per_item(state, kShipment);
}

class FourShards {
 public:
  static constexpr std::size_t kShards = 4;

  explicit FourShards(std::size_t /*size*/) {
    for (std::size_t s = 0; s < kShards; ++s) {
      ends_.push_back(std::make_unique<PackerAndShard>(0));
      for (std::size_t i = 0; i < kCapacity / 4; i += kShipment) {
        ends_.back()->shard_.append(ends_.back()->pack().bytes());
      }
    }
    client_ =
        std::make_unique<reprise::ShardClient>(ends_[0]->schema_, ends_[0]->options_, kShards);
    batch_ = std::make_unique<reprise::Batch>(client_->make_batch(bench::kBatch));
    exchange_all();
  }

  void cycle() {
    const auto ticket = client_->begin(*batch_, 0, bench::kBatch, {.beta = bench::kBeta});
    exchange_all();
    const auto origins = client_->finish(*ticket);
    benchmark::DoNotOptimize(batch_->weights().data());
    client_->update(batch_->keys(), origins.shards, origins.incarnations, priorities_.next());
  }

 private:
  void exchange_all() {
    for (std::size_t s = 0; s < kShards; ++s) {
      client_->answer(s, ends_[s]->shard_.exchange(client_->request(s).bytes()).bytes());
    }
  }

  std::vector<std::unique_ptr<PackerAndShard>> ends_;
  std::unique_ptr<reprise::ShardClient> client_;
  std::unique_ptr<reprise::Batch> batch_;
  bench::Priorities priorities_;
};

[[maybe_unused]] const bool added = [] {
  bench::add<PackerAndShard>("remote/pack256", 1, kShipment, [](PackerAndShard& ends) {
    benchmark::DoNotOptimize(ends.pack().bytes().data());
  });
  benchmark::RegisterBenchmark("remote/append256", append)->UseManualTime();
  bench::add<FourShards>("remote/cycle512_of_4", 1, bench::kBatch,
                         [](FourShards& shards) { shards.cycle(); });
  return true;
}();

}  // namespace
