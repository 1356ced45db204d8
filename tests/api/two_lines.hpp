#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// The number of the first step in the second buffer, so that a row tells its buffer.
inline constexpr std::uint64_t kOther = 1000;

inline Options options_of(std::uint16_t tag, const Selector& selector = kRawProportional) {
  return SmallOptions{.selectors = {selector}, .shards = 2, .key_tag = tag};
}

/// Two buffers: steps 0 to 9 with priorities 1 to 10, and steps 1000 to 1029 with priority 2.
struct TwoBuffers {
  explicit TwoBuffers(const Selector& selector = kRawProportional)
      : first(options_of(1, selector)), second(options_of(2, selector)) {
    first.append_many(writer, 0, 10, [](std::uint64_t i) { return static_cast<float>(i + 1); });
    second.append_many(other_writer, kOther, 30, 2.0F);
  }

  [[nodiscard]] std::map<std::uint64_t, float> weights() const {
    std::map<std::uint64_t, float> weights;
    for (std::uint64_t i = 0; i < 10; ++i) {
      weights[i] = static_cast<float>(i + 1);
    }
    for (std::uint64_t i = 0; i < 30; ++i) {
      weights[kOther + i] = 2.0F;
    }
    return weights;
  }
  static constexpr double kTotal = 55.0 + 60.0;  ///< The sum of the weights.

  NumberedBuffer first;
  NumberedBuffer second;
  Writer writer = first.replay.writer();
  Writer other_writer = second.replay.writer();
};

/// The numbers of the drawn steps. `line` may be either buffer.
inline std::vector<std::uint64_t> numbers_of(const SampleResult& batch,
                                             const NumberedBuffer& line) {
  return {batch->now(line.action).begin(), batch->now(line.action).end()};
}

inline void expect_whole_rows(const SampleResult& batch, const NumberedBuffer& line) {
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const std::uint64_t number = batch->now(line.action)[i];
    ASSERT_EQ(batch->now(line.id)[i], number) << i;
    ASSERT_EQ(batch->next(line.id)[i], number + 1) << i;
    ASSERT_EQ(batch->returns(line.reward)[i], static_cast<float>(number)) << i;
  }
}

}  // namespace reprise::test
