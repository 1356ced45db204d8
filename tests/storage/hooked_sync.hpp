#pragma once

#include "base/sync.hpp"
#include "testing/test.hpp"

namespace reprise::storage {

/// A synchronisation policy for tests in one thread. Just before the next access of a chosen kind,
/// it runs what another thread might do at that moment.
struct HookedSync {
  enum class Access : std::uint8_t { Load, Exchange, CompareExchange };

  /// Runs `rival` once, just before the next access of this kind. Accesses that `rival` makes run
  /// nothing.
  static void before_next(Access access, std::function<void()> rival) {
    hooks_[static_cast<std::size_t>(access)] = std::move(rival);
  }
  /// Whether the access that `before_next` waits for has not happened yet.
  static bool pending(Access access) {
    return static_cast<bool>(hooks_[static_cast<std::size_t>(access)]);
  }

  template <class T>
  class Atomic {
   public:
    Atomic() noexcept = default;
    explicit Atomic(T value) noexcept : value_(value) {}

    [[nodiscard]] T load(base::Order) const {
      run(Access::Load);
      return value_;
    }
    void store(T value, base::Order) noexcept { value_ = value; }
    T exchange(T value, base::Order) {
      run(Access::Exchange);
      return std::exchange(value_, value);
    }
    bool compare_exchange(T& expected, T desired, base::Order, base::Order) {
      run(Access::CompareExchange);
      if (value_ != expected) {
        expected = value_;
        return false;
      }
      value_ = desired;
      return true;
    }

   private:
    T value_{};
  };

 private:
  static void run(Access access) {
    if (auto rival = std::exchange(hooks_[static_cast<std::size_t>(access)], nullptr)) {
      rival();
    }
  }
  static inline std::array<std::function<void()>, 3> hooks_;
};

}  // namespace reprise::storage
