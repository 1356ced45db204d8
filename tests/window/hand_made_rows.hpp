#pragma once

#include <reprise/detail/batch_view.hpp>
#include <reprise/schema.hpp>
#include <reprise/window.hpp>

#include "../support/rng.hpp"
#include "storage/row_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace reprise::window {

/// One item of hand-made rows.
struct RowItem {
  const std::byte* row;
  std::uint64_t episode;
  std::uint64_t position;
  std::uint32_t length;
  bool terminated;
};

/// Rows of random episodes, one behind the other, written without the writer's code. What a row
/// holds follows from field, episode and position alone, so a test can compute it again.
class HandMadeRows {
 public:
  static constexpr std::size_t kReward0 = 3;
  static constexpr std::size_t kReward1 = 6;

  HandMadeRows(test::Rng& rng, const Transitions& window, bool with_discount)
      : schema_(make_schema(with_discount)),
        layout_(schema_),
        discount_(with_discount ? std::optional<std::size_t>(7) : std::nullopt) {
    std::vector<std::uint64_t> steps(rng.between(1, 6));
    std::generate(steps.begin(), steps.end(), [&] { return rng.between(1, 12); });
    std::size_t row_count = 0;
    for (const std::uint64_t count : steps) {
      row_count += count + 1;
    }
    memory_.resize(row_count * layout_.stride());
    std::byte* row = memory_.data();
    for (std::uint64_t episode = 0; episode < steps.size(); ++episode) {
      const bool terminated = rng.chance(0.5);
      for (std::uint64_t t = 0; t <= steps[episode]; ++t, row += layout_.stride()) {
        fill(row, episode, t, t == steps[episode]);
        if (t < steps[episode]) {
          const std::uint64_t left = steps[episode] - t;
          const auto length =
              static_cast<std::uint32_t>(std::min<std::uint64_t>(window.n_step, left));
          add_item(row, {row, episode, t, length, terminated && left == length});
        }
      }
    }
  }

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] const storage::RowLayout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<RowItem>& items() const { return items_; }
  [[nodiscard]] bool has_discount() const { return discount_.has_value(); }

  [[nodiscard]] float reward(std::size_t which, std::uint64_t episode, std::uint64_t t) const {
    return number(which == 0 ? kReward0 : kReward1, episode, t);
  }
  [[nodiscard]] float discount(std::uint64_t episode, std::uint64_t t) const {
    return number(*discount_, episode, t);
  }
  /// Byte b of a field.
  [[nodiscard]] std::byte content(std::size_t field, std::uint64_t episode, std::uint64_t t,
                                  std::size_t b) const {
    if (schema_.fields()[field].dtype == DType::F32) {
      const float value = number(field, episode, t);
      std::byte bytes[sizeof(value)];
      std::memcpy(bytes, &value, sizeof(value));
      return bytes[b % sizeof(value)];
    }
    return static_cast<std::byte>(hash(field, episode, t) >> (b % 8 * 8) ^ b);
  }

 private:
  static Schema make_schema(bool with_discount) {
    Schema schema;
    schema.observation<std::uint8_t>("pixels", {3, 7});
    schema.column<std::int16_t>("action");
    schema.observation<double>("clock");
    schema.reward("reward");
    schema.observation<std::uint32_t>("large", {40});
    schema.column<std::int64_t>("pair", {2});
    schema.reward("second reward");
    if (with_discount) {
      schema.discount("discount");
    }
    return schema;
  }
  static std::uint64_t hash(std::size_t field, std::uint64_t episode, std::uint64_t t) {
    return test::Rng(field * 1'000'003 + episode * 1009 + t).next();
  }
  /// In [0, 1].
  static float number(std::size_t field, std::uint64_t episode, std::uint64_t t) {
    return static_cast<float>(hash(field, episode, t) >> 44U) * 0x1p-20F;
  }
  /// Nothing reads a final row's columns: they hold NaN, or bytes that no other row has.
  void fill(std::byte* row, std::uint64_t episode, std::uint64_t t, bool final) const {
    for (std::size_t field = 0; field < schema_.fields().size(); ++field) {
      std::byte* const to = row + layout_.fields()[field].offset;
      if (final && schema_.fields()[field].role != Role::Observation) {
        std::fill_n(to, schema_.fields()[field].bytes, std::byte{0xff});
        continue;
      }
      for (std::size_t b = 0; b < schema_.fields()[field].bytes; ++b) {
        to[b] = content(field, episode, t, b);
      }
    }
  }
  void add_item(std::byte* row, const RowItem& item) {
    const auto header =
        storage::ItemHeader::make(item.episode, item.position, item.length, item.terminated);
    std::memcpy(row, &header, sizeof(header));
    items_.push_back(item);
  }

  const Schema schema_;
  const storage::RowLayout layout_;
  const std::optional<std::size_t> discount_;  ///< Its field.
  std::vector<std::byte> memory_;
  std::vector<RowItem> items_;
};

/// The columns of a batch in memory that starts as a pattern, so that stray writes show.
class GatheredBatch {
 public:
  GatheredBatch(const Schema& schema, std::size_t frame_stack, std::size_t places)
      : columns_(schema.fields().size()), widths_(schema.fields().size()) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const FieldSpec& spec = schema.fields()[i];
      const bool observation = spec.role == Role::Observation;
      widths_[i] = spec.bytes * (observation ? frame_stack : 1);
      columns_[i].data[detail::BatchView::kNow] = take(widths_[i], places);
      columns_[i].data[detail::BatchView::kNext] = observation ? take(widths_[i], places) : nullptr;
      columns_[i].data[detail::BatchView::kReturns] =
          spec.role == Role::Reward ? take(sizeof(float), places) : nullptr;
    }
    view.columns = columns_.data();
    view.column_count = columns_.size();
    view.discounts = reinterpret_cast<float*>(take(sizeof(float), places));
    view.episodes = reinterpret_cast<std::uint64_t*>(take(sizeof(std::uint64_t), places));
    view.positions = reinterpret_cast<std::uint64_t*>(take(sizeof(std::uint64_t), places));
    view.lengths = reinterpret_cast<std::uint32_t*>(take(sizeof(std::uint32_t), places));
  }

  [[nodiscard]] const std::byte* at(int which, std::size_t field, std::size_t place) const {
    return columns_[field].data[which] + place * widths_[field];
  }
  [[nodiscard]] float returns(std::size_t field, std::size_t place) const {
    float value = 0.0F;
    std::memcpy(&value, columns_[field].data[detail::BatchView::kReturns] + place * sizeof(value),
                sizeof(value));
    return value;
  }
  [[nodiscard]] bool untouched(std::size_t first, std::size_t count) const {
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(block.memory.data());
      return std::all_of(bytes + first * block.width, bytes + (first + count) * block.width,
                         [](std::byte b) { return b == kPattern; });
    });
  }

  detail::BatchView view;

 private:
  static constexpr std::byte kPattern{0xa5};
  struct Block {
    std::size_t width;
    std::vector<std::uint64_t> memory;  ///< Aligned for every column.
  };
  std::byte* take(std::size_t width, std::size_t places) {
    Block& block = blocks_.emplace_back(
        width, std::vector<std::uint64_t>(width * places / 8 + 1, 0xa5a5a5a5a5a5a5a5U));
    return reinterpret_cast<std::byte*>(block.memory.data());
  }

  std::vector<detail::BatchView::Column> columns_;
  std::vector<std::size_t> widths_;
  std::vector<Block> blocks_;
};

}  // namespace reprise::window
