#include "base/random.hpp"
#include "simd_targets.hpp"
#include "testing/test.hpp"
#include "tree/weighing.hpp"
#include "tree/weight_tree.hpp"

#include <bit>

namespace reprise::tree {
namespace {

/// An FNV-1a hash (Fowler, Noll and Vo) of the bits of all results.
class Digest {
 public:
  template <class T>
  void add(const T& value) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    if constexpr (std::endian::native == std::endian::big) {
      std::reverse(bytes, bytes + sizeof(T));
    }
    for (const unsigned char byte : bytes) {
      hash_ = (hash_ ^ byte) * 0x100000001B3U;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325U;
};

/// A random float from 2^-60 to 2^60, computed without library functions whose results may differ
/// between platforms.
float random_weight(base::Random& random) {
  const auto exponent = static_cast<std::uint32_t>(127 - 60 + random.next() % 120);
  return std::bit_cast<float>(exponent << 23U | static_cast<std::uint32_t>(random.next() >> 41U));
}

std::uint64_t digest_of_tree(std::uint64_t seed) {
  base::Random random(seed);
  const std::size_t n = 1 + random.next() % 20'000;
  WeightTree tree(n);
  Digest digest;
  std::vector<std::uint32_t> leaves(700);
  std::vector<float> weights(700);
  std::vector<double> targets(700);
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i] = static_cast<std::uint32_t>(random.next() % n);
      weights[i] = random.next() % 4 == 0 ? 0.0F : random_weight(random);
    }
    tree.assign(leaves, weights);
    digest.add(tree.total());
    digest.add(tree.min_positive());
    digest.add(tree.max());
    std::generate(targets.begin(), targets.end(), [&] { return random.uniform() * tree.total(); });
    tree.find(targets, leaves, weights);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      digest.add(leaves[i]);
      digest.add(weights[i]);
    }
  }
  return digest.value();
}

std::uint64_t digest_of_weighing(std::uint64_t seed) {
  base::Random random(seed);
  Digest digest;
  std::vector<float> priorities(1003);
  std::vector<double> probabilities(1003);
  std::vector<float> out(1003);
  std::generate(priorities.begin(), priorities.end(), [&] { return random_weight(random); });
  priorities[5] = 0.0F;
  std::generate(probabilities.begin(), probabilities.end(),
                [&] { return static_cast<double>(random_weight(random)); });
  for (const float exponent : {0.0F, 0.37F, 0.5F, 0.6F, 1.0F, 2.5F}) {
    weigh(priorities, exponent, 1e-4F, out);
    std::for_each(out.begin(), out.end(), [&](float w) { digest.add(w); });
    out = priorities;
    raise(out, 1.0 / 3 + static_cast<double>(exponent));
    std::for_each(out.begin(), out.end(), [&](float w) { digest.add(w); });
    importance(probabilities, 1e6, exponent, 0.0, out);
    std::for_each(out.begin(), out.end(), [&](float w) { digest.add(w); });
    importance(probabilities, 1e6, exponent, 1e-3, out);
    std::for_each(out.begin(), out.end(), [&](float w) { digest.add(w); });
  }
  return digest.value();
}

TEST(SimdIdentity, EveryInstructionSetGivesTheSameTreesAndDraws) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::vector<std::uint64_t> digests;
    for_each_target([&] { digests.push_back(digest_of_tree(seed)); });
    EXPECT_EQ(std::count(digests.begin(), digests.end(), digests[0]),
              static_cast<std::ptrdiff_t>(digests.size()));
  }
}

TEST(SimdIdentity, EveryInstructionSetGivesTheSameWeights) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::vector<std::uint64_t> digests;
    for_each_target([&] { digests.push_back(digest_of_weighing(seed)); });
    EXPECT_EQ(std::count(digests.begin(), digests.end(), digests[0]),
              static_cast<std::ptrdiff_t>(digests.size()));
  }
}

TEST(SimdIdentity, EveryMachineAndCompilerGivesTheseBits) {
  EXPECT_EQ(digest_of_tree(1), 5520493412955128961U);
  EXPECT_EQ(digest_of_weighing(1), 4550642352729639022U);
}

}  // namespace
}  // namespace reprise::tree
