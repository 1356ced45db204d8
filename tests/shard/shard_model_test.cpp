#include "shard_model.hpp"

#include "shard_world.hpp"
#include "testing/test.hpp"

namespace reprise::shard {
namespace {

/// Makes the same random calls on shards and on their model.
class ShardsAndModel {
 public:
  ShardsAndModel(const WorldOptions& options, RemoverModel::Rule rule, std::uint64_t seed)
      : options_(options), world_(options), model_(options, rule), rng_(seed) {}

  void step() {
    switch (rng_.below(10)) {
      case 0:
        take();
        break;
      case 1:
        leave_open();
        break;
      case 2:
      case 3:
      case 4:
        append();
        break;
      case 5:
      case 6:
        ingest();
        break;
      case 7:
        draw();
        break;
      case 8:
        unpin();
        break;
      default:
        update();
    }
    expect_equal();
  }

  void expect_equal_items() {
    for (std::size_t s = 0; s < options_.shards; ++s) {
      const std::set<Place> items = world_.items(s);
      ASSERT_EQ(items, model_.items(s));
      if (!items.empty()) {
        // ShardWorld::items has drawn every item twice, and told the shard's remover so.
        std::vector<std::uint32_t> drawn;
        for (const Place& place : items) {
          drawn.insert(drawn.end(), 2, place.first);
        }
        model_.sampled(s, drawn);
      }
    }
  }

 private:
  static constexpr std::size_t kMaxWriters = 3;
  static constexpr std::size_t kMaxDraws = 4;
  static constexpr std::size_t kMaxKeys = 60;

  std::size_t random_shard() { return rng_.below(options_.shards); }

  void take() {
    if (writers_.size() == kMaxWriters) {
      return;
    }
    const std::size_t s = random_shard();
    const std::uint32_t chunk = world_.take(s);
    ASSERT_EQ(chunk, model_.take(s));
    if (chunk != storage::kNil) {
      ASSERT_EQ(world_.store.chunk(chunk).cursor, model_.chunk(chunk).rows.size());
      writers_.push_back(chunk);
    }
  }
  void append() {
    if (writers_.empty()) {
      return;
    }
    const std::size_t writer = rng_.below(writers_.size());
    const std::uint32_t chunk = writers_[writer];
    const std::size_t room = options_.rows - model_.chunk(chunk).rows.size();
    std::vector<float> rows(std::min(room, rng_.below(4)));
    std::generate(rows.begin(), rows.end(), [&] {
      const std::size_t kind = rng_.below(10);
      return kind < 3   ? ShardWorld::kNotAStep
             : kind < 5 ? ShardWorld::kInitial
                        : static_cast<float>(rng_.below(6));
    });
    world_.publish(chunk, rows);
    model_.publish(chunk, rows);
    const bool closing = rows.size() == room || rng_.chance(0.1);
    if (rng_.chance(0.1)) {
      return;  // The writer is stopped between publishing and ringing.
    }
    const Ring what = closing ? Ring::Closing : Ring::News;
    ASSERT_EQ(world_.ring(chunk, what), model_.ring(chunk, what));
    if (closing) {
      writers_.erase(writers_.begin() + static_cast<std::ptrdiff_t>(writer));
    }
  }
  void leave_open() {
    if (writers_.empty()) {
      return;
    }
    const std::size_t writer = rng_.below(writers_.size());
    const std::uint32_t chunk = writers_[writer];
    ASSERT_EQ(world_.ring(chunk, Ring::News), model_.ring(chunk, Ring::News));
    world_.shard(world_.shard_of(chunk)).chunks().leave_open(chunk);
    model_.leave_open(chunk);
    writers_.erase(writers_.begin() + static_cast<std::ptrdiff_t>(writer));
  }
  void ingest() {
    const std::size_t s = random_shard();
    constexpr std::size_t kAll = 1000;
    const std::size_t max_chunks = rng_.chance(0.5) ? 1 + rng_.below(2) : kAll;
    ASSERT_EQ(world_.ingest(s, max_chunks), model_.ingest(s, max_chunks));
  }
  void draw() {
    const std::size_t s = random_shard();
    if (draws_.size() == kMaxDraws) {
      return;
    }
    const ShardWorld::Draw draw = world_.draw(ShardWorld::kByPriority, 1 + rng_.below(8), s);
    ASSERT_EQ(draw.total, model_.total(s));
    if (draw.total == 0.0) {
      return;
    }
    for (std::size_t i = 0; i < draw.places.size(); ++i) {
      const auto [chunk, row] = draw.places[i];
      const auto& items = model_.chunk(chunk).items;
      ASSERT_TRUE(items.contains(row));
      ASSERT_GT(draw.weights[i], 0.0F);
      ASSERT_EQ(draw.weights[i], items.at(row));
      ASSERT_EQ(draw.keys[i], ItemKey::make(chunk * options_.rows + row,
                                            model_.chunk(chunk).generation, ShardWorld::kTag));
      keys_.push_back(draw.keys[i]);
    }
    for (const std::uint32_t chunk : draw.pinned) {
      model_.pin(chunk);
    }
    std::vector<std::uint32_t> drawn;
    for (const storage::Place& place : draw.places) {
      drawn.push_back(place.chunk);
    }
    model_.sampled(s, drawn);
    while (keys_.size() > kMaxKeys) {
      keys_.erase(keys_.begin() + static_cast<std::ptrdiff_t>(rng_.below(keys_.size())));
    }
    draws_.push_back(draw);
  }
  void unpin() {
    if (draws_.empty()) {
      return;
    }
    const std::size_t at = rng_.below(draws_.size());
    world_.unpin(draws_[at]);
    for (const std::uint32_t chunk : draws_[at].pinned) {
      model_.unpin(chunk);
    }
    draws_.erase(draws_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void update() {
    const std::size_t s = random_shard();
    const auto weight = static_cast<float>(rng_.below(6));
    std::vector<ItemKey> mine;
    std::size_t live = 0;
    for (const ItemKey key : keys_) {
      if (model_.shard_of(key.slot() / options_.rows) == s && rng_.chance(0.5)) {
        mine.push_back(key);
        live += model_.update(key, weight) ? 1U : 0U;
      }
    }
    ASSERT_EQ(world_.update(mine, weight, s), live);
  }

  void expect_equal() {
    ASSERT_TRUE(world_.invariants_hold());
    ASSERT_EQ(world_.budget.resident(), model_.resident());
    for (std::size_t s = 0; s < options_.shards; ++s) {
      const Counters counters = world_.counters(s);
      ASSERT_EQ(counters.ingested_steps, model_.part(s).ingested);
      ASSERT_EQ(counters.evicted_steps, model_.part(s).evicted);
      ASSERT_EQ(counters.queued_chunks, model_.part(s).bells.size());
      ASSERT_EQ(counters.retired_pinned, model_.retired_pinned(s));
      ASSERT_EQ(world_.shard(s).maybe_rung(), !model_.part(s).bells.empty());
      ASSERT_EQ(world_.total(ShardWorld::kByPriority, s), model_.total(s));
      ASSERT_EQ(world_.total(ShardWorld::kUniform, s), static_cast<double>(model_.resident(s)));
    }
  }

  const WorldOptions options_;
  ShardWorld world_;
  ShardModel model_;
  test::Rng rng_;
  std::vector<std::uint32_t> writers_;   ///< The chunks that writers have open.
  std::vector<ShardWorld::Draw> draws_;  ///< Draws whose chunks are still pinned.
  std::vector<ItemKey> keys_;
};

class ShardAgainstItsModel : public testing::TestWithParam<RemoverModel::Rule> {};

INSTANTIATE_TEST_SUITE_P(Removers, ShardAgainstItsModel,
                         testing::Values(RemoverModel::Rule::Fifo, RemoverModel::Rule::SecondChance,
                                         RemoverModel::Rule::LeastRecently,
                                         RemoverModel::Rule::LeastFrequently,
                                         RemoverModel::Rule::LowestPriority));

TEST_P(ShardAgainstItsModel, AgreesAfterEveryRandomOperation) {
  constexpr int kSteps = 400;
  const std::size_t seeds = test::scaled(GetParam() == RemoverModel::Rule::Fifo ? 300 : 150, 20);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(~seed);
    ShardsAndModel duet({.shards = rng.between(1, 3),
                         .chunks = static_cast<std::uint32_t>(rng.between(2, 6)),
                         .rows = static_cast<std::uint32_t>(rng.between(2, 9)),
                         .capacity = 3 * rng.between(1, 6),
                         .remover = RemoverModel::remover(GetParam())},
                        GetParam(), seed);
    for (int i = 0; i < kSteps; ++i) {
      ASSERT_NO_FATAL_FAILURE(duet.step()) << "step " << i;
      if (i % 8 == 0) {
        ASSERT_NO_FATAL_FAILURE(duet.expect_equal_items()) << "step " << i;
      }
    }
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace reprise::shard
