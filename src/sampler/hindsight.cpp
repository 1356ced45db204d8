#include "sampler/hindsight.hpp"

#include "base/text.hpp"
#include "buffer/keys_by_shard.hpp"
#include "buffer/update.hpp"
#include "schema/field_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

namespace reprise::sampler {

HindsightCore::HindsightCore(std::shared_ptr<buffer::BufferCore> core, AnyField achieved,
                             const HindsightOptions& options)
    : core_(std::move(core)),
      options_(options),
      achieved_(achieved),
      random_(options.seed),
      items_(*core_) {
  const Schema& schema = core_->schema();
  const std::span<const FieldSpec> fields = schema.fields();
  const std::size_t index = achieved.index();
  if (index >= fields.size() ||
      detail::signature(fields[index].dtype, fields[index].role, !fields[index].shape.empty()) !=
          achieved.signature()) {
    schema::refuse_field(schema, index, achieved.signature());
  }
  const FieldSpec& field = fields[index];
  base::require(field.traits().has_next, "hindsight: field '", field.name, "' is a ",
                field.traits().name, "; allowed: observations");
  base::require(options.share >= 0.0F && options.share <= 1.0F, "HindsightOptions::share is ",
                options.share, "; allowed: 0 to 1");
  const auto* const window = std::get_if<Transitions>(&core_->options().window);
  base::require(window != nullptr && window->n_step == 1, "hindsight: window is ",
                window == nullptr ? "Sequences" : "Transitions of n_step ",
                window == nullptr ? "" : std::to_string(window->n_step),
                "; allowed: Transitions of n_step 1, whose reward can be computed from a batch");
  field_bytes_ = field.bytes;
}

std::size_t HindsightCore::relabel(std::span<const ItemKey> keys, std::span<std::byte> goals,
                                   DType type, std::span<std::int32_t> distances) {
  const base::OneThread::Inside inside(one_thread_, "Hindsight::relabel");
  core_->life().check();
  base::require(type == achieved_.dtype(),
                "Hindsight::relabel: goals are of another type; allowed: ",
                "that of the achieved field, a ", schema::describe(achieved_.signature()));
  base::require(goals.size() == keys.size() * field_bytes_, "Hindsight::relabel: goals have ",
                goals.size(), " bytes; allowed: ", keys.size(), " keys * ", field_bytes_);
  base::require(distances.size() == keys.size(), "Hindsight::relabel: there are ", distances.size(),
                " distances and ", keys.size(), " keys; allowed: as many");
  buffer::check_keys("Hindsight::relabel", *core_, keys);
  std::size_t relabelled = 0;
  for (std::size_t done = 0; done < keys.size(); done += kItemsAtATime) {
    const std::size_t n = std::min(kItemsAtATime, keys.size() - done);
    find(keys.subspan(done, n));
    std::fill_n(distances.begin() + static_cast<std::ptrdiff_t>(done), n, 0);
    choose(n);
    for (std::size_t i = 0; i < chosen_; ++i) {
      const Search& found = searches_[i];
      // The observation after the last row of the episode is a goal as well.
      const std::int32_t distance = pick(before_[i], found.inside - found.row + 1);
      const std::size_t place = done + found.item;
      const std::uint32_t chunk = items_.places()[found.item].chunk;
      const std::byte* const row =
          core_->store().row(chunk, static_cast<std::uint32_t>(found.row + distance));
      core_->gather().observation(achieved_.index(), row, goals.data() + place * field_bytes_);
      distances[place] = distance;
    }
    relabelled += chosen_;
    items_.unpin();
  }
  return relabelled;
}

/// Pins the items. The rows below `ingested_` were published when their shard was locked, so their
/// headers and observations do not change any more, and neither does the observation behind them
/// (I1); the pins keep them (I2).
void HindsightCore::find(std::span<const ItemKey> keys) noexcept {
  items_.begin(keys.size());
  buffer::for_each_shard(keys, core_->shards(), items_.order(),
                         [&](std::size_t s, std::span<const std::uint32_t> order) {
                           const buffer::ShardSet::One shard(core_->shards(), s);
                           for (const std::uint32_t i : order) {
                             items_.pin(*shard, i, keys[i]);
                             if (items_.found(i)) {
                               ingested_[i] = shard->ingested(items_.places()[i].chunk);
                             }
                           }
                         });
}

/// Chooses the items that get a goal, and finds the rows of their episodes.
void HindsightCore::choose(std::size_t items) noexcept {
  chosen_ = 0;
  for (std::uint32_t i = 0; i < items; ++i) {
    if (items_.found(i) && random_.uniform() < static_cast<double>(options_.share)) {
      searches_[chosen_++] = {i, static_cast<std::int32_t>(items_.places()[i].row), 0, 0};
    }
  }
  for (std::size_t i = 0; i < chosen_; ++i) {
    searches_[i].inside = searches_[i].row;
    searches_[i].outside = -1;
  }
  if (options_.goal == HindsightGoal::Episode) {
    search();
  }
  for (std::size_t i = 0; i < chosen_; ++i) {
    Search& search = searches_[i];
    before_[i] = search.row - search.inside;
    search.inside = search.row;
    // No item begins in the last row of a chunk, whatever a damaged checkpoint has there.
    search.outside = static_cast<std::int32_t>(
        std::min(ingested_[search.item], core_->store().chunk_rows() - 1));
  }
  search();
}

/// Moves `inside` to the farthest row of the episode on the side of `outside`. The searches take
/// their steps in turn, so that their cache misses overlap.
void HindsightCore::search() noexcept {
  for (bool more = true; more;) {
    more = false;
    for (Search& search : std::span(searches_).first(chosen_)) {
      if (std::abs(search.outside - search.inside) > 1) {
        const std::int32_t middle = (search.inside + search.outside) / 2;
        (same_episode(search, middle) ? search.inside : search.outside) = middle;
        more = true;
      }
    }
  }
}

/// Whether the row begins the item of the same episode that is as many steps away. What a row
/// without an item has in the place of a header was left by an earlier use of the chunk, and no
/// step has a header of the same episode and position twice.
bool HindsightCore::same_episode(const Search& search, std::int32_t row) const noexcept {
  const std::uint32_t chunk = items_.places()[search.item].chunk;
  const auto header = [&](std::int32_t at) {
    storage::ItemHeader read;
    std::memcpy(&read, core_->store().row(chunk, static_cast<std::uint32_t>(at)), sizeof(read));
    return read;
  };
  const storage::ItemHeader own = header(search.row);
  const storage::ItemHeader other = header(row);
  // Modulo 2^64: before an episode's first step there is no position.
  return other.episode == own.episode &&
         other.position() - own.position() ==
             static_cast<std::uint64_t>(std::int64_t{row} - search.row);
}

/// The distance of the goal, given how many observations before and after the item's own there are.
std::int32_t HindsightCore::pick(std::int32_t before, std::int32_t after) noexcept {
  if (options_.goal == HindsightGoal::Final) {
    return after;
  }
  const std::int32_t number =
      static_cast<std::int32_t>(random_.uniform() * static_cast<double>(before + after));
  return number < before ? number - before : number - before + 1;
}

}  // namespace reprise::sampler

namespace reprise {

std::size_t Hindsight::relabel(std::span<const ItemKey> keys, std::span<std::byte> goals,
                               DType type, std::span<std::int32_t> distances) {
  return core_->relabel(keys, goals, type, distances);
}

namespace detail {

void HindsightDeleter::operator()(sampler::HindsightCore* core) const noexcept {
  delete core;
}

}  // namespace detail

}  // namespace reprise
