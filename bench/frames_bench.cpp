// W2 with frames: observations of four stacked 84x84 frames in a buffer of 20,000 steps. reprise
// stores each frame once and makes the stacks when it gathers a batch; the textbook stores both
// stacks of a transition, 56,460 bytes. Batches of both have the same size. Every benchmark runs on
// one thread, except gather56k/reprise_tbb, which uses all cores.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "textbook_rows.hpp"

#include <cstring>
#include <limits>
#include <stdexcept>

namespace {

using bench::kBatch;

constexpr std::size_t kFrame = 84 * 84;
constexpr std::size_t kStack = 4;
constexpr std::size_t kCapacity = 20'000;
/// Number of appends per iteration.
constexpr std::size_t kRun = 64;
constexpr std::size_t kEpisode = 1024;

struct Transition {
  std::uint8_t now[kStack * kFrame];
  std::int32_t action;
  float reward;
  float done;
  std::uint8_t next[kStack * kFrame];
};
static_assert(sizeof(Transition) == 56'460);

void randomize(std::span<std::uint8_t> bytes, bench::Random& random) {
  std::generate(bytes.begin(), bytes.end(),
                [&] { return static_cast<std::uint8_t>(random.next()); });
}

/// Draws a screen that changes little from one `number` to the next: a background whose pixels
/// all differ, and twelve moving sprites of 8x8. A compressed screen takes about as much memory as
/// one of an Atari game.
void draw_screen(std::span<std::uint8_t> pixels, std::size_t number) {
  constexpr std::size_t kSide = 84;
  bench::Random background(1);
  randomize(pixels, background);
  for (std::size_t sprite = 0; sprite < 12; ++sprite) {
    const std::size_t x = (sprite * 7 + number * (1 + sprite % 3)) % (kSide - 8);
    const std::size_t y = sprite * 19 % (kSide - 8);
    for (std::size_t row = y; row < y + 8; ++row) {
      std::fill_n(pixels.begin() + static_cast<std::ptrdiff_t>(row * kSide + x), 8,
                  static_cast<std::uint8_t>(sprite * 20 + 1));
    }
  }
}

template <std::uint32_t kNStep, bool kCompressed = false>
class RepriseFramesOf {
 public:
  explicit RepriseFramesOf(std::size_t capacity)
      : replay_(schema(), {.capacity_steps = capacity,
                           .window = reprise::Transitions{.n_step = kNStep, .frame_stack = kStack},
                           .selectors = {reprise::Proportional{.alpha = bench::kAlpha,
                                                               .epsilon = bench::kEpsilon}}}) {
    bench::Random random(6);
    randomize(frames_, random);
    for (std::size_t i = 0; kCompressed && i < bench::kSources; ++i) {
      draw_screen(std::span(frames_).subspan(i * kFrame, kFrame), i);
    }
    for (std::size_t i = 0; i < capacity + capacity / 4; ++i) {
      std::array<float, kNStep> priorities;
      std::ranges::generate(priorities, [&] { return static_cast<float>(random.uniform()); });
      append_one(priorities);
    }
    if (replay_.size() + kNStep - 1 < capacity) {  // size() ingests everything that was committed.
      throw std::logic_error("the buffer did not fill");
    }
  }

  void append(std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      append_one({});
    }
  }
  void sample(reprise::Sampler& sampler) {
    const auto batch = sampler.sample(kBatch, {.beta = bench::kBeta});
    benchmark::DoNotOptimize(batch->now_stacks(frame_)[0].data());
  }
  reprise::Sampler& one_thread() { return one_thread_; }
  reprise::Sampler& all_threads() { return all_threads_; }
  reprise::Sampler& unique() { return unique_; }
  double memory_bytes() const { return static_cast<double>(replay_.stats().touched_bytes); }
  double field_bytes() const { return static_cast<double>(schema_.step_bytes()); }

 private:
  const reprise::Schema& schema() {
    if (kCompressed) {
      schema_.compress(frame_);
    }
    return schema_;
  }
  std::span<const std::uint8_t> next_frame() {
    at_ = (at_ + 1) % bench::kSources;
    return std::span(frames_).subspan(at_ * kFrame, kFrame);
  }
  /// Appends one step. The items that it decides get the first of `priorities`, or, if `priorities`
  /// is empty, the initial priority.
  void append_one(std::span<const float> priorities) {
    if (!writer_.in_episode()) {
      writer_.begin_episode();
      std::memcpy(writer_.now(frame_).data(), next_frame().data(), kFrame);
    }
    writer_.now(action_) = 1;
    writer_.now(reward_) = 1.0F;
    std::memcpy(writer_.next(frame_).data(), next_frame().data(), kFrame);
    const auto end = ++steps_ % kEpisode == 0 ? reprise::End::Terminated : reprise::End::Continue;
    writer_.commit(end,
                   priorities.empty() ? priorities : priorities.first(writer_.completing(end)));
  }

  std::vector<std::uint8_t> frames_ = std::vector<std::uint8_t>(bench::kSources * kFrame);
  std::size_t at_ = 0;
  std::size_t steps_ = 0;
  reprise::Schema schema_;
  reprise::Observation<std::uint8_t> frame_ = schema_.observation<std::uint8_t>("frame", {84, 84});
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  reprise::Writer writer_ = replay_.writer();
  reprise::Sampler one_thread_ = replay_.sampler(
      {.seed = 1, .parallel_gather_bytes = std::numeric_limits<std::size_t>::max()});
  reprise::Sampler all_threads_ = replay_.sampler({.seed = 1});
  reprise::Sampler unique_ =
      replay_.sampler({.seed = 1,
                       .unique_frames = true,
                       .parallel_gather_bytes = std::numeric_limits<std::size_t>::max()});
};
using RepriseFrames = RepriseFramesOf<1>;

/// A full buffer of such frames, from which sequences as long as R2D2's are drawn, with a stack at
/// each step.
template <std::uint32_t kFrameStack>
class RepriseSequences {
 public:
  static constexpr std::size_t kItems = 8;

  explicit RepriseSequences(std::size_t capacity)
      : replay_(schema_, {.capacity_steps = capacity,
                          .window = reprise::Sequences{.length = 80,
                                                       .period = 40,
                                                       .burn_in = 40,
                                                       .n_step = 5,
                                                       .frame_stack = kFrameStack},
                          .selectors = {reprise::Uniform{}}}) {
    std::vector<std::uint8_t> frames(bench::kSources * kFrame);
    bench::Random random(6);
    randomize(frames, random);
    const auto copy_frame = [&](std::size_t number, std::span<std::uint8_t> pixels) {
      std::memcpy(pixels.data(), &frames[number % bench::kSources * kFrame], kFrame);
    };
    reprise::Writer writer = replay_.writer();
    for (std::size_t i = 0; i < capacity; ++i) {
      if (!writer.in_episode()) {
        writer.begin_episode();
        copy_frame(i, writer.now(frame_));
      }
      writer.now(reward_) = 1.0F;
      copy_frame(i + 1, writer.next(frame_));
      writer.commit(i % kEpisode == kEpisode - 1 ? reprise::End::Terminated
                                                 : reprise::End::Continue);
    }
  }

  void sample(bool unique) {
    const auto batch = (unique ? unique_ : stacks_).sample(kItems);
    benchmark::DoNotOptimize(batch->now_stacks(frame_)[0].data());
  }

 private:
  reprise::Schema schema_;
  reprise::Observation<std::uint8_t> frame_ = schema_.observation<std::uint8_t>("frame", {84, 84});
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  reprise::Sampler stacks_ = replay_.sampler(
      {.seed = 1, .parallel_gather_bytes = std::numeric_limits<std::size_t>::max()});
  reprise::Sampler unique_ =
      replay_.sampler({.seed = 1,
                       .unique_frames = true,
                       .parallel_gather_bytes = std::numeric_limits<std::size_t>::max()});
};

struct TextbookFrames : bench::TextbookRows<Transition> {
  explicit TextbookFrames(std::size_t capacity)
      : bench::TextbookRows<Transition>(capacity, sources()) {}

  static std::vector<Transition> sources() {
    std::vector<Transition> rows(bench::kSources);
    bench::Random random(6);
    for (Transition& row : rows) {
      randomize(row.now, random);
      randomize(row.next, random);
      row.action = 1;
      row.reward = 1.0F;
    }
    return rows;
  }
};

template <class Frames, class Once>
void add(const std::string& name, const Once& once) {
  bench::add<Frames>(name, kCapacity, kBatch, once);
}

/// Adds benchmarks of two samplers over the same buffer: one copies whole stacks, the other copies
/// each frame of a batch once.
template <std::uint32_t kNStep>
void add_frames() {
  using Frames = RepriseFramesOf<kNStep>;
  const std::string n_step = std::to_string(kNStep);
  add<Frames>("frames/stacks/" + n_step, [](Frames& it) { it.sample(it.one_thread()); });
  add<Frames>("frames/unique/" + n_step, [](Frames& it) { it.sample(it.unique()); });
}

template <std::uint32_t kFrameStack>
void add_sequences() {
  using Frames = RepriseSequences<kFrameStack>;
  for (const bool unique : {false, true}) {
    bench::add<Frames>(
        (unique ? "sequences/unique/" : "sequences/stacks/") + std::to_string(kFrameStack),
        kCapacity, Frames::kItems, [unique](Frames& frames) { frames.sample(unique); });
  }
}

[[maybe_unused]] const bool added = [] {
  using Frames = RepriseFrames;
  bench::add_append<RepriseFrames>("W2/append56k/reprise", kCapacity, kRun);
  bench::add_append<TextbookFrames>("W2/append56k/textbook", kCapacity, kRun);
  add<Frames>("W2/gather56k/reprise", [](Frames& it) { it.sample(it.one_thread()); });
  add<Frames>("W2/gather56k/reprise_tbb", [](Frames& it) { it.sample(it.all_threads()); });
  add<TextbookFrames>("W2/gather56k/textbook", [](TextbookFrames& it) { it.sample(); });
  add_frames<1>();
  add_frames<3>();
  // Like frames/stacks/1, over compressed frames; also reports the memory of a step.
  benchmark::RegisterBenchmark("frames/compressed/1", [](benchmark::State& state) {
    auto& frames = bench::prepared<RepriseFramesOf<1, true>>(kCapacity);
    for (auto _ : state) {
      frames.sample(frames.one_thread());
    }
    bench::per_item(state, kBatch);
    state.counters["bytes_per_step"] = frames.memory_bytes() / static_cast<double>(kCapacity);
  });
  add_sequences<1>();
  add_sequences<4>();
  return true;
}();

}  // namespace
