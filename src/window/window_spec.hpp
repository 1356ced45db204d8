#pragma once

#include <reprise/schema.hpp>
#include <reprise/window.hpp>

#include "window/gather.hpp"
#include "window/kind.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::window {

/// Which rows an item's window needs, which steps begin one, and what a batch holds of it. Writing
/// and gathering share this arithmetic; what differs between kinds of window is in `Kind`.
class WindowSpec {
 public:
  /// std::invalid_argument naming the option, its value and what is allowed.
  explicit WindowSpec(const Window& window);

  /// std::invalid_argument for a schema with a field that items of this kind cannot have.
  void check_fields(const Schema& schema) const;
  /// std::invalid_argument for a capacity, in steps, with which there would be no item at times.
  void check_capacity(std::size_t steps) const { kind_->check_capacity(steps); }

  /// The options as they were given.
  [[nodiscard]] const Window& options() const noexcept { return window_; }
  /// The name of the kind.
  [[nodiscard]] const char* name() const noexcept { return kind_->name(); }
  /// Whether a batch has all steps of an item, and not only the first.
  [[nodiscard]] bool has_steps() const noexcept { return kind_->has_steps(); }
  /// Whether frames before an episode are zeros, and not copies of its first frame.
  [[nodiscard]] bool zeros_before() const noexcept {
    return kind_->stack_start() == StackStart::Zeros;
  }
  /// The discount per step, for returns.
  [[nodiscard]] float discount() const noexcept { return kind_->discount(); }
  /// Most steps in a return; 0 if there are no returns.
  [[nodiscard]] std::uint32_t n_step() const noexcept { return kind_->n_step(); }
  /// The targets of a batch whose call gives none.
  [[nodiscard]] Targets targets() const noexcept { return {n_step(), discount()}; }
  /// The targets of a batch whose call gives these values. std::invalid_argument for an n_step
  /// above that of the window or 0, for a discount outside [0, 1], and for any value if the window
  /// has no returns.
  [[nodiscard]] Targets targets(std::optional<std::uint32_t> n_step,
                                std::optional<float> discount) const;
  /// How many discounts and returns an item has: one per step, or one.
  [[nodiscard]] std::uint32_t target_count() const noexcept { return n_step() != 0 ? steps() : 1; }

  /// Steps in a window that is not cut short.
  [[nodiscard]] std::uint32_t ahead() const noexcept { return ahead_; }
  /// Rows before an item's first that its frame stack reads.
  [[nodiscard]] std::uint32_t behind() const noexcept { return behind_; }
  /// Whether a window goes on across ends of episodes, in the stream of its writer's steps. Then
  /// the number of a step in the stream decides whether an item begins with it.
  [[nodiscard]] bool continues() const noexcept { return continues_; }
  /// Throws std::invalid_argument if `continues()`. The message begins with `where` and ends with
  /// what is allowed.
  template <class... Where>
  void refuse_streams(std::string_view allowed, Where... where) const {
    base::require(!continues_, where..., "window is ", name(),
                  " with end = ", base::Enumerator{"Continue"}, "; allowed: ", allowed);
  }
  /// Most rows after an item's first that its window reads: in a stream an episode may end after
  /// each step.
  [[nodiscard]] std::uint32_t reach() const noexcept { return continues_ ? 2 * ahead_ : ahead_; }

  /// Steps of an item that a batch has: all, or the first one.
  [[nodiscard]] std::uint32_t steps() const noexcept { return has_steps() ? ahead_ : 1; }

  /// Frames that all stacks of such a window read.
  [[nodiscard]] std::uint32_t frames() const noexcept { return behind() + 1 + ahead(); }

  /// Whether every step begins an item.
  [[nodiscard]] bool every_step() const noexcept { return every_step_; }
  /// Whether the step at a position of its episode, or of its stream, begins an item, given the
  /// steps of its window: ahead(), or fewer at the end of the episode, and whether the last of them
  /// ends it.
  [[nodiscard]] bool begins_item(std::uint64_t position, std::uint32_t length,
                                 bool ends) const noexcept {
    return every_step_ || kind_->begins_item(position, length, ends);
  }

  /// Items begin only with steps whose position is a multiple of this.
  [[nodiscard]] std::uint32_t item_every() const noexcept { return kind_->item_every(); }

  /// The most steps from the first step of an item to that of the next one in its episode.
  [[nodiscard]] std::uint32_t max_steps_between_items() const noexcept {
    return kind_->max_steps_between_items();
  }

  /// Values of a field that a batch holds per item: those of each step, for observations a stack.
  [[nodiscard]] std::size_t values(const RoleTraits& role) const noexcept;
  /// The dimensions of a field in a batch between that of the items and the field's own.
  [[nodiscard]] std::vector<std::size_t> dimensions(const RoleTraits& role) const;

  /// Most rows that a writer copies when it moves to its next chunk in the middle of an episode:
  /// the frame stack before the oldest open item, the open items, and the current row.
  [[nodiscard]] std::uint32_t context_rows() const noexcept { return behind() + reach(); }
  /// Fewest rows with which a writer can use a chunk: the context and the row of the next step.
  [[nodiscard]] std::uint32_t min_chunk_rows() const noexcept { return context_rows() + 1; }
  /// Explains `min_chunk_rows` as a sum, with the names of the options.
  [[nodiscard]] std::string min_chunk_rows_in_words() const { return kind_->rows_in_words(); }

  /// Fewest steps in a filled chunk that has any, as a mean over many chunks. A chunk that several
  /// writers fill in turn has context for each of them, but then a chunk that a writer left for it
  /// has none. behind() rows at the start of a chunk are context. At the end up to reach() rows
  /// belong to open items, or up to min_chunk_rows() - 1 were too few for the next writer. In
  /// between an episode of one step takes two rows.
  [[nodiscard]] std::uint32_t min_items(std::uint32_t chunk_rows) const noexcept {
    const std::uint32_t not_items = behind() + context_rows();
    return chunk_rows > not_items ? std::max(1U, (chunk_rows - not_items) / 2) : 1;
  }

  /// Makes the object that copies such windows into batches. `layout`: that of rows in chunks. The
  /// store must outlive the object.
  [[nodiscard]] std::unique_ptr<const Gather> make_gather(const Schema& schema,
                                                          const storage::RowLayout& layout,
                                                          storage::ChunkStore& store) const {
    return kind_->make_gather(schema, layout, *this, store);
  }

  friend bool operator==(const WindowSpec& a, const WindowSpec& b) noexcept {
    return a.window_ == b.window_;
  }

 private:
  Window window_;
  std::shared_ptr<const Kind> kind_;
  // Copied from the kind, because every commit reads them.
  std::uint32_t ahead_ = 0;
  std::uint32_t behind_ = 0;
  bool every_step_ = true;
  bool continues_ = false;
};

}  // namespace reprise::window
