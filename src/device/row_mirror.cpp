#include <reprise/device_ring.hpp>
#include <reprise/mixed_sampler.hpp>
#include <reprise/sampler.hpp>

#include "api/access.hpp"
#include "base/divider.hpp"
#include "base/text.hpp"
#include "sampler/sampler_core.hpp"
#include "window/row_taker.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <unordered_set>
#include <utility>

namespace reprise {

namespace {

constexpr std::size_t round_up_to_words(std::size_t bytes) {
  return (bytes + 7) / 8 * 8;
}

}  // namespace

/// Takes rows of drawn items that the copy lacks. Of a chunk in use it may read only what the
/// windows of decided (complete) items contain (I1). A drawn item is decided, and so are all items
/// before it in its chunk: the rows of these items are read whole. Of the rows after the item, up
/// to the end of its window, the fields are read, and of the last row the observations. Mutable
/// columns, which follow all else in a row, change at any time, so the gather reads them; the copy
/// has the frames of compressed fields in their place.
class RowMirror::State final : public window::RowSink {
 public:
  explicit State(sampler::SamplerCore& sampler)
      : sampler_(sampler),
        core_(sampler.buffer()),
        ahead_(core_.window().ahead()),
        chunks_(core_.store().chunks()),
        room_(std::min(chunks_.size(), usual_chunks(core_))) {
    const storage::RowLayout& layout = core_.chunk_layout();
    layout_.row_bytes = round_up_to_words(layout.mutable_begin());
    for (std::size_t i = 0; i < core_.schema().fields().size(); ++i) {
      const RoleTraits& role = core_.schema().fields()[i].traits();
      layout_.offsets.push_back(role.per_item || role.changes ? Layout::kInBatches
                                                              : layout.fields()[i].offset);
    }
    for (const storage::CompressedField& field : layout.compressed()) {
      layout_.offsets[field.field] = layout_.row_bytes;
      layout_.row_bytes += round_up_to_words(field.bytes);
    }
    core_.window().refuse_streams("other ends, whose steps are in consecutive rows",
                                  base::Call{"RowMirror"});
    base::require(!sampler_.has_row_sink(), base::Call{"RowMirror"},
                  "the sampler has a mirror; allowed: one, which takes the rows of its draws");
    sampler_.set_row_sink(this);
  }
  ~State() override { sampler_.set_row_sink(nullptr); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void take(std::span<const storage::Place> places, std::span<const ItemKey> keys,
            const detail::BatchView& batch, std::size_t offset) noexcept override {
    for (std::size_t i = 0; core_.gather().has_values_beside_rows() && i < places.size(); ++i) {
      core_.gather().copy_values_beside_rows(core_.store().row(places[i].chunk, places[i].row),
                                             batch, offset + i);
    }
    ++draws_;
    try {
      first_rows_.resize(places.size());
      for (std::size_t i = 0; i < places.size(); ++i) {
        request_rows(places[i], keys[i].generation());
        first_rows_[i] = row_of(places[i].chunk, places[i].row);
      }
      for (const std::uint32_t chunk : touched_) {
        copy(chunk);
      }
    } catch (...) {
      failure_ = std::current_exception();
      for (Copied& copied : chunks_) {
        copied = {.place = copied.place};
      }
      rows_.clear();
      bytes_.clear();
    }
    touched_.clear();
  }

  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::span<const std::int64_t> first_rows() const noexcept { return first_rows_; }
  [[nodiscard]] std::size_t rows() const noexcept { return room_ * core_.store().chunk_rows(); }

  [[nodiscard]] NewRows new_rows() {
    if (failure_) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    if (draws_ > 1) {
      keep_last();
    }
    draws_ = 0;
    given_.swap(rows_);
    given_bytes_.swap(bytes_);
    rows_.clear();
    bytes_.clear();
    return {given_, given_bytes_};
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  /// What the copy has of a chunk.
  struct Copied {
    /// The generations of the keys of its rows: two while the chunk has rows of a checkpoint. The
    /// generations change when the chunk is used again.
    std::array<std::uint32_t, 2> generations{kNone, kNone};
    std::uint32_t whole = 0;         ///< How many rows, from the first on, the copy has whole.
    std::uint32_t end = 0;           ///< The last row of which the copy has the observations.
    std::uint32_t wanted_whole = 0;  ///< What the draw at hand needs as `whole`; 0: nothing.
    std::uint32_t wanted_end = 0;    ///< What the draw at hand needs as `end`.
    std::uint32_t place = kNone;     ///< Where its rows are in the copy, in chunks.
  };

  /// How many chunks the capacity takes while episodes are much longer than windows, open ones
  /// included. The store has room for many more, which are seldom used.
  static std::size_t usual_chunks(const buffer::BufferCore& core) {
    const Options& options = core.options();
    const std::size_t items = options.chunk_steps - core.window().context_rows();
    return base::divide_up(options.capacity_steps, items) + options.shards + options.max_writers;
  }
  [[nodiscard]] std::int64_t row_of(std::uint32_t chunk, std::uint32_t row) const noexcept {
    return static_cast<std::int64_t>(chunks_[chunk].place) * core_.store().chunk_rows() + row;
  }

  /// Notes which rows of an item's window the copy lacks.
  void request_rows(const storage::Place& place, std::uint32_t generation) {
    Copied& copied = chunks_[place.chunk];
    if (copied.generations[0] != generation && copied.generations[1] != generation) {
      copied = {.generations = {generation, copied.generations[0]},
                .wanted_whole = copied.wanted_whole,
                .wanted_end = copied.wanted_end,
                .place = copied.place};
    }
    if (copied.place == kNone) {
      copied.place = used_++;
      // The room grows by an eighth at a time, so that the copy seldom has to move.
      room_ = used_ <= room_ ? room_ : std::min<std::size_t>(chunks_.size(), used_ + used_ / 8);
    }
    if (place.row + ahead_ < copied.whole) {
      return;  // However long the window is, the copy has it.
    }
    storage::ItemHeader header;
    std::memcpy(&header, core_.store().row(place.chunk, place.row), sizeof(header));
    const std::uint32_t end = place.row + header.length();
    if (place.row < copied.whole && end <= copied.end) {
      return;
    }
    if (copied.wanted_whole == 0) {
      touched_.push_back(place.chunk);
    }
    copied.wanted_whole = std::max(copied.wanted_whole, place.row + 1);
    copied.wanted_end = std::max(copied.wanted_end, end);
  }

  void copy(std::uint32_t chunk) {
    Copied& copied = chunks_[chunk];
    const std::uint32_t whole = std::max(copied.whole, std::exchange(copied.wanted_whole, 0));
    const std::uint32_t end = std::max(copied.end, std::exchange(copied.wanted_end, 0));
    const storage::RowLayout& layout = core_.chunk_layout();
    const std::uint32_t first = copied.whole;
    std::size_t at = bytes_.size();
    bytes_.resize(at + (end + 1 - first) * layout_.row_bytes);
    for (std::uint32_t row = first; row <= end; ++row, at += layout_.row_bytes) {
      const std::byte* const own = core_.store().row(chunk, row);
      const std::size_t from = row < whole ? 0 : layout.headers_end();
      const std::size_t to =
          row < whole || row < end ? layout.mutable_begin() : layout.observations_end();
      std::memcpy(bytes_.data() + at + from, own + from, to - from);
      for (const storage::CompressedField& field : layout.compressed()) {
        core_.gather().copy_observation(field.field, own,
                                        bytes_.data() + at + layout_.offsets[field.field]);
      }
      rows_.push_back(row_of(chunk, row));
    }
    copied.whole = whole;
    copied.end = end;
  }

  /// If several draws have taken the same row, keeps what the last of them found.
  void keep_last() {
    std::unordered_set<std::int64_t> later;
    std::vector<std::size_t> kept;
    for (std::size_t i = rows_.size(); i-- > 0;) {
      if (later.insert(rows_[i]).second) {
        kept.push_back(i);
      }
    }
    std::ranges::reverse(kept);
    for (std::size_t to = 0; to < kept.size(); ++to) {
      rows_[to] = rows_[kept[to]];
      std::memmove(bytes_.data() + to * layout_.row_bytes,
                   bytes_.data() + kept[to] * layout_.row_bytes, layout_.row_bytes);
    }
    rows_.resize(kept.size());
    bytes_.resize(kept.size() * layout_.row_bytes);
  }

  sampler::SamplerCore& sampler_;
  buffer::BufferCore& core_;
  const std::uint32_t ahead_;
  Layout layout_;
  std::vector<Copied> chunks_;
  std::size_t room_;                    ///< Chunks for which the copy has room.
  std::uint32_t used_ = 0;              ///< Chunks that have a place in the copy.
  std::vector<std::uint32_t> touched_;  ///< Chunks of which rows are wanted.
  std::exception_ptr failure_;
  std::size_t draws_ = 0;                 ///< Draws since `new_rows` was called.
  std::vector<std::int64_t> first_rows_;  ///< Where the items of the last draw begin.
  std::vector<std::int64_t> rows_;
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> given_;  ///< What `new_rows` returned last.
  std::vector<std::byte> given_bytes_;
};

RowMirror::RowMirror(Sampler& sampler)
    : state_(std::make_unique<State>(detail::Access::core(sampler))) {}
RowMirror::RowMirror(MixedSampler& mixed, std::size_t part)
    : state_(std::make_unique<State>(detail::Access::core(mixed, part))) {}
RowMirror::~RowMirror() = default;

const RowMirror::Layout& RowMirror::layout() const noexcept {
  return state_->layout();
}
std::span<const std::int64_t> RowMirror::first_rows() const noexcept {
  return state_->first_rows();
}
std::size_t RowMirror::rows() const noexcept {
  return state_->rows();
}
RowMirror::NewRows RowMirror::new_rows() {
  return state_->new_rows();
}

}  // namespace reprise
