#pragma once

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"

#include <cstddef>
#include <limits>
#include <optional>

namespace reprise::writer {

/// Inserts that the rate limiter has let one writer make in advance, a block at a time. One thread
/// at a time.
class BookedInserts {
 public:
  explicit BookedInserts(buffer::BufferCore& core) noexcept
      : core_(core),
        left_(core.limiter().limits_inserts() ? 0 : std::numeric_limits<std::size_t>::max()) {}
  /// Lets other writers have what is left; afterwards nothing else may be called.
  void give_back() noexcept;

  [[nodiscard]] bool none() const noexcept { return left_ == 0; }
  void use_one() noexcept { --left_; }

  /// Nothing once there is an insert, else why there is none.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait(limiter::WaitTerms& terms) noexcept;

 private:
  [[nodiscard]] std::size_t look_for_items(bool& known) noexcept;
  bool book(bool& known) noexcept;

  buffer::BufferCore& core_;
  std::size_t left_;
};

}  // namespace reprise::writer
