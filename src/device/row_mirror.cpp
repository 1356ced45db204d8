#include <reprise/device_ring.hpp>
#include <reprise/sampler.hpp>

#include "api/access.hpp"
#include "base/text.hpp"
#include "sampler/sampler_core.hpp"
#include "window/row_taker.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

namespace reprise {

/// Takes rows of drawn items that the copy lacks. What may be read of a chunk in use is what the
/// windows of its decided items have (I1): a drawn item is decided, and so are all before it in its
/// chunk, whose rows are whole; of the rows behind it up to the end of its window the fields, and
/// of the last one the observations.
class RowMirror::State final : public window::RowTaker {
 public:
  explicit State(sampler::SamplerCore& sampler)
      : sampler_(sampler),
        core_(sampler.buffer()),
        ahead_(core_.window().ahead()),
        chunks_(core_.store().chunks()) {
    const storage::RowLayout& layout = core_.chunk_layout();
    const auto refuse = [&](std::size_t field, const char* what) {
      base::refuse(base::Call{"RowMirror"}, "field '", core_.schema().fields()[field].name, "' ",
                   what);
    };
    layout_.rows = core_.store().chunks() * core_.store().chunk_rows();
    layout_.row_bytes = core_.store().row_stride();
    for (std::size_t i = 0; i < core_.schema().fields().size(); ++i) {
      const RoleTraits& role = core_.schema().fields()[i].traits();
      if (core_.schema().compresses(i)) {
        refuse(i, "is compressed; allowed: fields as they are, which a device can read");
      }
      if (role.per_item || role.changes) {
        refuse(i,
               "is a recurrent state or a mutable column; allowed: fields of steps that do not "
               "change, as a row crosses once");
      }
      layout_.offsets.push_back(layout.fields()[i].offset);
    }
    sampler_.set_taker(this);
  }
  ~State() override { sampler_.set_taker(nullptr); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void take(std::span<const storage::Place> places,
            std::span<const ItemKey> keys) noexcept override {
    try {
      for (std::size_t i = 0; i < places.size(); ++i) {
        look(places[i], keys[i].generation());
      }
      for (const std::uint32_t chunk : touched_) {
        copy(chunk);
      }
    } catch (...) {
      failure_ = std::current_exception();
      std::ranges::fill(chunks_, Copied());
      rows_.clear();
      bytes_.clear();
    }
    touched_.clear();
  }

  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }

  [[nodiscard]] NewRows new_rows() {
    if (failure_) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    given_.swap(rows_);
    given_bytes_.swap(bytes_);
    rows_.clear();
    bytes_.clear();
    return {given_, given_bytes_};
  }

 private:
  /// What the copy has of a chunk.
  struct Copied {
    /// Of the keys of its rows; two while the chunk has rows of a checkpoint. A chunk that is used
    /// again has others.
    std::array<std::uint32_t, 2> generations{kNone, kNone};
    std::uint32_t whole = 0;  ///< Rows from the first on that are there as a whole.
    std::uint32_t end = 0;    ///< The row of the last observation that is there.
    std::uint32_t wanted_whole = 0;
    std::uint32_t wanted_end = 0;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  void look(const storage::Place& place, std::uint32_t generation) {
    Copied& copied = chunks_[place.chunk];
    if (copied.generations[0] != generation && copied.generations[1] != generation) {
      copied = {.generations = {generation, copied.generations[0]},
                .wanted_whole = copied.wanted_whole,
                .wanted_end = copied.wanted_end};
    }
    if (place.row + ahead_ < copied.whole) {
      return;
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
    const std::size_t stride = layout_.row_bytes;
    const std::uint32_t first = copied.whole;
    const std::size_t at = bytes_.size();
    bytes_.resize(at + (end + 1 - first) * stride);
    for (std::uint32_t row = first; row <= end; ++row) {
      const std::size_t from = row < whole ? 0 : layout.headers_end();
      const std::size_t to = row < whole || row < end ? stride : layout.observations_end();
      std::memcpy(bytes_.data() + at + (row - first) * stride + from,
                  core_.store().row(chunk, row) + from, to - from);
      rows_.push_back(static_cast<std::int64_t>(chunk) * core_.store().chunk_rows() + row);
    }
    copied.whole = whole;
    copied.end = end;
  }

  sampler::SamplerCore& sampler_;
  buffer::BufferCore& core_;
  const std::uint32_t ahead_;
  Layout layout_;
  std::vector<Copied> chunks_;
  std::vector<std::uint32_t> touched_;  ///< Chunks of which rows are wanted.
  std::exception_ptr failure_;
  std::vector<std::int64_t> rows_;
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> given_;  ///< What `new_rows` gave last.
  std::vector<std::byte> given_bytes_;
};

RowMirror::RowMirror(Sampler& sampler)
    : state_(std::make_unique<State>(detail::Access::core(sampler))) {}
RowMirror::~RowMirror() = default;

const RowMirror::Layout& RowMirror::layout() const noexcept {
  return state_->layout();
}
RowMirror::NewRows RowMirror::new_rows() {
  return state_->new_rows();
}

}  // namespace reprise
