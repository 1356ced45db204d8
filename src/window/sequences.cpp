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

/// Bytes of later sequences to prefetch, and the most bytes of one of them.
constexpr std::size_t kSequencesAhead = 8192;
constexpr std::size_t kSequenceBytes = 1024;

class SequenceGather final : public Gather {
 public:
  using Gather::Gather;
  void items(std::span<const std::byte* const> rows, const Targets& targets,
             const detail::BatchView& batch, std::size_t offset) const noexcept override;

 private:
  void each_target(const std::byte* row, const storage::ItemHeader& header, const Targets& targets,
                   const detail::BatchView& batch, std::size_t place) const noexcept;
  void steps(const Copy& copy, const std::byte* row, std::uint32_t length,
             std::byte* to) const noexcept;
  void stacks(const Copy& copy, const std::byte* row, std::uint64_t position, std::uint32_t length,
              std::byte* to) const noexcept;
};

/// Writes the target of each step of a sequence, and zeros beyond its last one.
void SequenceGather::each_target(const std::byte* row, const storage::ItemHeader& header,
                                 const Targets& targets, const detail::BatchView& batch,
                                 std::size_t place) const noexcept {
  const std::uint32_t length = header.length();
  const std::size_t first = place * ahead_;
  for (std::uint32_t t = 0; t < length; ++t) {
    const std::uint32_t steps = std::min(targets.n_step, length - t);
    target(row + t * stride_, steps, header.terminated() && t + steps == length, targets.discount,
           batch, first + t);
  }
  const auto clear = [&](void* column) {
    std::fill_n(static_cast<float*>(column) + first + length, ahead_ - length, 0.0F);
  };
  for (const Copy& reward : rewards_) {
    clear(batch.columns[reward.field].data[detail::BatchView::kReturns]);
  }
  clear(batch.discounts);
}

void SequenceGather::items(std::span<const std::byte* const> rows, const Targets& targets,
                           const detail::BatchView& batch, std::size_t offset) const noexcept {
  const std::size_t window_bytes = (std::size_t{ahead_} + 1) * stride_;
  const std::size_t fetched = std::min(window_bytes, kSequenceBytes);
  const std::size_t distance = std::clamp<std::size_t>(kSequencesAhead / fetched, 1, 16);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + distance < rows.size()) {
      // At the end of an episode these lines may belong to another window; a prefetch cannot fault.
      prefetch(rows[i + distance], fetched);
    }
    const std::byte* const row = rows[i];
    const std::size_t place = offset + i;
    storage::ItemHeader header;
    std::memcpy(&header, row, sizeof(header));
    const std::uint32_t length = header.length();
    for (const Copy& copy : observations_) {
      const std::size_t bytes = copy.bytes * ahead_ * (behind_ + 1);
      std::byte* const* const data = batch.columns[copy.field].data;
      if (batch.unique_frames) {
        frames(copy, row, header, length, batch, place);
      } else if (behind_ == 0) {
        steps(copy, row, length, data[detail::BatchView::kNow] + place * bytes);
        steps(copy, row + stride_, length, data[detail::BatchView::kNext] + place * bytes);
      } else {
        const std::uint64_t position = header.position();
        stacks(copy, row, position, length, data[detail::BatchView::kNow] + place * bytes);
        stacks(copy, row + stride_, position + 1, length,
               data[detail::BatchView::kNext] + place * bytes);
      }
    }
    for (const storage::CompressedField& field : packed_) {
      packed(field, row, header, {length, length, 1}, batch, place);
    }
    for (const Copy& copy : columns_) {
      steps(copy, row, length,
            batch.columns[copy.field].data[detail::BatchView::kNow] + place * ahead_ * copy.bytes);
    }
    if (!mutable_.empty()) {
      mutable_steps(row, length, ahead_, batch, place);
    }
    if (!recurrent_.empty()) {
      recurrent_state(row, batch, place);
    }
    if (targets.n_step != 0) {
      each_target(row, header, targets, batch, place);
    } else {
      batch.discounts[place] = header.terminated() ? 0.0F : 1.0F;
    }
    batch.episodes[place] = header.episode;
    batch.positions[place] = header.position();
    batch.lengths[place] = length;
  }
}

/// Copies one field of `length` rows; zeros for the steps that a whole window has beyond them.
void SequenceGather::steps(const Copy& copy, const std::byte* row, std::uint32_t length,
                           std::byte* to) const noexcept {
  const std::byte* const from = row + copy.offset;
  with_size(copy.bytes, [=, stride = stride_](auto size) {
    for (std::uint32_t k = 0; k < length; ++k) {
      std::memcpy(to + k * size, from + k * stride, size);
    }
  });
  if (length < ahead_) {
    std::memset(to + length * copy.bytes, 0, (ahead_ - length) * copy.bytes);
  }
}

/// As `steps`, with the stack of each step. `position` is that of `row`.
void SequenceGather::stacks(const Copy& copy, const std::byte* row, std::uint64_t position,
                            std::uint32_t length, std::byte* to) const noexcept {
  const std::size_t bytes = (std::size_t{behind_} + 1) * copy.bytes;
  for (std::uint32_t k = 0; k < length; ++k) {
    stack(copy, row + k * stride_, position + k, to + k * bytes);
  }
  std::memset(to + length * bytes, 0, (ahead_ - length) * bytes);
}

constexpr std::string_view kEnds[] = {"zero_pad", "drop", "overlap"};

class SequencesKind final : public Kind {
 public:
  explicit SequencesKind(const Sequences& window) : Kind("Sequences", window), window_(window) {
    base::require(window.burn_in <= kMost - window.length, base::StrategyOf{"Sequences"},
                  "burn_in is ", window.burn_in, "; allowed: 0 to 65535 - length");
  }

  [[nodiscard]] std::uint32_t ahead() const noexcept override {
    return window_.burn_in + window_.length;
  }
  [[nodiscard]] bool has_steps() const noexcept override { return true; }
  [[nodiscard]] bool every_step() const noexcept override {
    return window_.period == 1 && window_.burn_in == 0 && gives_shorter();
  }
  [[nodiscard]] std::uint32_t item_every() const noexcept override {
    return window_.end == SequenceEnd::Overlap ? 1 : window_.period;
  }
  [[nodiscard]] bool begins_item(std::uint64_t position, std::uint32_t length,
                                 bool ends) const noexcept override {
    const bool whole = length == ahead();
    if (length <= window_.burn_in) {
      return false;  // There is nothing to learn from.
    }
    if (ends && window_.end == SequenceEnd::Overlap && (whole || position == 0)) {
      return true;
    }
    return (whole || gives_shorter()) && position % window_.period == 0;
  }
  /// Refuses a capacity with which the buffer would have no item at times, so samplers would wait.
  void check_capacity(std::size_t steps) const override {
    const std::size_t least = std::max(ahead(), window_.period);
    base::require(steps >= least, "capacity_steps is ", steps, "; allowed: at least ", least,
                  ", the larger of burn_in + length = ", ahead(), " and period = ", window_.period,
                  ", so that there is a sequence to draw");
  }
  [[nodiscard]] std::string rows_in_words() const override {
    return base::text("burn_in + length + frame_stack = ", window_.burn_in, " + ", window_.length,
                      " + ", behind() + 1);
  }
  [[nodiscard]] std::unique_ptr<Gather> make_gather(const Schema& schema,
                                                    const storage::RowLayout& layout,
                                                    const WindowSpec& window,
                                                    storage::ChunkStore& store) const override {
    return std::make_unique<SequenceGather>(schema, layout, window, store);
  }

 private:
  [[nodiscard]] bool gives_shorter() const noexcept { return window_.end == SequenceEnd::ZeroPad; }

  const Sequences window_;
};

}  // namespace

std::shared_ptr<const Kind> make_kind(const Sequences& window) {
  Sequences::window_kind().check(window);
  return std::make_shared<SequencesKind>(window);
}

}  // namespace reprise::window

namespace reprise {

StrategyKind<Window> Sequences::window_kind() {
  return base::describe<Window, Sequences>(
      "Sequences",
      R"(One item per `period` steps of an episode: T = burn_in + length consecutive steps with every
field, and the observation after each of them (R2D2, Kapturowski et al., 2019).

length: steps to learn from. period: steps from one item's first to the next one's.
burn_in: steps before those; burn_in + length is at most 65535.
end: what becomes of steps at the end of an episode that no whole sequence begins with:
  "zero_pad" gives items of fewer steps (Batch.lengths) with zeros beyond them,
  "drop" none, "overlap" one that ends with the episode.
n_step: above 0 each step of an item has the return of n_step steps, or of the fewer that are left
  in the item, and a discount: Batch.returns and Batch.discounts are [B, T].
discount: gamma per step of these returns, in [0, 1].
frame_stack: observations stacked at each step, oldest first, 1 to 65535; batches then have
  [B, T, F, *shape], or with unique_frames each frame of an item once.
stack_start: what a stack shows of the time before an episode: "repeat_first" or "zeros".)",
      base::option<&Sequences::length>("length", 1, 65535),
      base::option<&Sequences::period>("period", 1),
      base::option<&Sequences::burn_in>("burn_in", 0, 65534),
      base::option<&Sequences::end>("end", window::kEnds),
      base::option<&Sequences::n_step>("n_step", 0, 65535),
      base::option<&Sequences::discount>("discount", 0.0F, 1.0F),
      base::option<&Sequences::frame_stack>("frame_stack", 1, 65535),
      base::option<&Sequences::stack_start>("stack_start", window::kStackStarts));
}

}  // namespace reprise
