#include "base/describe.hpp"
#include "base/text.hpp"
#include "window/copy_bytes.hpp"
#include "window/gather.hpp"
#include "window/kind.hpp"
#include "window/window_spec.hpp"

#include <algorithm>
#include <cstring>

namespace reprise::window {
namespace {

/// How many items later the item is whose rows are prefetched while one is copied.
constexpr std::size_t kPrefetchDistance = 16;
/// Bytes prefetched ahead per row; the processor's own prefetcher follows longer rows.
constexpr std::size_t kPrefetchBytes = 256;

class TransitionGather final : public Gather {
 public:
  using Gather::Gather;
  void items(std::span<const std::byte* const> rows, const Targets& targets,
             const detail::BatchView& batch, std::size_t offset) const noexcept override;
};

void TransitionGather::items(std::span<const std::byte* const> rows, const Targets& targets,
                             const detail::BatchView& batch, std::size_t offset) const noexcept {
  const std::size_t ahead = targets.n_step * stride_;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kPrefetchDistance < rows.size() && ahead + stride_ <= 2 * kPrefetchBytes) {
      // Small rows begin anywhere in a line, so every line of the window is prefetched, its last
      // one included.
      prefetch(rows[i + kPrefetchDistance], ahead + stride_);
      __builtin_prefetch(rows[i + kPrefetchDistance] + ahead + stride_ - 1);
    } else if (i + kPrefetchDistance < rows.size()) {
      // The row n steps ahead lies in the same chunk or, behind an episode's end, is not needed;
      // its prefetch cannot fault.
      const std::size_t fetched = std::min(stride_, kPrefetchBytes);
      prefetch(rows[i + kPrefetchDistance], fetched);
      prefetch(rows[i + kPrefetchDistance] + ahead, fetched);
    }
    const std::byte* const row = rows[i];
    const std::size_t place = offset + i;
    storage::ItemHeader header;
    std::memcpy(&header, row, sizeof(header));
    header = header.within(targets.n_step);
    const std::uint64_t position = header.position();
    const std::uint32_t length = header.length();
    for (const Copy& copy : observations_) {
      const detail::BatchView::Column& column = batch.columns[copy.field];
      if (batch.unique_frames) {
        copy_frames(copy, {row, position, length}, ahead_, batch, place);
        continue;
      }
      const std::size_t bytes = copy.bytes * (behind_ + 1);
      copy_stack(copy, row, position, column.data[detail::BatchView::kNow] + place * bytes);
      copy_stack(copy, row + length * stride_, position + length,
                 column.data[detail::BatchView::kNext] + place * bytes);
    }
    for (const storage::CompressedField& field : packed_) {
      unpack_field(field, {row, position, length}, {ahead_, 1, length}, batch, place);
    }
    for (const Copy& copy : columns_) {
      copy_bytes(batch.columns[copy.field].data[detail::BatchView::kNow] + place * copy.bytes,
                 row + copy.offset, copy.bytes);
    }
    if (!mutable_.empty()) {
      copy_mutable(row, /*length=*/1, /*beyond=*/0, batch, place);
    }
    write_target(row, length, header.terminated(), targets.discount, batch, place);
    batch.episodes[place] = header.episode;
    batch.positions[place] = position;
    batch.lengths[place] = length;
  }
}

class TransitionsKind final : public Kind {
 public:
  explicit TransitionsKind(const Transitions& window) : Kind("Transitions", window) {}

  [[nodiscard]] std::uint32_t ahead() const noexcept override { return n_step(); }
  [[nodiscard]] bool has_steps() const noexcept override { return false; }
  void check_field(const FieldSpec& field) const override {
    base::require(
        !field.traits().per_item, "field '", field.name, "' is a ", field.traits().name,
        ", and window is Transitions; allowed: Sequences, of which each item has the state "
        "of its first step; with Transitions a column, which keeps it for every step");
  }
  [[nodiscard]] std::string rows_in_words() const override {
    return base::text("n_step + frame_stack = ", n_step(), " + ", behind() + 1);
  }
  [[nodiscard]] std::unique_ptr<Gather> make_gather(const Schema& schema,
                                                    const storage::RowLayout& layout,
                                                    const WindowSpec& window,
                                                    storage::ChunkStore& store) const override {
    return std::make_unique<TransitionGather>(schema, layout, window, store);
  }
};

}  // namespace

std::shared_ptr<const Kind> make_kind(const Transitions& window) {
  Transitions::window_kind().check(window);
  return std::make_shared<TransitionsKind>(window);
}

}  // namespace reprise::window

namespace reprise {

StrategyKind<Window> Transitions::window_kind() {
  return base::describe<Window, Transitions>(
      "Transitions",
      R"(One item per step t: the observation at t, the step's columns, the n-step return
R = sum over k < length of discount^k * reward[t + k], and the observation at t + length with
discount^length to multiply its value by (0 after a termination).

n_step: steps in a return, 1 to 65535; fewer where the episode ends sooner.
discount: gamma per step, in [0, 1]; times the steps' own, if the schema has a discount.
frame_stack: observations stacked, oldest first, 1 to 65535; batches then have [B, F, *shape].
stack_start: what a stack shows of the time before an episode: "repeat_first" or "zeros".)",
      base::option<&Transitions::n_step>("n_step", 1, 65535),
      base::option<&Transitions::discount>("discount", 0.0F, 1.0F),
      base::option<&Transitions::frame_stack>("frame_stack", 1, 65535),
      base::option<&Transitions::stack_start>("stack_start", window::kStackStarts));
}

}  // namespace reprise
