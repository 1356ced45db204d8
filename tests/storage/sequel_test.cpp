#include "storage/sequel.hpp"

#include "testing/test.hpp"

namespace reprise::test {
namespace {

using storage::kNil;
using storage::Sequel;

TEST(Sequel, GivesTheSlotOfTheStepThatWasAwaitedAndFound) {
  Sequel sequel;
  const std::uint32_t mark = Sequel::mark(7, 100);
  EXPECT_EQ(sequel.slot(mark), kNil);
  EXPECT_EQ(sequel.slot(0), kNil);
  sequel.expect(mark);
  EXPECT_EQ(sequel.slot(mark), kNil);
  sequel.resolve(mark, 4321);
  EXPECT_EQ(sequel.slot(mark), 4321U);
  EXPECT_EQ(sequel.word(), Sequel::word(mark, 4321));
  EXPECT_EQ(sequel.slot(Sequel::mark(7, 101)), kNil);
}

TEST(Sequel, IsNotReplacedByAWriterThatComesLate) {
  Sequel sequel;
  sequel.expect(Sequel::mark(7, 100));
  sequel.expect(Sequel::mark(8, 50));
  sequel.resolve(Sequel::mark(7, 100), 1);
  sequel.resolve(Sequel::mark(8, 50), 2);
  sequel.resolve(Sequel::mark(8, 50), 3);
  EXPECT_EQ(sequel.slot(Sequel::mark(8, 50)), 2U);
}

TEST(Sequel, MarksTellStepsApart) {
  std::set<std::uint32_t> marks;
  for (std::uint64_t episode = 0; episode < 100; ++episode) {
    for (std::uint64_t position = 1; position <= 100; ++position) {
      marks.insert(Sequel::mark(episode << 10U, position));
    }
  }
  EXPECT_EQ(marks.size(), 10'000U);
}

}  // namespace
}  // namespace reprise::test
