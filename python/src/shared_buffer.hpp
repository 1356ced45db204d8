#pragma once

#include <reprise/replay_buffer.hpp>

#include "fields.hpp"

#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::python {

/// A buffer and what Python calls its fields. Its writers and samplers keep it alive.
class SharedBuffer {
 public:
  explicit SharedBuffer(ReplayBuffer made) : buffer(std::move(made)), table(buffer.schema()) {
    for (const Selector& selector : buffer.options().selectors) {
      rules_.push_back(selector.make_selector_rule());
      needs_priorities_ = needs_priorities_ || rules_.back()->needs_caller();
    }
  }
  ~SharedBuffer();
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  ReplayBuffer buffer;
  FieldTable table;

  [[nodiscard]] bool has_returns() const noexcept {
    return std::holds_alternative<Transitions>(buffer.options().window);
  }
  /// RuntimeError in a forked child, before anything is written: rows are not mapped there.
  void check_process() const {
    if (forks() != forks_at_start_) {
      refuse_fork();
    }
  }
  /// Whether appends that decide items have to bring priorities.
  [[nodiscard]] bool needs_priorities() const noexcept { return needs_priorities_; }
  /// What the buffer checks of priorities for `items` decided items, for calls of several commits.
  void check_priorities(std::span<const float> priorities, std::size_t items,
                        const char* call) const;

 private:
  /// Forks of which this process is the child. Written by the child's only thread.
  static const unsigned& forks() noexcept;
  void refuse_fork() const;

  const unsigned forks_at_start_ = forks();
  std::vector<std::unique_ptr<SelectorRule>> rules_;
  bool needs_priorities_ = false;
};

void bind_buffer(pybind11::module_& module);

}  // namespace reprise::python
