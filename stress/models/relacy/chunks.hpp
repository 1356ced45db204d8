#pragma once

#include "relacy_sync.hpp"

#include <array>
#include <cstdint>

namespace reprise::model {

using Bell = storage::Bell<RelacySync>;
using DoorbellList = storage::DoorbellList<RelacySync>;
using Backlog = storage::Backlog<RelacySync>;
using FreeList = storage::FreeList<RelacySync>;
using FreshChunks = storage::FreshChunks<RelacySync>;
using PinWord = storage::PinWord<RelacySync>;
using storage::kClosed;
using storage::kNil;
using storage::kRung;

inline constexpr base::Order kRelaxed = base::Order::Relaxed;

/// Models storage::Chunk, with its rows.
template <unsigned Rows>
struct Chunk {
  Bell bell;
  Plain<std::uint32_t> cursor{0};
  PinWord pins;
  FreeList::Link link{kNil};
  std::array<Plain<int>, Rows> rows;
};

/// Some chunks, with the functions by which lists reach the chunks' bells and links.
template <unsigned Count, unsigned Rows>
struct Chunks {
  std::array<Chunk<Rows>, Count> chunks;

  Chunk<Rows>& operator[](std::uint32_t chunk) { return chunks[chunk]; }
  auto bells() {
    return [this](std::uint32_t chunk) -> Bell& { return chunks[chunk].bell; };
  }
  auto links() {
    return [this](std::uint32_t chunk) -> FreeList::Link& { return chunks[chunk].link; };
  }
};

}  // namespace reprise::model
