#pragma once

#include <reprise/batch.hpp>
#include <reprise/sampler.hpp>

#include "base/one_thread.hpp"
#include "base/random.hpp"
#include "buffer/buffer_core.hpp"
#include "buffer/update.hpp"
#include "limiter/limiter.hpp"
#include "limiter/turns.hpp"
#include "limiter/wait.hpp"
#include "sampler/draw_plan.hpp"
#include "sampler/epoch_draw.hpp"
#include "sampler/fresh_draw.hpp"
#include "sampler/snapshot_draw.hpp"
#include "sampler/weighted_draw.hpp"
#include "storage/chunk_store.hpp"
#include "window/batch_access.hpp"
#include "window/row_copier.hpp"
#include "window/row_taker.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace reprise::sampler {

/// The status code for the end of a wait.
[[nodiscard]] inline SampleStatus::Code code_of(limiter::WaitEnd end) noexcept {
  using Code = SampleStatus::Code;
  constexpr Code kCodes[] = {Code::TimedOut, Code::Stopped, Code::Closed};  // As in `WaitEnd`.
  return kCodes[static_cast<std::size_t>(end)];
}

/// One sampler: its random generator, the scratch of a draw, and its batch. One thread at a time.
class SamplerCore {
 public:
  /// `selector`: the index of the selector that draws.
  SamplerCore(std::shared_ptr<buffer::BufferCore> core, const SamplerOptions& options,
              std::size_t selector = 0);

  /// The sampler's own batch.
  [[nodiscard]] const Batch& batch() const noexcept { return batch_; }
  [[nodiscard]] window::BatchStore& own() noexcept { return store_; }
  [[nodiscard]] base::Random::State random_state() const noexcept { return random_.state(); }

  /// Draws n items into the batch slots [offset, offset + n); the batch has to have room for them.
  /// The next stop of the data path is `LockedShard::draw`.
  SampleStatus sample(window::BatchStore& batch, std::size_t offset, std::size_t n,
                      const SampleOptions& options);

  /// As `sample`, for a thread that must not wait: returns `Stopped` if the batch cannot be drawn
  /// yet. The call then keeps its place in the line of waiting samplers until it is repeated with
  /// the same arguments, or until `give_up`.
  SampleStatus poll(window::BatchStore& batch, std::size_t offset, std::size_t n,
                    const SampleOptions& options);
  void give_up() noexcept { polled_.reset(); }

  /// From now on the places of rows are passed to `sink`, and rows are not copied into batches;
  /// null: they are copied.
  void set_row_sink(window::RowSink* sink) noexcept { row_sink_ = sink; }
  [[nodiscard]] bool has_row_sink() const noexcept { return row_sink_ != nullptr; }
  [[nodiscard]] buffer::BufferCore& buffer() const noexcept { return *core_; }

  void check(const window::BatchStore& batch, std::size_t offset, std::size_t n,
             const SampleOptions& options) const;

  [[nodiscard]] Batch make_batch(std::size_t n, std::pmr::memory_resource* memory) const {
    return window::BatchAccess::make(core_->schema(), core_->window(), n, memory,
                                     options_.unique_frames);
  }
  UpdateResult update_priorities(std::span<const ItemKey> keys, std::span<const float> priorities) {
    return buffer::update(*core_, keys, priorities, selector_);
  }
  /// Implements `BatchSource::outlook`. Any thread.
  [[nodiscard]] SampleStatus outlook(std::size_t n) const {
    core_->life().check_not_forked();
    SampleStatus status;
    status.code = core_->closed() ? SampleStatus::Code::Closed : SampleStatus::Code::TimedOut;
    status.batch = status.possible = n;
    status.items = core_->limiter_items();
    status.needed = core_->limiter().needed(n);
    fill_outdated(status);
    return status;
  }

 private:
  enum class IfNotAdmitted : std::uint8_t { Wait, Stop };
  /// A call of `sample`, and its place in the line of waiting samplers, if it has to wait. It keeps
  /// this turn until it has drawn, so that no other waiting call takes the items.
  struct Call : limiter::Turns::Turn {
    explicit Call(limiter::Turns& all, IfNotAdmitted what = IfNotAdmitted::Wait) noexcept
        : turns(all), if_not_admitted(what) {}
    ~Call() { leave(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    /// Leaves the line; returns whether other calls were before this one.
    bool leave() noexcept { return std::exchange(in_turn, false) && turns.leave(*this); }

    limiter::Turns& turns;
    const IfNotAdmitted if_not_admitted;
    bool in_turn = false;
    Needs needs;
    SampleStatus status;
    limiter::Limiter::Answer answer{};  ///< The limiter's last answer.
  };
  [[nodiscard]] DrawPlan& plan(Draws draws) const {
    return *plans_.at(static_cast<std::size_t>(draws));
  }
  SampleStatus sample(Call& call, window::BatchStore& batch, std::size_t offset, std::size_t n,
                      const SampleOptions& options);
  void fill_outdated(SampleStatus& status) const noexcept {
    status.outdated = core_->shards().outdated();
    status.version = core_->counters.version.load(std::memory_order_relaxed);
  }
  [[nodiscard]] float fresh_share() const;
  [[nodiscard]] Needs available(const Needs& needs) const noexcept;
  void wait(Call& call, limiter::WaitTerms& terms);
  void wait_until_admitted(Call& call, limiter::WaitTerms& terms);
  [[nodiscard]] bool admit(Call& call) noexcept;
  [[nodiscard]] bool admit_in_turn(Call& call) noexcept;
  [[nodiscard]] std::optional<limiter::WaitEnd> wait_for_items(Call& call,
                                                               limiter::Wait& wait) noexcept;
  [[nodiscard]] bool admit_polled(Call& call) noexcept;
  void give_up(Call& call, limiter::WaitEnd end) noexcept;
  void fill_reason(Call& call) noexcept;
  [[nodiscard]] std::size_t items_for(const Needs& needs, const Needs& available) const noexcept;

  void reserve(std::size_t n);
  void draw_admitted(Call& call, limiter::WaitTerms& terms, DrawPlan& plan, Drawing& drawing);
  void batch_drawn(std::size_t n) noexcept;
  void take_back(std::size_t n) noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  const SamplerOptions options_;
  const std::size_t selector_;
  base::Random random_;
  window::BatchStore& store_;  ///< The writable arrays of batch_, which owns them.
  Batch batch_;

  // Scratch of one call with one element per draw; it grows with the largest batch.
  std::vector<std::uint32_t> leaves_;
  std::vector<float> weights_;
  std::vector<storage::Place> places_;
  std::vector<std::uint32_t> pinned_;
  std::vector<const std::byte*> rows_;
  std::vector<Run> runs_;

  const bool snapshots_;  ///< Whether every call draws by `snapshot_`, whatever its options are.
  WeightedDraw weighted_;
  SnapshotDraw snapshot_;
  EpochDraw epoch_;
  FreshDraw fresh_;
  window::RowCopier copier_;
  window::RowSink* row_sink_ = nullptr;
  std::array<DrawPlan*, 4> plans_{};  ///< The plan for each of `Draws`.
  std::optional<Call> polled_;        ///< A call of `poll` that has no batch yet.
  base::OneThread one_thread_;
};

}  // namespace reprise::sampler
