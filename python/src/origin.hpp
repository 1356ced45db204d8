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

/// What writers and samplers are made of, and what they need of it afterwards: a buffer of this
/// process (`SharedBuffer`), or a guest of one (`SharedGuest`). They keep it alive.
class Origin {
 public:
  Origin(const Schema& schema, const Window& items)
      : shared_table(std::make_shared<FieldTable>(schema)), window(items) {}
  virtual ~Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;

  [[nodiscard]] virtual const Schema& schema() const = 0;
  // They may wait for another process: call them without the GIL. What they throw once that is gone
  // is Closed.
  [[nodiscard]] virtual Writer writer(const WriterOptions& options) = 0;
  [[nodiscard]] virtual VectorWriter vector_writer(std::size_t environments,
                                                   const WriterOptions& options,
                                                   AutoReset autoreset) = 0;
  [[nodiscard]] virtual AnySampler sampler(const SamplerOptions& options, std::size_t selector) = 0;
  virtual UpdateResult update_priorities(std::span<const ItemKey> keys,
                                         std::span<const float> priorities,
                                         std::size_t selector) = 0;
  [[nodiscard]] virtual Stats stats() = 0;
  /// Whether no step is taken any more.
  [[nodiscard]] virtual bool takes_nothing() = 0;

  /// Batches outlive it.
  const std::shared_ptr<const FieldTable> shared_table;
  const FieldTable& table = *shared_table;
  /// A restored buffer has the same one.
  const Window window;

  unsigned restored = 0;  ///< How often `restore` has replaced the buffer.

  /// Marks a call as under way, which `restore` does not run beside: it replaces the buffer. The
  /// GIL guards the marks, as those of InUse.
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

  /// The mark of `restore`, whose own call is the only one: RuntimeError while any other is under
  /// way.
  [[nodiscard]] InUse restoring();

  /// RuntimeError in a forked child, before anything is written: rows are not mapped there.
  void check_process() {
    if (forks() != forks_at_start_) {
      // Throws there, with a message that names the processes.
      static_cast<void>(stats());
    }
  }
  /// Closed once no step is taken any more.
  void check_open(const char* call);

 private:
  /// Forks of which this process is the child. Written by the child's only thread.
  static const unsigned& forks() noexcept;
  [[noreturn]] static void refuse_beside_restore(const char* call);

  const unsigned forks_at_start_ = forks();
  unsigned calls_ = 0;
  bool restoring_ = false;
};

/// The marks of one call of a writer, sampler or prefetcher.
struct Entered {
  Entered(bool& mark, const char* what, Origin& origin, const char* call)
      : in_use(mark, what), under_way(origin, call) {}
  InUse in_use;
  Origin::Call under_way;
};

using PriorityUpdate =
    std::function<UpdateResult(std::span<const ItemKey>, std::span<const float>)>;
/// What `update` gives for keys and priorities, as Python's tuple. It runs without the GIL, with
/// copies of them.
[[nodiscard]] nb::object updated(const Keys& keys, const Priorities& priorities,
                                 const PriorityUpdate& update);

}  // namespace reprise::python
