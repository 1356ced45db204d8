#pragma once

#include <reprise/guest.hpp>
#include <reprise/options.hpp>
#include <reprise/sampler.hpp>
#include <reprise/writer.hpp>

#include "binding/waiting.hpp"
#include "fields/fields.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <variant>

namespace reprise::python {

/// A sampler of a buffer of this process, or of a guest.
using AnySampler = std::variant<Sampler, GuestSampler>;

/// Makes writers, and serves them afterwards: a buffer (`AnyBuffer`), or a packer of steps for the
/// buffers of other processes (`SharedPacker`). The writers keep it alive.
class Origin {
 public:
  Origin(const Schema& schema, const Window& item_window)
      : shared_table(std::make_shared<FieldTable>(schema)), window(item_window) {}
  virtual ~Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;

  // These may wait for another process, without the GIL, and throw Closed once that process is
  // gone.
  [[nodiscard]] virtual Writer writer(const WriterOptions& options) = 0;
  [[nodiscard]] virtual VectorWriter vector_writer(std::size_t environments,
                                                   const WriterOptions& options,
                                                   AutoReset autoreset) = 0;
  [[nodiscard]] virtual Stats stats() = 0;
  /// Whether steps are refused from now on.
  [[nodiscard]] virtual bool refuses_steps() = 0;

  /// Shared, because batches may outlive the buffer.
  const std::shared_ptr<const FieldTable> shared_table;
  const FieldTable& table = *shared_table;
  /// A restored buffer has the same window.
  const Window window;

  unsigned restore_count = 0;  ///< How often `restore` has replaced the buffer.

  /// Marks a call as under way; `restore`, which replaces the buffer, does not run beside one. The
  /// GIL guards the marks, as in InUse.
  class Call {
   public:
    /// RuntimeError while `restore` runs.
    Call(Origin& origin, const char* call) : calls_(origin.calls_) {
      if (origin.restoring_) {
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

  /// Marks the object as being restored. RuntimeError while another call is under way.
  [[nodiscard]] InUse restoring();

  /// RuntimeError in a forked child, before anything is written, because rows are not mapped there.
  void check_process() {
    if (fork_depth() != fork_depth_at_start_) {
      // `stats` throws in a child, with a message that names the processes.
      static_cast<void>(stats());
    }
  }
  /// Throws Closed if steps are refused, or if the buffer was restored since `restore_count` was
  /// `expected_count`.
  void check_open(const char* call, unsigned expected_count);

 private:
  /// How many forks lie between the process that first called this and the present one.
  static unsigned fork_depth() noexcept;
  [[noreturn]] static void refuse_beside_restore(const char* call);

  const unsigned fork_depth_at_start_ = fork_depth();
  unsigned calls_ = 0;
  bool restoring_ = false;
};

/// Makes samplers too: a buffer of this process (`SharedBuffer`), or a guest of one
/// (`SharedGuest`).
class AnyBuffer : public Origin {
 public:
  using Origin::Origin;

  [[nodiscard]] virtual const Schema& schema() const = 0;
  // These may wait for another process too, as those of Origin.
  [[nodiscard]] virtual AnySampler sampler(const SamplerOptions& options, std::size_t selector) = 0;
  virtual UpdateResult update_priorities(std::span<const ItemKey> keys,
                                         std::span<const float> priorities,
                                         std::size_t selector) = 0;
};

/// The marks that a call of a writer, sampler or prefetcher holds.
struct Entered {
  Entered(bool& mark, const char* class_name, Origin& origin, const char* call)
      : in_use(mark, class_name), under_way(origin, call) {}
  InUse in_use;
  Origin::Call under_way;
};

using PriorityUpdate =
    std::function<UpdateResult(std::span<const ItemKey>, std::span<const float>)>;
/// Updates priorities, without the GIL and with copies of the arguments. Returns Python's
/// UpdateResult.
[[nodiscard]] nb::object run_update(CallName call, const Keys& keys, const Priorities& priorities,
                                    const PriorityUpdate& update);

}  // namespace reprise::python
