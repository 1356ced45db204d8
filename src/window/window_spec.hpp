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

/// Which rows an item's window needs, which steps begin an item, and what a batch holds of one.
/// Writing and gathering share this arithmetic; what differs between kinds of window is in `Kind`.
class WindowSpec {
 public:
  /// Throws std::invalid_argument, which names the option, its value and what is allowed.
  explicit WindowSpec(const Window& window);

  /// Throws std::invalid_argument for a schema with a field that items of this kind cannot have.
  void check_fields(const Schema& schema) const;
  /// Throws std::invalid_argument for a capacity, in steps, with which the buffer would at times
  /// have no item.
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
  /// The targets of a batch whose call gives these values. Throws std::invalid_argument for an
  /// n_step of 0 or above that of the window, for a discount outside [0, 1], and for any value if
  /// the window has no returns.
  [[nodiscard]] Targets targets(std::optional<std::uint32_t> n_step,
                                std::optional<float> discount) const;
  /// How many discounts and returns an item has: one per step of the item in a batch, or one.
  [[nodiscard]] std::uint32_t target_count() const noexcept { return n_step() != 0 ? steps() : 1; }

  /// Steps in a window that is not cut short.
  [[nodiscard]] std::uint32_t ahead() const noexcept { return ahead_; }
  /// How many rows before an item's first row its frame stack reads.
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
  /// The most rows behind an item's first row that its window reads: in a stream a final row may
  /// follow each step.
  [[nodiscard]] std::uint32_t reach() const noexcept { return continues_ ? 2 * ahead_ : ahead_; }

  /// How many steps of an item a batch has: all, or the first one.
  [[nodiscard]] std::uint32_t steps() const noexcept { return has_steps() ? ahead_ : 1; }

  /// How many frames the stacks of a window read together.
  [[nodiscard]] std::uint32_t frames() const noexcept { return behind() + 1 + ahead(); }

  /// Whether every step begins an item.
  [[nodiscard]] bool every_step() const noexcept { return every_step_; }
  /// Whether the step at a position of its episode, or of its stream, begins an item. Its window
  /// has `length` steps: ahead(), or fewer at the end of the episode. `ends`: whether the last of
  /// these ends the episode.
  [[nodiscard]] bool begins_item(std::uint64_t position, std::uint32_t length,
                                 bool ends) const noexcept {
    return every_step_ || kind_->begins_item(position, length, ends);
  }

  /// Items begin only with steps whose position is a multiple of this number.
  [[nodiscard]] std::uint32_t item_every() const noexcept { return kind_->item_every(); }

  /// The most steps from the first step of an item to that of the next one in its episode.
  [[nodiscard]] std::uint32_t max_steps_between_items() const noexcept {
    return kind_->max_steps_between_items();
  }

  /// How many values of a field a batch holds per item: for each step one, or of observations a
  /// stack.
  [[nodiscard]] std::size_t values(const RoleTraits& role) const noexcept;
  /// The dimensions of a field in a batch between the items and the field's own dimensions.
  [[nodiscard]] std::vector<std::size_t> dimensions(const RoleTraits& role) const;

  /// The most rows that a writer copies when it moves to its next chunk in the middle of an
  /// episode: the frame stack before the oldest open item, the open items, and the current row.
  [[nodiscard]] std::uint32_t context_rows() const noexcept { return behind() + reach(); }
  /// The fewest rows with which a writer can use a chunk: the context and the next step's row.
  [[nodiscard]] std::uint32_t min_chunk_rows() const noexcept { return context_rows() + 1; }
  /// Explains `min_chunk_rows` as a sum, with the names of the options.
  [[nodiscard]] std::string min_chunk_rows_in_words() const { return kind_->rows_in_words(); }

  /// The fewest steps of a filled chunk with steps, as a mean over many chunks. The first behind()
  /// rows are context. Of the last rows, up to reach() belong to open items, or up to
  /// min_chunk_rows() - 1 were too few for the next writer. In the rows between, an episode of one
  /// step takes two. (A chunk that several writers fill in turn has context for each of them. But
  /// for each there is another chunk that a writer left, which has no context.)
  [[nodiscard]] std::uint32_t min_items(std::uint32_t chunk_rows) const noexcept {
    const std::uint32_t not_items = behind() + context_rows();
    return chunk_rows > not_items ? std::max(1U, (chunk_rows - not_items) / 2) : 1;
  }

  /// Makes the object that copies such windows into batches. `layout`: the layout of rows in
  /// chunks. The store must outlive the object.
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
