#include "window/batch_store.hpp"

#include <reprise/batch.hpp>

#include "base/cache_line.hpp"

#include <unistd.h>

#include <memory>
#include <new>
#include <stdexcept>

namespace reprise::window {
namespace {

std::size_t machine_bytes() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                               : PTRDIFF_MAX;
}

}  // namespace

BatchStore::BatchStore(const Schema& schema, const window::WindowSpec& window,
                       std::pmr::memory_resource* memory)
    : schema_(schema),
      window_(window),
      memory_(memory != nullptr ? memory : std::pmr::new_delete_resource()),
      columns_(schema.fields().size()) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    columns_[i].elements = spec.elements * window_.values(spec.traits());
    columns_[i].signature = detail::signature(spec.dtype, spec.role, !spec.shape.empty());
  }
  columns = columns_.data();
  column_count = columns_.size();
}

BatchStore::~BatchStore() {
  release();
}

void BatchStore::release() noexcept {
  if (block_ != nullptr) {
    memory_->deallocate(block_, block_bytes_, base::kCacheLine);
  }
}

std::size_t BatchStore::lay_out(std::byte* base, std::size_t n) noexcept {
  const bool has_returns = !window_.has_steps();
  std::size_t used = 0;
  const auto place = [&](std::size_t bytes) {
    std::byte* const at = base == nullptr ? nullptr : base + used;
    used += (n * bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
    return at;
  };
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    Column& column = columns_[i];
    const std::size_t bytes = spec.bytes * window_.values(spec.traits());
    column.data[kNow] = place(bytes);
    column.data[kNext] = spec.traits().has_next ? place(bytes) : nullptr;
    column.data[kReturns] =
        has_returns && spec.traits().has_returns ? place(sizeof(float)) : nullptr;
  }
  discounts = reinterpret_cast<float*>(place(sizeof(float)));
  weights = reinterpret_cast<float*>(place(sizeof(float)));
  probabilities = reinterpret_cast<double*>(place(sizeof(double)));
  keys = reinterpret_cast<ItemKey*>(place(sizeof(ItemKey)));
  episodes = reinterpret_cast<std::uint64_t*>(place(sizeof(std::uint64_t)));
  positions = reinterpret_cast<std::uint64_t*>(place(sizeof(std::uint64_t)));
  lengths = reinterpret_cast<std::uint32_t*>(place(sizeof(std::uint32_t)));
  return used;
}

void BatchStore::reserve(std::size_t n) {
  if (n != 0 && n <= capacity) {
    return;
  }
  std::size_t item_bytes = 64;  // At least the bookkeeping columns are needed.
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    item_bytes += spec.bytes * window_.values(spec.traits()) * (spec.traits().has_next ? 2 : 1);
  }
  const std::size_t most = machine_bytes() / item_bytes;
  if (n == 0 || n > most) {
    throw std::invalid_argument(
        "batch size is " + std::to_string(n) +
        "; allowed: 1 to memory / bytes per item = " + std::to_string(most));
  }
  const std::byte* const old = block_;
  const std::size_t bytes = lay_out(nullptr, n);
  std::byte* block = nullptr;
  try {
    block = static_cast<std::byte*>(memory_->allocate(bytes, base::kCacheLine));
  } catch (...) {
    static_cast<void>(lay_out(block_, old == nullptr ? 0 : capacity));
    throw;
  }
  release();
  block_ = block;
  block_bytes_ = bytes;
  capacity = n;
  size = 0;
  lay_out(block_, n);
}

}  // namespace reprise::window

namespace reprise {

std::span<const std::int64_t> Batch::keys_int64() const {
  static_assert(sizeof(ItemKey) == sizeof(std::int64_t));
  // The aliasing rules allow a signed view of the unsigned word inside the key.
  return {reinterpret_cast<const std::int64_t*>(&view_->keys[0].bits), size()};
}

}  // namespace reprise
