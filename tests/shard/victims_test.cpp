#include "shard/victims.hpp"

#include <reprise/selectors/fifo.hpp>

#include "storage/chunk_store.hpp"

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

/// One shard's share is nothing, so that whatever it has may go.
struct VictimsOf : testing::Test {
  [[nodiscard]] Victims make(const Remover& remover) {
    return {remover, {selection, 1, queue, limit, budget, 0}, {kFirst, kChunks, 0}};
  }
  [[nodiscard]] std::uint32_t next() { return victims.next(kChunks, false).chunk; }
  void add(std::uint32_t chunk, bool filled) {
    queue[chunk].steps = 1;
    queue[chunk].closed = filled;
    queue.append(chunk);
    if (filled) {
      victims.filled(chunk);
    }
  }
  void empty(std::uint32_t chunk) {
    queue[chunk].steps = 0;
    queue.remove(chunk);
    victims.emptied(chunk);
  }

  Script script;
  storage::ChunkStore store{kFirst + kChunks, 4, 16};
  Selection selection{store, {}, 0};
  Budget budget{kChunks};
  ChunkQueue queue{kFirst, kChunks};
  DrawLimit limit{store, queue, budget, selection, kFirst, 0, 1};
  Victims victims{make(ScriptedRemover{&script})};
};

TEST_F(VictimsOf, ARemoverAreItsChoice) {
  add(10, true);
  add(12, true);
  script.answer = 2;
  EXPECT_EQ(next(), 12U);
  EXPECT_EQ(script.entered, (std::vector<std::uint32_t>{0, 2})) << "numbered from 0";
}

TEST_F(VictimsOf, ARemoverStayTheSameUntilNothingIsLeftOfThem) {
  add(10, true);
  add(12, true);
  script.answer = 2;
  (void)next();
  script.answer = 0;
  add(13, true);
  EXPECT_EQ(next(), 12U);
  EXPECT_EQ(script.asked, 1);
  empty(12);
  EXPECT_EQ(script.left, std::vector<std::uint32_t>{2});
  EXPECT_EQ(next(), 10U);
  EXPECT_EQ(script.asked, 2);
}

TEST_F(VictimsOf, ARemoverAreTheOldestWhileNoChunkIsFilled) {
  add(14, false);
  add(11, false);
  EXPECT_EQ(next(), 14U);
  EXPECT_EQ(script.asked, 0);
  empty(14);
  EXPECT_EQ(next(), 11U);
  add(12, true);
  script.answer = 2;
  EXPECT_EQ(next(), 12U) << "what is filled goes before what is not";
}

TEST_F(VictimsOf, ARemoverThatAnswersNonsenseAreTheOldestFilledOnes) {
  for (const std::uint32_t chunk : {13U, 11U, 12U}) {
    queue[chunk].steps = 1;
    queue[chunk].closed = chunk != 13;
    queue.append(chunk);
  }
  for (const std::uint32_t nonsense : {kChunks, 0xffffffffU, 3U, 4U}) {
    SCOPED_TRACE(nonsense);
    Victims of = make(ScriptedRemover{&script});
    of.filled(11);
    of.filled(12);
    script.answer = nonsense;  // Beyond the chunks, one that is not filled, one without steps.
    EXPECT_EQ(of.next(3, false).chunk, 11U);
  }
}

TEST_F(VictimsOf, FifoAreTheOldestFilledOrNot) {
  Victims fifo = make(Fifo{});
  for (const std::uint32_t chunk : {13U, 11U}) {
    queue[chunk].steps = 1;
    queue[chunk].closed = chunk == 11;
    queue.append(chunk);
  }
  EXPECT_EQ(fifo.next(2, false).chunk, 13U);
  EXPECT_FALSE(fifo.on());
}

}  // namespace
}  // namespace reprise::shard
