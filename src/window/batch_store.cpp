#include "window/batch_store.hpp"

#include <reprise/batch.hpp>

#include "base/divider.hpp"
#include "base/sync.hpp"
#include "base/text.hpp"
#include "schema/field_check.hpp"
#include "window/batch_access.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

namespace reprise::window {
namespace {

/// The memory of this machine, or if that is unknown a number beyond any memory.
std::size_t machine_bytes() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                               : PTRDIFF_MAX;
}

}  // namespace

BatchStore::BatchStore(const Schema& schema, const window::WindowSpec& window,
                       std::pmr::memory_resource* memory, bool unique)
    : schema_(schema),
      window_(window),
      memory_(memory != nullptr ? memory : std::pmr::new_delete_resource()),
      columns_(schema.fields().size()) {
  if (unique) {
    window_.refuse_streams(
        "none, as an episode's final observation and the first one of the next are two frames",
        base::OptionsOf{"SamplerOptions"}, "unique_frames: ");
  }
  unique_frames = unique;
  targets = window_.target_count();
  steps = window_.steps();
  frames = window_.frames();
  stack = window_.behind() + 1;
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

/// Places every column in the block.
void BatchStore::lay_out(std::byte* block, std::size_t n) noexcept {
  capacity = n;
  size = 0;
  const bool has_returns = window_.n_step() != 0;
  std::byte* next = block;
  const auto place = [&](std::size_t bytes) {
    return std::exchange(next,
                         next + base::divide_up(n * bytes, base::kCacheLine) * base::kCacheLine);
  };
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    Column& column = columns_[i];
    const std::size_t bytes = spec.bytes * window_.values(spec.traits());
    const bool once = unique_frames && spec.traits().has_next;
    column.data[kFrames] = once ? place(spec.bytes * frames) : nullptr;
    column.data[kNow] = once ? nullptr : place(bytes);
    column.data[kNext] = !once && spec.traits().has_next ? place(bytes) : nullptr;
    column.data[kReturns] =
        has_returns && spec.traits().has_returns ? place(targets * sizeof(float)) : nullptr;
  }
  discounts = reinterpret_cast<float*>(place(targets * sizeof(float)));
  weights = reinterpret_cast<float*>(place(sizeof(float)));
  probabilities = reinterpret_cast<double*>(place(sizeof(double)));
  keys = reinterpret_cast<ItemKey*>(place(sizeof(ItemKey)));
  episodes = reinterpret_cast<std::uint64_t*>(place(sizeof(std::uint64_t)));
  positions = reinterpret_cast<std::uint64_t*>(place(sizeof(std::uint64_t)));
  lengths = reinterpret_cast<std::uint32_t*>(place(sizeof(std::uint32_t)));
  for (bool** const column : {&is_first, &terminated, &truncated}) {
    *column = window_.continues() ? reinterpret_cast<bool*>(place(steps)) : nullptr;
  }
}

std::size_t BatchStore::block_bytes(std::size_t n) const {
  // More than an item takes in the columns that hold neither fields nor one value per step.
  constexpr std::size_t kOtherBytes = 64;
  std::size_t item_bytes =
      kOtherBytes + targets * sizeof(float) + (window_.continues() ? std::size_t{3} * steps : 0);
  for (const FieldSpec& spec : schema_.fields()) {
    const std::size_t values = window_.values(spec.traits());
    const std::size_t observed = unique_frames ? frames : 2 * values;
    item_bytes += spec.bytes * (spec.traits().has_next ? observed : values) +
                  (spec.traits().has_returns ? targets * sizeof(float) : 0);
  }
  const std::size_t most = machine_bytes() / item_bytes;
  base::require(n != 0 && n <= most, "batch size is ", n,
                "; allowed: 1 to memory / bytes per item = ", most);
  // Each column begins on a cache line. A field has at most three columns, and ten are no field's.
  return n * item_bytes + (3 * columns_.size() + 10) * base::kCacheLine;
}

void BatchStore::reserve(std::size_t n) {
  if (n != 0 && n <= capacity) {
    return;
  }
  const std::size_t bytes = block_bytes(n);
  auto* const block = static_cast<std::byte*>(memory_->allocate(bytes, base::kCacheLine));
  release();
  block_ = block;
  block_bytes_ = bytes;
  lay_out(block_, n);
}

void BatchStore::lay_over(std::byte* block, std::size_t n) noexcept {
  release();
  block_ = nullptr;
  lay_out(block, n);
}

void BatchStore::check_places(const char* call, const Schema& schema,
                              const window::WindowSpec& window, std::size_t offset,
                              std::size_t n) const {
  base::require(schema_ == schema && window_ == window, base::Call{call},
                "the batch is of another schema or window than the buffer");
  base::require(offset <= capacity && n <= capacity - offset, base::Call{call}, "offset ", offset,
                " + n ", n, "; allowed: at most the batch's capacity ", capacity);
}

std::size_t BatchStore::item_bytes(int which, const FieldSpec& spec) const {
  return which == kReturns
             ? targets * sizeof(float)
             : spec.bytes * (which == kFrames ? frames : window_.values(spec.traits()));
}

void BatchStore::clear(std::size_t place) noexcept {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    for (const int which : {kNow, kNext, kReturns, kFrames}) {
      if (std::byte* const column = columns_[i].data[which]; column != nullptr) {
        const std::size_t bytes = item_bytes(which, spec);
        std::memset(column + place * bytes, 0, bytes);
      }
    }
  }
  std::fill_n(discounts + place * targets, targets, 0.0F);
  weights[place] = 0.0F;
  episodes[place] = positions[place] = 0;
  lengths[place] = 0;
  for (bool* const column : {is_first, terminated, truncated}) {
    if (column != nullptr) {
      std::fill_n(column + place * steps, steps, false);
    }
  }
}

void BatchStore::copy_from(const BatchStore& other, std::size_t count,
                           std::size_t offset) noexcept {
  // Values are copied as bytes, because the columns of `other` need not be aligned.
  const auto copy = [=](const void* from, void* to, std::size_t bytes) {
    if (from != nullptr && to != nullptr) {
      std::memcpy(static_cast<std::byte*>(to) + offset * bytes, from, count * bytes);
    }
  };
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    for (const int which : {kNow, kNext, kReturns, kFrames}) {
      copy(other.columns_[i].data[which], columns_[i].data[which], item_bytes(which, spec));
    }
  }
  copy(other.discounts, discounts, targets * sizeof(*discounts));
  copy(other.weights, weights, sizeof(*weights));
  copy(other.probabilities, probabilities, sizeof(*probabilities));
  copy(other.keys, keys, sizeof(*keys));
  copy(other.episodes, episodes, sizeof(*episodes));
  copy(other.positions, positions, sizeof(*positions));
  copy(other.lengths, lengths, sizeof(*lengths));
  copy(other.is_first, is_first, steps);
  copy(other.terminated, terminated, steps);
  copy(other.truncated, truncated, steps);
}

}  // namespace reprise::window

namespace reprise {

Batch Batch::of(const Schema& schema, const Window& window, std::size_t n, bool unique_frames,
                std::pmr::memory_resource* memory) {
  const window::WindowSpec spec(window);
  spec.check_fields(schema);
  Batch batch = window::BatchAccess::make(schema, spec, n, memory, unique_frames);
  batch.view_->size = n;
  return batch;
}

std::span<const std::int64_t> Batch::keys_int64() const {
  static_assert(sizeof(ItemKey) == sizeof(std::int64_t));
  // The aliasing rules allow a signed view of the unsigned word inside the key.
  return {reinterpret_cast<const std::int64_t*>(&view_->keys[0].bits), size()};
}

}  // namespace reprise

namespace reprise::detail {
namespace {

/// The names of a field's columns, by their index in `Column::data`.
constexpr const char* kNames[] = {"now", "next", "returns", "frames"};

}  // namespace

void BatchView::refuse(std::size_t index, std::uint32_t wanted) const {
  schema::refuse_field(static_cast<const window::BatchStore&>(*this).schema(), index, wanted);
}

std::span<std::byte> BatchView::bytes(int which, AnyField field) const {
  const std::size_t index = field.index();
  if (index >= column_count || columns[index].signature != field.signature()) {
    refuse(index, field.signature());
  }
  check_role(which, field);
  const std::size_t elements = size * per_item(which, columns[index]);
  if (elements != 0 && columns[index].data[which] == nullptr) {
    refuse_missing(which);
  }
  return {columns[index].data[which], elements * element_bytes(field.dtype())};
}

/// Refuses a column that fields of this role never have.
void BatchView::check_role(int which, AnyField field) const {
  const RoleTraits& role = traits(field.role());
  if (which == kNow || (which == kReturns ? role.has_returns : role.has_next)) {
    return;
  }
  base::refuse(base::Call{base::text("Batch::", kNames[which])}, "field '",
               static_cast<const window::BatchStore&>(*this).schema().fields()[field.index()].name,
               "' is a ", schema::describe(field.signature()),
               "; allowed: ", which == kReturns ? "rewards" : "observations");
}

/// Throws because this batch does not have the column, and says which batches have it.
void BatchView::refuse_missing(int which) {
  if (which == kReturns) {
    base::refuse<std::logic_error>(
        base::Call{"Batch::returns"},
        "the window has n_step 0, which makes none; allowed: at least 1");
  }
  const std::string call = base::text("Batch::", kNames[which]);
  if (which == kFrames) {
    base::refuse<std::logic_error>(base::Call{call}, "the batch has whole stacks; allowed with ",
                                   base::OptionsOf{"SamplerOptions"}, "unique_frames");
  }
  base::refuse<std::logic_error>(
      base::Call{call}, "the batch has unique frames; allowed: now_stacks, next_stacks, frames");
}

void BatchView::refuse_stream_column() {
  base::refuse<std::logic_error>(base::Call{"Batch"},
                                 "is_first, terminated and truncated: allowed with "
                                 "Sequences of end = ",
                                 base::Enumerator{"Continue"});
}

/// Describes where the stacks of a field are: in a column of their own or, with unique frames, at
/// overlapping places of the column of frames.
BatchView::Stacks BatchView::stacks(int which, AnyField field) const {
  const std::size_t index = field.index();
  if (index >= column_count || columns[index].signature != field.signature()) {
    refuse(index, field.signature());
  }
  check_role(kNext, field);
  const Column& column = columns[index];
  Stacks stacks{.first = column.data[which], .items = size};
  stacks.stack_bytes = stacks.stride_bytes = column.elements * element_bytes(field.dtype());
  stacks.step_bytes = stacks.step_stack_bytes = stacks.stack_bytes / steps;
  stacks.frame_bytes = stacks.step_stack_bytes / stack;
  if (unique_frames) {
    const bool of_steps = static_cast<const window::BatchStore&>(*this).window().has_steps();
    stacks.first = column.data[kFrames];
    stacks.stride_bytes = stacks.frame_bytes * frames;
    stacks.step_bytes = stacks.frame_bytes;
    stacks.stack_bytes = stacks.frame_bytes * (stack + steps - 1);
    if (of_steps && which == kNext) {
      stacks.first += stacks.frame_bytes;
    }
    stacks.begins = !of_steps && which == kNext ? lengths : nullptr;
    stacks.last = frames - stack;
  }
  return stacks;
}

std::vector<std::size_t> BatchView::shape(std::size_t index, std::uint32_t wanted) const {
  if (index >= column_count || columns[index].signature != wanted) {
    refuse(index, wanted);
  }
  const auto& store = static_cast<const window::BatchStore&>(*this);
  const FieldSpec& spec = store.schema().fields()[index];
  std::vector<std::size_t> shape = store.window().dimensions(spec.traits());
  shape.insert(shape.begin(), size);
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return shape;
}

void BatchDeleter::operator()(BatchView* batch) const noexcept {
  delete static_cast<window::BatchStore*>(batch);
}

}  // namespace reprise::detail
