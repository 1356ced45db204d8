#pragma once

#include <reprise/replay_buffer.hpp>

#include "fields.hpp"

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::python {

/// A buffer with the Python names of its fields. Its writers and samplers keep it alive.
class SharedBuffer {
 public:
  explicit SharedBuffer(ReplayBuffer made)
      : buffer(std::move(made)), shared_table(std::make_shared<FieldTable>(buffer.schema())) {
    read_rules();
  }
  ~SharedBuffer();
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  ReplayBuffer buffer;
  /// Shared, because batches may outlive the buffer.
  const std::shared_ptr<const FieldTable> shared_table;
  const FieldTable& table = *shared_table;

  /// Marks that a call is under way, so that `restore`, which replaces `buffer`, does not run
  /// beside it. The GIL guards the marks, as it guards those of InUse.
  class Call {
   public:
    /// RuntimeError while `restore` runs.
    Call(SharedBuffer& shared, const char* call) : calls_(shared.calls_) {
      if (shared.restoring_) {
        refuse_beside_restore(call);
      }
      ++calls_;
    }
    ~Call() { --calls_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    unsigned& calls_;
  };

  /// Marks that `restore` runs.
  class Restoring {
   public:
    /// RuntimeError while any other call is under way.
    explicit Restoring(SharedBuffer& shared);
    ~Restoring() { restoring_ = false; }
    Restoring(const Restoring&) = delete;
    Restoring& operator=(const Restoring&) = delete;

   private:
    bool& restoring_;
  };

  [[nodiscard]] bool has_returns() const noexcept { return has_returns_; }
  /// RuntimeError in a forked child. Call it before rows are written, because they may not be
  /// mapped there.
  void check_process() const {
    if (forks() != forks_at_start_) {
      refuse_fork();
    }
  }
  /// Whether appends that decide items have to give priorities.
  [[nodiscard]] bool needs_priorities() const noexcept { return needs_priorities_; }
  /// Updates the rules that `check_priorities` uses, after another alpha.
  void read_rules();
  /// Checks the priorities of `items` decided items as the buffer would, before the first commit.
  void check_priorities(std::optional<std::span<const float>> given, std::size_t items,
                        const char* call) const;
  /// Recurrent states have to be given at positions in an episode that are multiples of this.
  [[nodiscard]] std::uint64_t states_every() const noexcept { return states_every_; }

 private:
  /// How many forks lie behind this process. Only the single thread of a new child writes it.
  static const unsigned& forks() noexcept;
  void refuse_fork() const;
  [[noreturn]] static void refuse_beside_restore(const char* call);

  const unsigned forks_at_start_ = forks();
  std::vector<std::unique_ptr<SelectorRule>> rules_;
  bool needs_priorities_ = false;
  /// These stay valid after `restore`, because the restored buffer has the same window.
  const bool has_returns_ = reprise::has_returns(buffer.options().window);
  const std::uint64_t states_every_ = item_every(buffer.options().window);
  unsigned calls_ = 0;
  bool restoring_ = false;
};

void bind_buffer(pybind11::module_& module);

}  // namespace reprise::python
