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

/// How far ahead of the sequence being copied later ones are prefetched: bytes of all of them, and
/// the most sequences; and the most bytes that are prefetched of one sequence.
constexpr std::size_t kBytesAhead = 8192;
constexpr std::size_t kSequencesAhead = 16;
constexpr std::size_t kSequenceBytes = 1024;

class SequenceGather final : public Gather {
 public:
  using Gather::Gather;
  void items(std::span<const std::byte* const> rows, const Targets& targets,
             const detail::BatchView& batch, std::size_t offset) const noexcept override;

 private:
  void copy_part(const Part& part, const Targets& targets, const detail::BatchView& batch,
                 std::size_t place) const noexcept;
  void copy_stream_item(const std::byte* row, std::uint64_t position, const Targets& targets,
                        const detail::BatchView& batch, std::size_t place) const noexcept;
  void write_targets(const Part& part, const Targets& targets, const detail::BatchView& batch,
                     std::size_t first) const noexcept;
  void copy_steps(const Copy& copy, const Part& part, const std::byte* row,
                  std::byte* to) const noexcept;
  void copy_stacks(const Copy& copy, const Part& part, std::uint32_t ahead,
                   std::byte* to) const noexcept;
};

/// Writes the return and discount of each step, and zeros for the steps that the item lacks.
void SequenceGather::write_targets(const Part& part, const Targets& targets,
                                   const detail::BatchView& batch,
                                   std::size_t first) const noexcept {
  for (std::uint32_t t = 0; t < part.length; ++t) {
    const std::uint32_t steps = std::min(targets.n_step, part.length - t);
    write_target(part.row + t * stride_, steps, part.terminated && t + steps == part.length,
                 targets.discount, batch, first + t);
  }
  const auto clear = [&](void* column) {
    std::fill_n(static_cast<float*>(column) + first + part.length, part.beyond, 0.0F);
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
  const std::size_t distance = std::clamp<std::size_t>(kBytesAhead / fetched, 1, kSequencesAhead);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + distance < rows.size()) {
      // At the end of an episode these lines may belong to another window; a prefetch cannot fault.
      prefetch(rows[i + distance], fetched);
    }
    const std::byte* const row = rows[i];
    const std::size_t place = offset + i;
    storage::ItemHeader header;
    std::memcpy(&header, row, sizeof(header));
    const std::uint64_t position = header.position();
    const std::uint32_t length = stream_rows_.present() ? ahead_ : header.length();
    if (stream_rows_.present()) {
      copy_stream_item(row, position, targets, batch, place);
    } else {
      copy_part({row, position, length, 0, ahead_ - length, header.terminated()}, targets, batch,
                place);
    }
    if (!recurrent_.empty()) {
      copy_recurrent_state(row, batch, place);
    }
    batch.episodes[place] = header.episode;
    batch.positions[place] = position;
    batch.lengths[place] = length;
  }
}

/// Copies an item of a stream, episode by episode, and writes `is_first`, `terminated` and
/// `truncated` of the item's steps.
void SequenceGather::copy_stream_item(const std::byte* row, std::uint64_t position,
                                      const Targets& targets, const detail::BatchView& batch,
                                      std::size_t place) const noexcept {
  bool* const is_first = batch.is_first + place * ahead_;
  bool* const terminated = batch.terminated + place * ahead_;
  bool* const truncated = batch.truncated + place * ahead_;
  for (bool* const column : {is_first, terminated, truncated}) {
    std::fill_n(column, ahead_, false);
  }
  Part part{row, position};  // The steps of the present episode so far.
  for (std::uint32_t t = 0; t < ahead_; ++t) {
    const std::byte* const step = part.row + part.length * stride_;
    const storage::StreamRow end_kind = stream_rows_.of(step);
    const bool goes_on = t + 1 < ahead_;
    const std::uint32_t to_next = goes_on ? stream_rows_.to_next(step) : 1;
    const bool ends = end_kind != storage::StreamRow::Continue || to_next != 1;
    ++part.length;
    if (goes_on && !ends) {
      continue;
    }
    part.terminated = end_kind == storage::StreamRow::Terminated;
    is_first[part.at] = part.position == 0;
    terminated[t] = part.terminated;
    truncated[t] = ends && !part.terminated;
    copy_part(part, targets, batch, place);
    part = {.row = step + to_next * stride_, .position = 0, .at = t + 1};
  }
}

/// Copies steps of one episode to their places in an item.
void SequenceGather::copy_part(const Part& part, const Targets& targets,
                               const detail::BatchView& batch, std::size_t place) const noexcept {
  const std::size_t first = place * ahead_ + part.at;
  for (const Copy& copy : observations_) {
    std::byte* const* const data = batch.columns[copy.field].data;
    const std::size_t begin = first * copy.bytes * (behind_ + 1);
    if (batch.unique_frames) {
      copy_frames(copy, part, part.length, batch, place);
    } else if (behind_ == 0) {
      copy_steps(copy, part, part.row, data[detail::BatchView::kNow] + begin);
      copy_steps(copy, part, part.row + stride_, data[detail::BatchView::kNext] + begin);
    } else {
      copy_stacks(copy, part, 0, data[detail::BatchView::kNow] + begin);
      copy_stacks(copy, part, 1, data[detail::BatchView::kNext] + begin);
    }
  }
  for (const storage::CompressedField& field : packed_) {
    unpack_field(field, part, {part.length, part.length, 1}, batch, place);
  }
  for (const Copy& copy : columns_) {
    copy_steps(copy, part, part.row,
               batch.columns[copy.field].data[detail::BatchView::kNow] + first * copy.bytes);
  }
  if (!mutable_.empty()) {
    copy_mutable(part.row, part.length, part.beyond, batch, first);
  }
  if (targets.n_step != 0) {
    write_targets(part, targets, batch, first);
  } else {
    batch.discounts[place] = part.terminated ? 0.0F : 1.0F;  // Of the last part copied.
  }
}

/// Copies one field of the part's rows, which begin at `row`; writes zeros for the steps that the
/// item lacks.
void SequenceGather::copy_steps(const Copy& copy, const Part& part, const std::byte* row,
                                std::byte* to) const noexcept {
  const std::byte* const from = row + copy.offset;
  with_size(copy.bytes, [=, length = part.length, stride = stride_](auto size) {
    for (std::uint32_t k = 0; k < length; ++k) {
      std::memcpy(to + k * size, from + k * stride, size);
    }
  });
  if (part.beyond != 0) {
    std::memset(to + part.length * copy.bytes, 0, part.beyond * copy.bytes);
  }
}

/// Like `copy_steps`, for stacks: for each step, that of the observation `ahead` steps later.
void SequenceGather::copy_stacks(const Copy& copy, const Part& part, std::uint32_t ahead,
                                 std::byte* to) const noexcept {
  const std::size_t bytes = (std::size_t{behind_} + 1) * copy.bytes;
  for (std::uint32_t k = 0; k < part.length; ++k) {
    copy_stack(copy, part.row + (k + ahead) * stride_, part.position + k + ahead, to + k * bytes);
  }
  std::memset(to + part.length * bytes, 0, part.beyond * bytes);
}

constexpr std::string_view kEnds[] = {"zero_pad", "drop", "overlap", "continue"};
/// The columns that a batch of a stream has beside the fields.
constexpr std::string_view kOfStream[] = {"is_first", "terminated", "truncated"};

class SequencesKind final : public Kind {
 public:
  explicit SequencesKind(const Sequences& window) : Kind("Sequences", window), window_(window) {
    base::require(window.burn_in <= kMaxLength - window.length, base::StrategyOf{"Sequences"},
                  "burn_in is ", window.burn_in, "; allowed: 0 to 65535 - length");
    base::require(!continues() || ahead() <= kMaxLength / 2, base::StrategyOf{"Sequences"},
                  "end is ", base::Enumerator{"Continue"}, ", and burn_in + length is ", ahead(),
                  "; allowed: at most ", kMaxLength / 2);
  }

  [[nodiscard]] std::uint32_t ahead() const noexcept override {
    return window_.burn_in + window_.length;
  }
  [[nodiscard]] bool has_steps() const noexcept override { return true; }
  [[nodiscard]] bool every_step() const noexcept override {
    return window_.period == 1 && window_.burn_in == 0 && gives_shorter();
  }
  void check_field(const FieldSpec& field) const override {
    base::require(!continues() || std::ranges::find(kOfStream, field.name) == std::end(kOfStream),
                  "field '", field.name, "' has the name of what batches of Sequences with end = ",
                  base::Enumerator{"Continue"}, " have of each step; allowed: another name");
  }
  [[nodiscard]] bool continues() const noexcept override {
    return window_.end == SequenceEnd::Continue;
  }
  [[nodiscard]] std::uint32_t item_every() const noexcept override {
    return window_.end == SequenceEnd::Overlap || continues() ? 1 : window_.period;
  }
  [[nodiscard]] std::uint32_t max_steps_between_items() const noexcept override {
    return window_.period;
  }
  [[nodiscard]] bool begins_item(std::uint64_t position, std::uint32_t length,
                                 bool ends) const noexcept override {
    const bool whole = length == ahead();
    if (length <= window_.burn_in) {
      return false;  // All steps are burn-in, so there is nothing to learn from.
    }
    if (ends && window_.end == SequenceEnd::Overlap && (whole || position == 0)) {
      return true;
    }
    return (whole || gives_shorter()) && position % window_.period == 0;
  }
  /// Refuses a capacity with which the buffer would at times have no item to draw.
  void check_capacity(std::size_t steps) const override {
    const std::size_t least = std::max(ahead(), window_.period);
    base::require(steps >= least, "capacity_steps is ", steps, "; allowed: at least ", least,
                  ", the larger of burn_in + length = ", ahead(), " and period = ", window_.period,
                  ", so that there is a sequence to draw");
  }
  [[nodiscard]] std::string rows_in_words() const override {
    if (continues()) {
      return base::text("2 * (burn_in + length) + frame_stack = ", 2 * ahead(), " + ",
                        behind() + 1);
    }
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
  "drop" none, "overlap" one that ends with the episode; "continue" goes on with the writer's next
  episode: items of T steps at every `period` steps of its stream, with batch["is_first"],
  batch["terminated"] and batch["truncated"], bool [B, T]; unique_frames are refused.
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
