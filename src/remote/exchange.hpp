#pragma once

#include <reprise/item.hpp>
#include <reprise/sampler.hpp>

#include "buffer/selectors.hpp"
#include "remote/blob.hpp"
#include "window/batch_store.hpp"
#include "window/gather.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

// What both ends of a draw agree on: the laws of selectors, and the layout of requests and answers.

namespace reprise::remote {

/// Throws std::invalid_argument unless all selectors draw items by weight, because only such draws
/// can be made in several shards one by one.
void check_laws(const char* call, const buffer::Selectors& selectors);

/// The first part of a request. Behind it follow the numbers of earlier requests whose answers the
/// client waits for, then the keys and priorities of its updates, then the draws.
struct RequestHead {
  std::uint64_t timeout_ns = 0;
  std::uint64_t updates = 0;
  std::uint32_t selector = 0;
  std::uint32_t draws = 0;
  std::uint64_t incarnation = 0;  ///< The incarnation of the shard that may answer; 0: any.
  std::uint64_t waits = 0;        ///< How many answers the client waits for.
};
static_assert(sizeof(RequestHead) == 40);

/// A draw of this shard's part of a batch. A draw of 0 items only asks whether the shard has
/// something to draw.
struct DrawRequest {
  std::uint64_t items = 0;
  std::uint32_t draws = 0;          ///< A value of `Draws`.
  std::uint32_t unique_frames = 0;  ///< 1: the batch has each frame once; 0: whole stacks.
  window::Targets targets;          ///< With an `n_step` of 0 if the window has no returns.
};
static_assert(sizeof(DrawRequest) == 24);

/// The first part of an answer. Behind it follow a status for each draw and then, aligned to cache
/// lines, a batch for each draw of 1 item or more, which is filled if the draw's status is `Ok`.
struct AnswerHead {
  double total = 0.0;
  double min_positive = 0.0;
  std::uint64_t items = 0;
  std::uint64_t inserts = 0;
  std::uint64_t samples = 0;
  std::uint64_t applied_updates = 0;
  std::uint64_t stale_updates = 0;
  std::uint32_t key_tag = 0;
  std::uint32_t draws = 0;
};
static_assert(sizeof(AnswerHead) == 64);

using DrawStatus = std::uint64_t;  ///< A value of `SampleStatus::Code`.

/// The layout of the two kinds of batches, with whole stacks and with unique frames, as batches
/// without memory.
class BatchKinds {
 public:
  BatchKinds(const Schema& schema, const window::WindowSpec& window)
      : whole_(schema, window, nullptr), unique_(schema, window, nullptr, !window.continues()) {}

  [[nodiscard]] static bool has(const DrawRequest& draw) noexcept {
    return draw.unique_frames <= 1;
  }
  [[nodiscard]] const window::BatchStore& of(const DrawRequest& draw) const noexcept {
    return draw.unique_frames == 0 ? whole_ : unique_;
  }

 private:
  window::BatchStore whole_;
  window::BatchStore unique_;
};

/// Where the batches are in an answer.
class AnswerLayout {
 public:
  AnswerLayout(const BatchKinds& kinds, std::span<const DrawRequest> draws);

  /// The offset in the answer at which the memory of a draw begins.
  [[nodiscard]] std::size_t place(std::size_t draw) const noexcept { return places_[draw]; }
  /// The size of the whole answer.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::size_t> places_;
  std::size_t bytes_ = 0;
};

}  // namespace reprise::remote
