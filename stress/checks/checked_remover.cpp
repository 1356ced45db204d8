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
        steps_at_entry_(chunks.chunks()) {}

  void enters(std::uint32_t chunk) noexcept override {
    expect(!has_entered(chunk), chunk, "enters twice");
    expect(chunks_.steps(chunk) != 0, chunk, "enters without steps");
    entered_count_ += has_entered(chunk) ? 0U : 1U;
    steps_at_entry_[chunk] = chunks_.steps(chunk);
    remover_->enters(chunk);
  }

  void leaves(std::uint32_t chunk) noexcept override {
    expect(has_entered(chunk), chunk, "leaves and had not entered");
    expect(chunks_.steps(chunk) == 0, chunk, "leaves with steps");
    expect(draws_limited_ || chunk == victim_, chunk, "leaves and is not the victim");
    entered_count_ -= has_entered(chunk) ? 1U : 0U;
    steps_at_entry_[chunk] = 0;
    if (chunk == victim_) {
      victim_.reset();
    }
    remover_->leaves(chunk);
  }

  [[nodiscard]] std::uint32_t victim() noexcept override {
    const std::uint32_t chunk = remover_->victim();
    expect(entered_count_ != 0, chunk, "is asked for, though none has entered");
    expect(!victim_, chunk, "is asked for before the last victim has left");
    expect(has_entered(chunk), chunk, "is a victim that has not entered");
    expect_steps(chunk, draws_limited_);
    victim_ = chunk;
    return chunk;
  }

  [[nodiscard]] bool wants_samples() const noexcept override { return remover_->wants_samples(); }

  void sampled(std::span<const std::uint32_t> chunks) noexcept override {
    for (const std::uint32_t chunk : chunks) {
      expect(has_entered(chunk), chunk, "is drawn from and has not entered");
      expect_steps(chunk, draws_limited_ || chunk == victim_);
    }
    remover_->sampled(chunks);
  }

 private:
  [[nodiscard]] bool has_entered(std::uint32_t chunk) const noexcept {
    return steps_at_entry_[chunk] != 0;
  }

  void expect_steps(std::uint32_t chunk, bool may_have_lost) noexcept {
    const std::uint32_t steps = chunks_.steps(chunk);
    expect(may_have_lost ? steps <= steps_at_entry_[chunk] : steps == steps_at_entry_[chunk], chunk,
           "has other steps than it entered with");
  }

  void expect(bool holds, std::uint32_t chunk, const char* violation) noexcept {
    if (!holds) {
      findings_.add(Finding::MisledRemover, "chunk " + std::to_string(chunk) + " " + violation);
    }
  }

  const std::unique_ptr<reprise::ShardRemover> remover_;
  const bool draws_limited_;
  const reprise::ShardChunks& chunks_;
  Findings& findings_;
  /// Number of steps that each chunk had when it entered; 0 if it has not entered.
  std::vector<std::uint32_t> steps_at_entry_;
  std::size_t entered_count_ = 0;
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
