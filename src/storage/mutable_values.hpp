#pragma once

#include "base/sync.hpp"
#include "storage/step_version.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

// Values of mutable columns in rows that other threads may read and write. Each value begins on a
// word and shares its words with nothing else, because `RowLayout` places it so.

namespace reprise::storage {

using Version = StepVersion<base::StdSync>;
using Word = std::uint64_t;

/// Copies a value out of its row; for `Version::try_read`.
inline void get_value(const std::byte* value, std::byte* to, std::size_t bytes) noexcept {
  // The cast is safe, because nothing is stored through the reference.
  auto* const words = reinterpret_cast<Word*>(const_cast<std::byte*>(value));
  const auto copy = [=](std::size_t i, std::size_t size) {
    const Word word = Version::get(base::StdSync::Ref<Word>(words[i]));
    std::memcpy(to + i * sizeof(Word), &word, size);
  };
  const std::size_t whole = bytes / sizeof(Word);
  for (std::size_t i = 0; i < whole; ++i) {
    copy(i, sizeof(Word));  // The size is a constant, so that memcpy is inlined.
  }
  if (const std::size_t rest = bytes % sizeof(Word); rest != 0) {
    copy(whole, rest);
  }
}

/// Copies a value into its row; for `Version::try_write`.
inline void put_value(std::byte* value, const std::byte* from, std::size_t bytes) noexcept {
  auto* const words = reinterpret_cast<Word*>(value);
  const auto copy = [=](std::size_t i, std::size_t size) {
    Word word = 0;
    std::memcpy(&word, from + i * sizeof(Word), size);
    Version::put(base::StdSync::Ref<Word>(words[i]), word);
  };
  const std::size_t whole = bytes / sizeof(Word);
  for (std::size_t i = 0; i < whole; ++i) {
    copy(i, sizeof(Word));
  }
  if (const std::size_t rest = bytes % sizeof(Word); rest != 0) {
    copy(whole, rest);
  }
}

/// Calls `load` until the values that it loads are all of one write. Waits only while another
/// thread writes this step.
template <class Load>
void read_consistent(const Version& version, const Load& load) noexcept {
  while (!version.try_read(load)) {
    std::this_thread::yield();
  }
}

/// Calls `store` once no other thread writes this step.
template <class Store>
void write_consistent(Version& version, const Store& store) noexcept {
  while (!version.try_write(store)) {
    std::this_thread::yield();
  }
}

}  // namespace reprise::storage
