#pragma once

#include <reprise/reprise.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace reprise::test {

/// A remover of a user's own, and about the worst there is: the chunk filled last goes first, so
/// that the oldest chunks are never asked for.
struct YoungestFirst {
  class Part final : public ShardRemover {
   public:
    explicit Part(std::uint32_t chunks) { stack_.reserve(chunks); }
    void enters(std::uint32_t chunk) noexcept override { stack_.push_back(chunk); }
    void leaves(std::uint32_t chunk) noexcept override { std::erase(stack_, chunk); }
    [[nodiscard]] std::uint32_t victim() noexcept override { return stack_.back(); }

   private:
    std::vector<std::uint32_t> stack_;
  };

  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const {
    return std::make_unique<Part>(chunks.chunks());
  }
};

struct NamedRemover {
  std::string name;
  Remover remover;

  friend std::ostream& operator<<(std::ostream& out, const NamedRemover& named) {
    return out << named.name;
  }
};

/// Every remover of the library.
inline std::vector<NamedRemover> library_removers() {
  std::vector<NamedRemover> all;
  for (const StrategyKind<Remover>& kind : removers()) {
    all.push_back({std::string(kind.name()), kind.make()});
  }
  return all;
}

/// These, and one that the library does not know.
inline std::vector<NamedRemover> all_removers() {
  std::vector<NamedRemover> all = library_removers();
  all.push_back({"YoungestFirst", YoungestFirst{}});
  return all;
}

/// For INSTANTIATE_TEST_SUITE_P.
inline std::string name_of(const testing::TestParamInfo<NamedRemover>& info) {
  return info.param.name;
}

}  // namespace reprise::test
