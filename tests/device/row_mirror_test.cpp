#include <reprise/device_ring.hpp>
#include <reprise/mixed_sampler.hpp>

#include "testing/test.hpp"
#include "testing/worlds/world.hpp"

namespace reprise::test {
namespace {

/// A copy of the rows of a mirror, as a device has it, which is read in the mirror's layout.
class MirrorCopy {
 public:
  explicit MirrorCopy(RowMirror& mirror) : mirror_(mirror) {}

  /// Copies the mirror's new rows. Returns their number.
  std::size_t update() {
    const auto [rows, bytes] = mirror_.new_rows();
    const std::size_t row_bytes = mirror_.layout().row_bytes;
    EXPECT_EQ(bytes.size(), rows.size() * row_bytes);
    bytes_.resize(mirror_.rows() * row_bytes);
    EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), rows.size()) << "a row occurs twice";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::ranges::copy(bytes.subspan(i * row_bytes, row_bytes),
                        row(static_cast<std::size_t>(rows[i])));
    }
    return rows.size();
  }
  /// The row with which an item of the last batch begins.
  [[nodiscard]] std::size_t first(std::size_t item) const {
    return static_cast<std::size_t>(mirror_.first_rows()[item]);
  }
  [[nodiscard]] std::byte* row(std::size_t number) {
    if (number >= mirror_.rows()) {
      throw std::logic_error("the copy has no such row");
    }
    return bytes_.data() + number * mirror_.layout().row_bytes;
  }
  [[nodiscard]] std::uint64_t word(std::size_t row, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, this->row(row) + offset, sizeof(value));
    return value;
  }

 private:
  RowMirror& mirror_;
  std::vector<std::byte> bytes_;
};

/// Names the first field that is wrong in the window of an item, in the copy or in the batch; empty
/// if all are right. A row begins with its episode id, and a word of position, length and flags.
std::string mismatch(const World& world, const RowMirror& mirror, MirrorCopy& copy,
                     const Batch& batch, std::size_t item, std::uint32_t stack) {
  const std::size_t first = copy.first(item);
  const std::uint64_t packed = copy.word(first, 8);
  const auto length = static_cast<std::uint32_t>(packed >> 8U & 0xffffU);
  const StepName name = World::name_of(copy.word(first, 0), packed >> 24U);
  const auto back = static_cast<std::int64_t>(std::min<std::uint64_t>(name.position, stack - 1));
  for (std::int64_t k = -back; k <= std::int64_t{length}; ++k) {
    for (const AnyField field : world.fields()) {
      const bool observation = field.role() == Role::Observation;
      if (mirror.layout().offsets[field.index()] == RowMirror::Layout::kInBatches) {
        const std::span<const std::byte> column = batch.now(field);
        const std::size_t values = column.size() / batch.size() / world.bytes(field);
        const auto step = static_cast<std::size_t>(k);
        if (k >= 0 && k < std::int64_t{length} && step < values &&
            !world.matches(
                column.subspan((item * values + step) * world.bytes(field), world.bytes(field)),
                field, name.after(k))) {
          return "field " + std::to_string(field.index()) + " in the batch, of " + name.words();
        }
        continue;
      }
      if (!observation && (k < 0 || k == std::int64_t{length})) {
        continue;
      }
      const std::byte* const at = copy.row(static_cast<std::size_t>(std::int64_t(first) + k)) +
                                  mirror.layout().offsets[field.index()];
      if (!world.matches({at, world.bytes(field)}, field, name.after(k))) {
        return "field " + std::to_string(field.index()) + " of step " + std::to_string(k) + " of " +
               name.words();
      }
    }
  }
  return length == 0 ? "no step" : "";
}

void append(const World& world, Writer& writer, Rng& rng) {
  world.append(writer, 1,
               rng.chance(0.1)   ? End::Terminated
               : rng.chance(0.1) ? End::Truncated
                                 : End::Continue);
}

class RowMirrorOf : public testing::TestWithParam<Window> {};
INSTANTIATE_TEST_SUITE_P(
    Windows, RowMirrorOf,
    testing::Values(Window(Transitions{}), Window(Transitions{.n_step = 4, .frame_stack = 3}),
                    Window(Sequences{.length = 5, .period = 2, .frame_stack = 2})));

TEST_P(RowMirrorOf, HasTheWindowsOfAllItemsThatAreDrawn) {
  const bool transitions = std::holds_alternative<Transitions>(GetParam());
  const std::uint32_t stack = std::visit([](auto& kind) { return kind.frame_stack; }, GetParam());
  for (std::uint64_t seed = 1; seed <= scaled(20, 3); ++seed) {
    Rng rng(seed);
    World world(World::Fields{
        .discount = true, .states = !transitions, .compressed = true, .mutable_columns = true});
    const AnyField latent = *world.schema().find("latent");
    ReplayBuffer replay(world.schema(), SmallOptions{.capacity_steps = 100,
                                                     .window = GetParam(),
                                                     .max_writers = 3,
                                                     .chunk_steps = 16,
                                                     .shards = 2});
    Sampler sampler = replay.sampler({.seed = seed});
    RowMirror mirror(sampler);
    MirrorCopy copy(mirror);
    std::vector<Writer> writers;
    writers.push_back(replay.writer());
    writers.push_back(replay.writer());
    for (int round = 0; round < 100; ++round) {
      for (std::size_t steps = rng.chance(0.1) ? 150 : rng.below(8); steps != 0; --steps) {
        append(world, writers[rng.below(2)], rng);
      }
      const SampleResult batch = sampler.sample(rng.between(1, 20), {.timeout = 0ns});
      if (!batch || rng.chance(0.2)) {
        continue;  // The copy gets the rows of this draw together with those of the next draw.
      }
      copy.update();
      for (std::size_t i = 0; i < batch->size(); ++i) {
        ASSERT_EQ(mismatch(world, mirror, copy, *batch, i, stack), "") << "round " << round;
      }
      const ItemKey key = batch->keys()[0];
      const StepName name =
          World::name_of(copy.word(copy.first(0), 0), copy.word(copy.first(0), 8) >> 24U);
      if (transitions) {  // With sequences, a step may be in two chunks, and an update reaches one.
        replay.update({&key, 1}, latent, world.rewrite(latent, name, rng.next()));
      }
    }
  }
}

TEST_P(RowMirrorOf, HasTheDrawnWindowsWhileWritersAppend) {
  const World world;
  const std::uint32_t stack = std::visit([](auto& kind) { return kind.frame_stack; }, GetParam());
  ReplayBuffer replay(world.schema(), SmallOptions{.capacity_steps = 200,
                                                   .window = GetParam(),
                                                   .max_writers = 3,
                                                   .chunk_steps = 16,
                                                   .shards = 2});
  Sampler sampler = replay.sampler({.seed = 3});
  RowMirror mirror(sampler);
  MirrorCopy copy(mirror);
  std::vector<std::jthread> threads;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    threads.emplace_back([&, seed](const std::stop_token& stop) {
      Rng rng(seed);
      Writer writer = replay.writer();
      while (!stop.stop_requested()) {
        append(world, writer, rng);
      }
    });
  }
  for (std::size_t round = 0; round < scaled(5000, 200); ++round) {
    const SampleResult batch = sampler.sample(8);
    ASSERT_TRUE(batch);
    copy.update();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      ASSERT_EQ(mismatch(world, mirror, copy, *batch, i, stack), "") << "round " << round;
    }
  }
}

TEST(RowMirror, CopiesEachRowOnce) {
  NumberedBuffer line(SmallOptions{.capacity_steps = 1000, .chunk_steps = 100});
  line.append_many(0, 500);
  Sampler sampler = line.replay.sampler();
  std::size_t rows = 0;
  {
    RowMirror mirror(sampler);
    MirrorCopy copy(mirror);
    EXPECT_FALSE(mirror.layout().offsets.empty());
    require_batch(sampler.sample(500, {.draws = Draws::Epoch}));
    rows = copy.update();
    EXPECT_GE(rows, 500U);
    EXPECT_LE(rows, 520U) << "chunks begin with a few repeated context rows";
    require_batch(sampler.sample(500, {.draws = Draws::Epoch}));
    EXPECT_EQ(copy.update(), 0U);
    require_batch(sampler.sample(64, {.gather = false}));
    EXPECT_EQ(copy.update(), 0U);
  }
  const auto batch = require_batch(sampler.sample(16));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(batch->now(line.id)[i], batch->now(line.action)[i])
        << "without a mirror, batches have their rows again";
  }
}

TEST(RowMirror, HasRoomForTheCapacityAndOpenChunksAndMoreOnlyIfEpisodesAreShort) {
  for (const std::size_t length : {std::size_t{200}, std::size_t{1}}) {
    NumberedBuffer line(
        SmallOptions{.capacity_steps = 1000, .max_writers = 2, .chunk_steps = 50, .shards = 2});
    Sampler sampler = line.replay.sampler();
    RowMirror mirror(sampler);
    MirrorCopy copy(mirror);
    const std::size_t initial_rows = mirror.rows();
    EXPECT_LE(initial_rows, 1300U);
    for (std::uint64_t step = 0; step < 6000; ++step) {
      line.append(step, step % length == length - 1 ? End::Truncated : End::Continue);
      if (step > 200 && step % 50 == 0) {
        require_batch(sampler.sample(200));
        copy.update();
      }
    }
    // An episode of one step takes two rows.
    EXPECT_EQ(mirror.rows() > initial_rows, length == 1) << length;
    EXPECT_LE(mirror.rows(), 2 * initial_rows + 500) << length;
  }
}

TEST(RowMirror, HasTheRowsOfOnePartOfAMix) {
  NumberedBuffer first(SmallOptions{.capacity_steps = 100});
  NumberedBuffer second(SmallOptions{.capacity_steps = 100});
  first.append_many(0, 50);
  second.append_many(50, 50);
  MixedSampler both({{first.replay, 4}, {second.replay, 8}});
  RowMirror of_first(both, 0);
  RowMirror of_second(both, 1);
  MirrorCopy copies[] = {MirrorCopy(of_first), MirrorCopy(of_second)};
  const std::size_t offset_of_id = of_first.layout().offsets.front();
  for (int round = 0; round < 20; ++round) {
    const SampleResult batch = both.sample();
    ASSERT_TRUE(batch);
    for (MirrorCopy& copy : copies) {
      copy.update();
    }
    for (std::size_t i = 0; i < 12; ++i) {
      const std::size_t part = i < 4 ? 0 : 1;
      EXPECT_EQ(copies[part].word(copies[part].first(i - 4 * part), offset_of_id) / 50, part)
          << "round " << round;
    }
  }
}

TEST(RowMirror, RefusesASamplerThatHasAMirrorAndAPartThatDoesNotExist) {
  NumberedBuffer line(SmallOptions{.capacity_steps = 100});
  Sampler sampler = line.replay.sampler();
  const RowMirror mirror(sampler);
  expect_refusal<std::invalid_argument>([&] { const RowMirror another(sampler); },
                                        {"the sampler has a mirror", "allowed: one"});
  MixedSampler mixed({{line.replay, 4}});
  expect_refusal<std::invalid_argument>([&] { const RowMirror another(mixed, 1); },
                                        {"part is 1", "below 1"});
}

}  // namespace
}  // namespace reprise::test
