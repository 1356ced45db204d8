#pragma once

#include "measure.hpp"
#include "textbook.hpp"

namespace bench {

/// A full buffer of the textbook with rows of type Row, the rows that appends use in turn, and the
/// last batch. Row::done, if Row has it, is 1 at the end of each episode.
template <class Row>
class TextbookRows {
 public:
  static constexpr std::size_t kEpisode = 1024;

  TextbookRows(std::size_t capacity, std::vector<Row> sources)
      : capacity_(capacity),
        sources_(std::move(sources)),
        buffer_(sizeof(Row), capacity),
        batch_(kBatch) {
    Random random(8);
    for (std::size_t i = 0; i < capacity; ++i) {
      buffer_.add(next_source(), static_cast<float>(random.uniform()));
    }
  }

  void append(std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      buffer_.add(next_source());
    }
  }
  void sample() {
    buffer_.sample(kBatch, static_cast<double>(kBeta), std::as_writable_bytes(std::span(batch_)),
                   weights_, drawn_);
    benchmark::DoNotOptimize(batch_.data());
  }
  void update() { buffer_.update(drawn_, priorities_.next()); }
  /// Returns the bytes of all rows, and of two nodes per row in each of the two trees.
  [[nodiscard]] double memory_bytes() const {
    return static_cast<double>(capacity_ * (sizeof(Row) + 4 * sizeof(double)));
  }
  [[nodiscard]] static double field_bytes() { return sizeof(Row); }

 protected:
  textbook::Buffer& buffer() { return buffer_; }

 private:
  std::span<const std::byte> next_source() {
    Row& row = sources_[at_];
    at_ = (at_ + 1) % sources_.size();
    if constexpr (requires { row.done; }) {
      row.done = ++steps_ % kEpisode == 0 ? 1.0F : 0.0F;
    }
    return std::as_bytes(std::span(&row, 1));
  }

  const std::size_t capacity_;
  std::vector<Row> sources_;
  std::size_t at_ = 0;
  std::size_t steps_ = 0;
  textbook::Buffer buffer_;
  Priorities priorities_;
  std::vector<Row> batch_;
  std::array<std::uint32_t, kBatch> drawn_{};
  std::array<float, kBatch> weights_{};
};

}  // namespace bench
