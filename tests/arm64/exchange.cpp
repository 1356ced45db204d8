// Writes a checkpoint on one machine and draws from it on another. The output depends only on the
// calls, so every machine has to print the same, whatever its processor.
//
//   exchange write DIRECTORY   fills a buffer, draws from it and saves it
//   exchange draw DIRECTORY    loads the checkpoint, draws, goes on writing and draws again

#include <reprise/reprise.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kBatch = 24;

/// Random whole numbers, which are the same on every machine, as random floats might not be.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  /// A number below 2^24, which a float holds exactly.
  std::uint32_t next() {
    state_ = state_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    return static_cast<std::uint32_t>(state_ >> 40U);
  }
  /// A priority above 0 and at most 16.
  float priority() { return static_cast<float>(1 + next()) / float{1U << 20U}; }

 private:
  std::uint64_t state_;
};

reprise::Options options() {
  return {.capacity_steps = 3000,
          .window = reprise::Transitions{.n_step = 3, .discount = 0.97F, .frame_stack = 2},
          .selectors = {reprise::Proportional{}, reprise::Proportional{.alpha = 1.3F},
                        reprise::LossAdjusted{}, reprise::Mixture{}, reprise::RankBased{},
                        reprise::Recency{.p = 1e-3F}, reprise::Uniform{}, reprise::MinHeap{},
                        reprise::MaxHeap{}, reprise::Fifo{}, reprise::Lifo{}},
          .max_writers = 3,
          .chunk_steps = 64,
          .shards = 2,
          .key_tag = 7};
}

/// The buffer under test, with its writers and samplers. One thread uses it, so that its state
/// depends only on the calls.
class Subject {
 public:
  Subject() : replay_(schema_, options()), numbers_(1) { open(Samplers::New); }
  explicit Subject(const char* directory)
      : replay_(reprise::ReplayBuffer::load(directory).buffer), numbers_(2) {
    open(Samplers::Resumed);
  }

  void append(int steps) {
    for (int i = 0; i < steps; ++i) {
      reprise::Writer& writer = writers_[numbers_.next() % writers_.size()];
      const std::uint32_t roll = numbers_.next() % 40;
      step(writer, roll == 0   ? reprise::End::Terminated
                   : roll == 1 ? reprise::End::Truncated
                               : reprise::End::Continue);
    }
  }
  /// Ends open episodes. A load would end them, and its new items would have new keys.
  void end_episodes() {
    for (reprise::Writer& writer : writers_) {
      step(writer, reprise::End::Truncated);
    }
  }

  /// What is printed of keys: generations of steps written after a load differ from load to load.
  enum class Keys { Whole, Slots };
  /// Draws a batch by each selector, prints it and sets new priorities.
  void draw(const char* when, Keys shown) {
    for (std::size_t s = 0; s < samplers_.size(); ++s) {
      const auto batch = samplers_[s].sample(kBatch, {.beta = 0.7F, .timeout = {}});
      if (!batch) {
        throw std::logic_error("there was no batch");
      }
      std::array<float, kBatch> priorities{};
      for (std::size_t i = 0; i < kBatch; ++i) {
        const reprise::ItemKey key = batch->keys()[i];
        std::printf("%s %zu %016llx %a %a %a %a %llx", when, s,
                    static_cast<unsigned long long>(shown == Keys::Whole ? key.bits : key.slot()),
                    batch->probabilities()[i], double{batch->weights()[i]},
                    double{batch->returns(reward_)[i]}, double{batch->discounts()[i]},
                    static_cast<unsigned long long>(batch->now(action_)[i]));
        show(batch->now(place_), i);
        show(batch->next(place_), i);
        show(batch->now(pixels_), i);
        show(batch->next(pixels_), i);
        std::printf("\n");
        priorities[i] = numbers_.priority();
      }
      replay_.selector(s).update(batch->keys(), priorities);
    }
  }

  void save(const char* directory) {
    std::vector<const reprise::Sampler*> samplers;
    for (const reprise::Sampler& sampler : samplers_) {
      samplers.push_back(&sampler);
    }
    replay_.save(directory, {.compression = {.level = 1}, .samplers = samplers});
  }

 private:
  enum class Samplers { New, Resumed };
  void open(Samplers which) {
    for (std::size_t i = 0; i < options().max_writers; ++i) {
      writers_.push_back(replay_.writer());
    }
    for (std::size_t s = 0; s < options().selectors.size(); ++s) {
      samplers_.push_back(replay_.selector(s).sampler(
          {.seed = s,
           .resume = which == Samplers::Resumed ? std::optional<std::size_t>(s) : std::nullopt}));
    }
  }

  void step(reprise::Writer& writer, reprise::End end) {
    if (!writer.in_episode()) {
      writer.begin_episode();
      observe(writer.now(place_), writer.now(pixels_));
    }
    observe(writer.next(place_), writer.next(pixels_));
    writer.now(action_) = -std::int64_t{numbers_.next()};
    writer.now(reward_) = numbers_.priority() - 8.0F;
    std::array<float, 3> room{};
    const auto priorities = std::span(room).first(writer.completing(end));
    for (float& priority : priorities) {
      priority = numbers_.priority();
    }
    if (writer.commit(end, priorities) != reprise::CommitStatus::Committed) {
      throw std::logic_error("a step was not committed");
    }
  }

  void observe(std::span<float> place, std::span<std::int8_t> pixels) {
    for (float& x : place) {
      x = numbers_.priority() - 8.0F;
    }
    for (std::int8_t& pixel : pixels) {
      pixel = static_cast<std::int8_t>(static_cast<int>(numbers_.next() % 256) - 128);
    }
  }

  /// Prints the values of item i in a column.
  template <class T>
  static void show(std::span<const T> column, std::size_t i) {
    const std::size_t per_item = column.size() / kBatch;
    for (const T value : column.subspan(i * per_item, per_item)) {
      std::printf(" %a", static_cast<double>(value));
    }
  }
  template <class T>
  static void show(std::span<T> column, std::size_t i) {
    show(std::span<const T>(column), i);
  }

  reprise::Schema schema_;
  reprise::Observation<float> place_ = schema_.observation<float>("place", {3});
  reprise::Observation<std::int8_t> pixels_ = schema_.observation<std::int8_t>("pixels", {5});
  reprise::ScalarColumn<std::int64_t> action_ = schema_.column<std::int64_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  Numbers numbers_;
  std::vector<reprise::Writer> writers_;
  std::vector<reprise::Sampler> samplers_;
};

void write(const char* directory) {
  Subject subject;
  subject.append(2000);
  for (int round = 0; round < 20; ++round) {
    subject.append(150);
    subject.draw("before", Subject::Keys::Whole);
  }
  subject.end_episodes();
  subject.save(directory);
}

void draw(const char* directory) {
  Subject subject(directory);
  subject.draw("loaded", Subject::Keys::Whole);
  for (int round = 0; round < 10; ++round) {
    subject.append(250);
    subject.draw("further", Subject::Keys::Slots);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc == 3 ? argv[1] : "";
  try {
    if (command == "write") {
      write(argv[2]);
    } else if (command == "draw") {
      draw(argv[2]);
    } else {
      std::fprintf(stderr, "Usage: exchange write|draw DIRECTORY\n");
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange: %s\n", error.what());
    return 1;
  }
  return 0;
}
