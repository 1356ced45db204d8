#include "checks/checked_remover.hpp"

#include "testing/library.hpp"

namespace stress {
namespace {

class CheckedShardRemover final : public reprise::ShardRemover {
 public:
  CheckedShardRemover(std::unique_ptr<reprise::ShardRemover> remover,
                      const reprise::ShardChunks& chunks, bool draws_limited, Findings& findings)
      : remover_(std::move(remover)),
        draws_limited_(draws_limited),
        chunks_(chunks),
        findings_(findings),
        filled_with_(chunks.chunks()) {}

  void enters(std::uint32_t chunk) noexcept override {
    expect(!known(chunk), chunk, "enters twice");
    expect(chunks_.steps(chunk) != 0, chunk, "enters without steps");
    known_ += known(chunk) ? 0U : 1U;
    filled_with_[chunk] = chunks_.steps(chunk);
    remover_->enters(chunk);
  }

  void leaves(std::uint32_t chunk) noexcept override {
    expect(known(chunk), chunk, "leaves and had not entered");
    expect(chunks_.steps(chunk) == 0, chunk, "leaves with steps");
    expect(draws_limited_ || chunk == victim_, chunk, "leaves and is not the victim");
    known_ -= known(chunk) ? 1U : 0U;
    filled_with_[chunk] = 0;
    if (chunk == victim_) {
      victim_.reset();
    }
    remover_->leaves(chunk);
  }

  [[nodiscard]] std::uint32_t victim() noexcept override {
    const std::uint32_t chunk = remover_->victim();
    expect(known_ != 0, chunk, "is asked for, though none has entered");
    expect(!victim_, chunk, "is asked for before the last victim has left");
    expect(known(chunk), chunk, "is a victim that has not entered");
    expect_steps(chunk, draws_limited_);
    victim_ = chunk;
    return chunk;
  }

  [[nodiscard]] bool wants_samples() const noexcept override { return remover_->wants_samples(); }

  void sampled(std::span<const std::uint32_t> chunks) noexcept override {
    for (const std::uint32_t chunk : chunks) {
      expect(known(chunk), chunk, "is drawn from and has not entered");
      expect_steps(chunk, draws_limited_ || chunk == victim_);
    }
    remover_->sampled(chunks);
  }

 private:
  [[nodiscard]] bool known(std::uint32_t chunk) const noexcept { return filled_with_[chunk] != 0; }

  void expect_steps(std::uint32_t chunk, bool may_have_lost) noexcept {
    const std::uint32_t steps = chunks_.steps(chunk);
    expect(may_have_lost ? steps <= filled_with_[chunk] : steps == filled_with_[chunk], chunk,
           "has other steps than it entered with");
  }

  void expect(bool holds, std::uint32_t chunk, const char* otherwise) noexcept {
    if (!holds) {
      findings_.add(Finding::MisledRemover, "chunk " + std::to_string(chunk) + " " + otherwise);
    }
  }

  const std::unique_ptr<reprise::ShardRemover> remover_;
  const bool draws_limited_;
  const reprise::ShardChunks& chunks_;
  Findings& findings_;
  /// Number of steps that each chunk had when it entered; 0 if it has not entered.
  std::vector<std::uint32_t> filled_with_;
  std::size_t known_ = 0;
  std::optional<std::uint32_t> victim_;
};

}  // namespace

std::unique_ptr<reprise::ShardRemover> CheckedRemover::make_shard_remover(
    const reprise::ShardChunks& chunks) const {
  auto remover = remover_.make_shard_remover(chunks);
  return remover == nullptr ? nullptr
                            : std::make_unique<CheckedShardRemover>(std::move(remover), chunks,
                                                                    draws_limited_, *findings_);
}

}  // namespace stress
