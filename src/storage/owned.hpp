#pragma once

#include <utility>

namespace reprise::storage {

/// Plain memory that changes hands through the atomics around it, so that only its owner touches
/// it. A checker specialises it for its own policy and reports other accesses.
template <class Sync, class T>
class Owned {
 public:
  explicit Owned(T value) noexcept : value_(std::move(value)) {}

  [[nodiscard]] T get() const noexcept { return value_; }
  void set(T value) noexcept { value_ = std::move(value); }

 private:
  T value_;
};

}  // namespace reprise::storage
