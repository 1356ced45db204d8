#include "shard/victims.hpp"

#include <reprise/fifo.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::shard {
namespace {

constexpr std::uint32_t kFirst = 10;
constexpr std::uint32_t kChunks = 5;

/// What a remover was told, and what it is to answer.
struct Script {
  std::vector<std::uint32_t> entered;
  std::vector<std::uint32_t> left;
  std::uint32_t answer = 0;
  int asked = 0;
};

class Scripted final : public ShardRemover {
 public:
  explicit Scripted(Script& script) : script_(script) {}
  void enters(std::uint32_t chunk) noexcept override { script_.entered.push_back(chunk); }
  void leaves(std::uint32_t chunk) noexcept override { script_.left.push_back(chunk); }
  [[nodiscard]] std::uint32_t victim() noexcept override {
    ++script_.asked;
    return script_.answer;
  }

 private:
  Script& script_;
};

struct ScriptedRemover {
  Script* script;
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks&) const {
    return std::make_unique<Scripted>(*script);
  }
};

class NoFacts final : public ShardChunks {
 public:
  [[nodiscard]] std::uint32_t chunks() const noexcept override { return kChunks; }
  [[nodiscard]] std::size_t selectors() const noexcept override { return 1; }
  [[nodiscard]] std::uint32_t steps(std::uint32_t) const noexcept override { return 1; }
  [[nodiscard]] double weight(std::uint32_t, std::size_t) const noexcept override { return 0.0; }
};

struct VictimsOf : testing::Test {
  void add(std::uint32_t chunk, bool filled) {
    order[chunk].items = 1;
    order[chunk].closed = filled;
    order.append(chunk);
    if (filled) {
      victims.filled(chunk);
    }
  }
  void empty(std::uint32_t chunk) {
    const bool filled = order[chunk].filled();
    order[chunk].items = 0;
    order.remove(chunk);
    if (filled) {
      victims.emptied(chunk);
    }
  }

  Script script;
  NoFacts facts;
  ChunkQueue order{kFirst, kChunks};
  Victims victims{ScriptedRemover{&script}, facts, kFirst};
};

TEST_F(VictimsOf, ARemoverAreItsChoice) {
  add(10, true);
  add(12, true);
  script.answer = 2;
  EXPECT_EQ(victims.next(order), 12U);
  EXPECT_EQ(script.entered, (std::vector<std::uint32_t>{0, 2})) << "numbered from 0";
}

TEST_F(VictimsOf, ARemoverStayTheSameUntilNothingIsLeftOfThem) {
  add(10, true);
  add(12, true);
  script.answer = 2;
  (void)victims.next(order);
  script.answer = 0;
  add(13, true);
  EXPECT_EQ(victims.next(order), 12U);
  EXPECT_EQ(script.asked, 1);
  empty(12);
  EXPECT_EQ(script.left, std::vector<std::uint32_t>{2});
  EXPECT_EQ(victims.next(order), 10U);
  EXPECT_EQ(script.asked, 2);
}

TEST_F(VictimsOf, ARemoverAreTheOldestWhileNoChunkIsFilled) {
  add(14, false);
  add(11, false);
  EXPECT_EQ(victims.next(order), 14U);
  EXPECT_EQ(script.asked, 0);
  empty(14);
  EXPECT_EQ(victims.next(order), 11U);
  add(12, true);
  script.answer = 2;
  EXPECT_EQ(victims.next(order), 12U) << "what is filled goes before what is not";
}

TEST_F(VictimsOf, ARemoverThatAnswersNonsenseAreTheOldestFilledOnes) {
  for (const std::uint32_t nonsense : {kChunks, 0xffffffffU, 3U, 4U}) {
    SCOPED_TRACE(nonsense);
    ChunkQueue queue{kFirst, kChunks};
    Victims of{ScriptedRemover{&script}, facts, kFirst};
    for (const std::uint32_t chunk : {13U, 11U, 12U}) {
      queue[chunk].items = 1;
      queue[chunk].closed = chunk != 13;
      queue.append(chunk);
      if (chunk != 13) {
        of.filled(chunk);
      }
    }
    script.answer = nonsense;  // Beyond the chunks, one that is not filled, one without items.
    EXPECT_EQ(of.next(queue), 11U);
  }
}

TEST_F(VictimsOf, FifoAreTheOldestFilledOrNot) {
  Victims fifo{Fifo{}, facts, kFirst};
  for (const std::uint32_t chunk : {13U, 11U}) {
    order[chunk].items = 1;
    order[chunk].closed = chunk == 11;
    order.append(chunk);
  }
  fifo.filled(11);
  EXPECT_EQ(fifo.next(order), 13U);
  EXPECT_FALSE(fifo.wants_samples());
}

}  // namespace
}  // namespace reprise::shard
