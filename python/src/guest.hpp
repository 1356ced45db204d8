#pragma once

#include <reprise/guest.hpp>

#include "buffer.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

namespace reprise::python {

/// A buffer of another process.
class SharedGuest final : public AnyBuffer {
  /// Turns any exception of a call into Closed if the host is gone.
  template <class Call>
  auto call_host(const Call& call) const {
    try {
      return HostHook::run(call);
    } catch (const std::runtime_error&) {
      if (guest_.closed()) {
        throw Closed("the guest is closed, or its host is gone");
      }
      throw;
    }
  }

 public:
  explicit SharedGuest(Guest attached)
      : AnyBuffer(attached.schema(), attached.window()), guest_(std::move(attached)) {}

  [[nodiscard]] const Schema& schema() const override { return guest_.schema(); }
  [[nodiscard]] Writer writer(const WriterOptions& options) override {
    return call_host([&] { return guest_.writer(options); });
  }
  [[nodiscard]] VectorWriter vector_writer(std::size_t environments, const WriterOptions& options,
                                           AutoReset autoreset) override {
    return call_host([&] { return guest_.vector_writer(environments, options, autoreset); });
  }
  [[nodiscard]] AnySampler sampler(const SamplerOptions& options, std::size_t selector) override {
    return call_host([&] { return guest_.sampler(options, selector); });
  }
  UpdateResult update_priorities(std::span<const ItemKey> keys, std::span<const float> priorities,
                                 std::size_t selector) override {
    return guest_.update_priorities(keys, priorities, selector);
  }
  [[nodiscard]] Stats stats() override {
    return call_host([&] { return guest_.stats(); });
  }
  /// False after `close` of this guest: its writers still append, by connections of their own.
  [[nodiscard]] bool refuses_steps() override { return !closed_here_ && guest_.closed(); }

  [[nodiscard]] std::size_t max_writers() const { return guest_.max_writers(); }
  void close() {
    closed_here_ = true;
    guest_.close();
  }
  [[nodiscard]] bool closed() const { return guest_.closed(); }

 private:
  Guest guest_;
  bool closed_here_ = false;  ///< Guarded by the GIL.
};

/// reprise.Guest: shares its connection with the objects made of it.
struct GuestObject {
  explicit GuestObject(std::shared_ptr<SharedGuest> attached) : shared(std::move(attached)) {}

  [[nodiscard]] Origin::Call enter(const char* call) const { return {*shared, call}; }

  [[nodiscard]] static constexpr std::size_t selector_index() noexcept { return 0; }

  std::shared_ptr<SharedGuest> shared;
};

}  // namespace reprise::python
