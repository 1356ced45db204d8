#pragma once

#include <reprise/schema.hpp>
#include <reprise/window.hpp>

#include "base/text.hpp"
#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace reprise::window {

class Gather;
class WindowSpec;

/// What the kinds of window differ in: which steps begin an item, which rows the item needs, which
/// options and schemas are refused, and how items are gathered. Each kind has its own source file,
/// with a `make_kind` for its options. Immutable; any thread.
class Kind {
 public:
  virtual ~Kind() = default;
  Kind(const Kind&) = delete;
  Kind& operator=(const Kind&) = delete;

  /// The name of the kind's struct of options.
  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t n_step() const noexcept { return n_step_; }
  [[nodiscard]] float discount() const noexcept { return discount_; }
  [[nodiscard]] std::uint32_t behind() const noexcept { return frame_stack_ - 1; }
  [[nodiscard]] StackStart stack_start() const noexcept { return stack_start_; }

  // See WindowSpec. If `continues` is true, a position is the number of a step in its stream.

  [[nodiscard]] virtual std::uint32_t ahead() const noexcept = 0;
  [[nodiscard]] virtual bool has_steps() const noexcept = 0;
  [[nodiscard]] virtual bool every_step() const noexcept { return true; }
  [[nodiscard]] virtual bool continues() const noexcept { return false; }
  [[nodiscard]] virtual std::uint32_t item_every() const noexcept { return 1; }
  [[nodiscard]] virtual std::uint32_t max_steps_between_items() const noexcept { return 1; }
  [[nodiscard]] virtual bool begins_item(std::uint64_t /*position*/, std::uint32_t /*length*/,
                                         bool /*ends*/) const noexcept {
    return true;
  }
  virtual void check_field(const FieldSpec& /*field*/) const {}
  virtual void check_capacity(std::size_t /*steps*/) const {}
  [[nodiscard]] virtual std::string rows_in_words() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Gather> make_gather(const Schema& schema,
                                                            const storage::RowLayout& layout,
                                                            const WindowSpec& window,
                                                            storage::ChunkStore& store) const = 0;

 protected:
  static constexpr std::uint32_t kMaxLength = 65535;  // The item header keeps a length in 16 bits.

  /// Takes the options that all kinds have, whose ranges `make_kind` has checked.
  template <class Options>
  Kind(const char* name, const Options& options)
      : name_(name),
        n_step_(options.n_step),
        discount_(options.discount),
        frame_stack_(options.frame_stack),
        stack_start_(options.stack_start) {}

 private:
  const char* const name_;
  const std::uint32_t n_step_;
  const float discount_;
  const std::uint32_t frame_stack_;
  const StackStart stack_start_;
};

/// The names of the values of StackStart, as options have them.
inline constexpr std::string_view kStackStarts[] = {"repeat_first", "zeros"};

/// Makes the kind of a window; there is a function for each alternative of `Window`. Throws
/// std::invalid_argument, which names the option, its value and what is allowed.
std::shared_ptr<const Kind> make_kind(const Transitions& window);
std::shared_ptr<const Kind> make_kind(const Sequences& window);

}  // namespace reprise::window
