#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise {

/// Options of `sequence_priorities`.
struct SequencePriorityOptions {
  float eta = 0.9F;         ///< Share of the largest error, 0 to 1; the rest is of the mean.
  std::size_t burn_in = 0;  ///< First steps of each item that do not count: the window's burn_in.
};

/// Computes priorities of sequences for `SelectorHandle::update`, [B], from TD errors, [B,
/// T] row-major. Item i gets eta * max + (1 - eta) * mean of the absolute errors of its steps
/// burn_in to lengths[i] - 1 (Kapturowski et al., "Recurrent Experience Replay in Distributed RL",
/// R2D2, 2019, section 2.3), or 0 if it has no such steps. Other errors, such as padding, are not
/// read. `lengths` are those of a batch; B is their count and T the count of errors over B.
///
/// A NaN or infinite error makes the priority NaN or infinite, and `update_priorities` refuses it
/// by its index.
///
/// Errors, found before anything is written: `std::invalid_argument` for eta outside 0 to 1, errors
/// that are no multiple of the lengths, a length above T, burn_in above T, or counts of lengths and
/// priorities that differ. Any thread. Cost: O(B T).
void sequence_priorities(std::span<const float> td_errors, std::span<const std::uint32_t> lengths,
                         std::span<float> priorities, const SequencePriorityOptions& options = {});

}  // namespace reprise
