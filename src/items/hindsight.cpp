#include "items/hindsight.hpp"

#include "base/text.hpp"
#include "buffer/keys_by_shard.hpp"
#include "buffer/update.hpp"
#include "schema/field_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

namespace reprise::items {

HindsightCore::HindsightCore(std::shared_ptr<buffer::BufferCore> core, AnyField achieved,
                             const HindsightOptions& options)
    : core_(std::move(core)),
      options_(options),
      achieved_(achieved),
      random_(options.seed),
      items_(core_->shards()),
      chunks_(core_->shards()) {
  const Schema& schema = core_->schema();
  const std::span<const FieldSpec> fields = schema.fields();
  const std::size_t index = achieved.index();
  if (index >= fields.size() ||
      detail::signature(fields[index].dtype, fields[index].role, !fields[index].shape.empty()) !=
          achieved.signature()) {
    schema::refuse_field(schema, index, achieved.signature());
  }
  const FieldSpec& field = fields[index];
  base::require(field.traits().has_next, base::Call{"hindsight"}, "field '", field.name, "' is a ",
                field.traits().name, "; allowed: observations");
  base::require(options.share >= 0.0F && options.share <= 1.0F, base::OptionsOf{"HindsightOptions"},
                "share is ", options.share, "; allowed: 0 to 1");
  const window::WindowSpec& window = core_->window();
  base::require(!window.has_steps() && window.n_step() == 1, base::Call{"hindsight"}, "window is ",
                window.name(), " of n_step ", window.n_step(),
                "; allowed: Transitions of n_step 1, whose reward can be computed from a batch");
  field_bytes_ = field.bytes;
}

std::size_t HindsightCore::relabel(std::span<const ItemKey> keys, std::span<std::byte> goals,
                                   DType type, std::span<std::int32_t> distances) {
  const base::OneThread::Inside inside(one_thread_, "Hindsight::relabel");
  core_->life().check_not_forked();
  base::require(type == achieved_.dtype(), base::Call{"Hindsight::relabel"},
                "goals are of another type; allowed: ", "that of the achieved field, a ",
                schema::describe(achieved_.signature()));
  base::require(goals.size() == keys.size() * field_bytes_, base::Call{"Hindsight::relabel"},
                "goals have ", goals.size(), " bytes; allowed: ", keys.size(), " keys * ",
                field_bytes_);
  base::require(distances.size() == keys.size(), base::Call{"Hindsight::relabel"}, "there are ",
                distances.size(), " distances and ", keys.size(), " keys; allowed: as many");
  buffer::check_keys("Hindsight::relabel", *core_, keys);
  std::size_t relabelled = 0;
  for (std::size_t done = 0; done < keys.size(); done += kItemsAtATime) {
    const std::size_t n = std::min(kItemsAtATime, keys.size() - done);
    const std::span<std::byte> block = goals.subspan(done * field_bytes_, n * field_bytes_);
    std::ranges::fill(distances.subspan(done, n), 0);
    find(keys.subspan(done, n));
    choose(n);
    walk(Side::After, block, distances.subspan(done, n));
    if (options_.goal == HindsightGoal::Episode) {
      walk(Side::Before, block, distances.subspan(done, n));
    }
    relabelled += chosen_;
    items_.unpin();
  }
  return relabelled;
}

/// Pins the items. The rows below `ingested_` were published when their shard was locked, so their
/// headers and observations do not change any more, and neither does the observation after them
/// (I1); the pins keep them (I2).
void HindsightCore::find(std::span<const ItemKey> keys) noexcept {
  items_.begin(keys.size());
  buffer::for_each_shard(keys, core_->shards(), items_.order(),
                         [&](std::size_t s, std::span<const std::uint32_t> order) {
                           const buffer::ShardSet::Lock shard(core_->shards(), s);
                           for (const std::uint32_t i : order) {
                             items_.pin(*shard, i, keys[i]);
                             if (items_.found(i)) {
                               ingested_[i] = shard->ingested(items_.places()[i].chunk);
                             }
                           }
                         });
}

/// Chooses the items that get a goal.
void HindsightCore::choose(std::size_t items) noexcept {
  chosen_ = 0;
  for (std::uint32_t i = 0; i < items; ++i) {
    if (items_.found(i) && random_.uniform() < static_cast<double>(options_.share)) {
      searches_[chosen_++].item = i;
    }
  }
  for (Search& search : std::span(searches_).first(chosen_)) {
    const storage::ItemHeader own = header(items_.places()[search.item]);
    search.seen = 0;
    search.episode = own.episode;
    search.position = own.position();
  }
}

/// Follows the episodes to one side of their items, and picks goals among the observations.
void HindsightCore::walk(Side side, std::span<std::byte> goals,
                         std::span<std::int32_t> distances) noexcept {
  begin(side);
  chunks_.begin(0);
  // The bound is for a writer that fills chunks meanwhile: an episode has no more chunks than
  // exist.
  for (std::size_t chunks = core_->store().chunks(); walks_ != 0 && chunks != 0; --chunks) {
    search();
    if (side == Side::Before) {
      skip_context();
    }
    pick(side, goals, distances);
    if (side == Side::After) {
      look_ahead();
    } else {
      look_back();
    }
    go_on(side);
  }
  chunks_.unpin();
}

void HindsightCore::begin(Side side) noexcept {
  walks_ = chosen_;
  for (std::uint32_t i = 0; i < chosen_; ++i) {
    going_[i] = i;
    Search& search = searches_[i];
    const storage::Place place = items_.places()[search.item];
    const auto row = static_cast<std::int32_t>(place.row);
    search.chunk = place.chunk;
    search.first = search.position - place.row;
    search.from = side == Side::After ? row : row - 1;
    search.inside = row;
    search.outside = side == Side::After ? end_of(ingested_[search.item]) : -1;
  }
}

/// Finds the farthest row of the episode on the side of `outside`, and sets `inside` to it. The
/// searches take their steps in turn, so that their cache misses overlap.
void HindsightCore::search() noexcept {
  for (bool more = true; more;) {
    more = false;
    for (const std::uint32_t i : std::span(going_).first(walks_)) {
      Search& search = searches_[i];
      if (std::abs(search.outside - search.inside) > 1) {
        const std::int32_t middle = (search.inside + search.outside) / 2;
        if (same_episode(search, middle)) {
          search.inside = middle;
        } else {
          search.outside = middle;
        }
        more = true;
      }
    }
  }
}

/// Leaves out the rows that a writer repeated from the chunk before, with their headers.
void HindsightCore::skip_context() noexcept {
  for (const std::uint32_t i : std::span(going_).first(walks_)) {
    Search& search = searches_[i];
    const float* const priorities = core_->store().priorities(search.chunk);
    while (!storage::is_item(priorities[search.inside])) {
      ++search.inside;
    }
  }
}

/// `Final` goals are the last observations so far. Other goals are any of the observations passed,
/// with equal probability: in each chunk a random observation replaces the goal with the
/// probability that is the chunk's share of all observations passed so far.
void HindsightCore::pick(Side side, std::span<std::byte> goals,
                         std::span<std::int32_t> distances) noexcept {
  for (const std::uint32_t i : std::span(going_).first(walks_)) {
    Search& search = searches_[i];
    // The observation after the last step of the episode is a goal as well.
    const std::int32_t low = side == Side::After ? search.from + 1 : search.inside;
    const std::int32_t high = side == Side::After ? search.inside + 1 : search.from;
    std::int32_t row = high;
    if (options_.goal != HindsightGoal::Final) {
      search.seen += static_cast<std::uint32_t>(high - low + 1);
      const auto number =
          static_cast<std::int64_t>(random_.uniform() * static_cast<double>(search.seen));
      if (number > high - low) {
        continue;
      }
      row = low + static_cast<std::int32_t>(number);
    }
    core_->gather().copy_observation(
        achieved_.index(), core_->store().row(search.chunk, static_cast<std::uint32_t>(row)),
        goals.data() + search.item * field_bytes_);
    distances[search.item] = static_cast<std::int32_t>(position_of(search, row) - search.position);
  }
}

/// Keeps the walks whose episodes go on in another chunk, and finds the first step there.
void HindsightCore::look_ahead() noexcept {
  std::size_t kept = 0;
  for (const std::uint32_t i : std::span(going_).first(walks_)) {
    const Search& search = searches_[i];
    if (search.inside != static_cast<std::int32_t>(core_->store().last_step())) {
      continue;
    }
    const std::uint32_t slot = core_->store()
                                   .chunk(search.chunk)
                                   .sequel.slot(storage::Sequel::mark(
                                       search.episode, position_of(search, search.inside + 1)));
    if (slot != storage::kNil) {
      going_[kept] = i;
      steps_[kept++] = ItemKey::make(slot, 0, 0);
    }
  }
  walks_ = kept;
}

/// As `look_ahead`, for episodes that began in another chunk: finds the chunks which say that the
/// episode goes on with the first step that the walk found here.
void HindsightCore::look_back() noexcept {
  const auto word = [this](std::uint32_t i) {
    const Search& search = searches_[i];
    const storage::Place place{search.chunk, static_cast<std::uint32_t>(search.inside)};
    return storage::Sequel::word(
        storage::Sequel::mark(search.episode, position_of(search, search.inside)),
        core_->store().slot(place));
  };
  const std::span<std::uint32_t> all = std::span(going_).first(walks_);
  const auto begun_here = std::ranges::remove_if(
      all, [this](std::uint32_t i) { return position_of(searches_[i], searches_[i].inside) == 0; });
  const std::span<std::uint32_t> going = all.first(all.size() - begun_here.size());
  walks_ = 0;
  if (going.empty()) {
    return;
  }
  std::ranges::sort(going, {}, word);
  constexpr ItemKey kNone = ItemKey::make(storage::kNil, 0, 0);
  std::fill_n(steps_.begin(), going.size(), kNone);
  for (std::uint32_t c = 0; c < core_->store().chunks(); ++c) {
    const auto found =
        std::ranges::equal_range(going, core_->store().chunk(c).sequel.word(), {}, word);
    std::fill_n(steps_.begin() + (found.begin() - going.begin()), found.size(),
                ItemKey::make(core_->store().slot({c, core_->store().last_step()}), 0, 0));
  }
  for (std::size_t i = 0; i < going.size(); ++i) {
    if (steps_[i] != kNone) {
      going_[walks_] = going[i];
      steps_[walks_++] = steps_[i];
    }
  }
}

/// Moves the walks to the steps that were found, and pins these steps as `find` pins items. Ends a
/// walk whose step is gone.
void HindsightCore::go_on(Side side) noexcept {
  chunks_.unpin();
  chunks_.begin(walks_);
  buffer::for_each_shard(std::span<const ItemKey>(steps_).first(walks_), core_->shards(),
                         chunks_.order(), [&](std::size_t s, std::span<const std::uint32_t> order) {
                           const buffer::ShardSet::Lock shard(core_->shards(), s);
                           for (const std::uint32_t i : order) {
                             const storage::Place place = core_->store().place(steps_[i].slot());
                             const std::int32_t end = end_of(shard->ingested(place.chunk));
                             if (static_cast<std::int32_t>(place.row) < end) {
                               chunks_.pin(*shard, i, place);
                               searches_[going_[i]].outside = side == Side::After ? end : -1;
                             }
                           }
                         });
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < walks_; ++i) {
    Search& search = searches_[going_[i]];
    const storage::Place place = chunks_.places()[i];
    const auto row = static_cast<std::int32_t>(place.row);
    search.first = position_of(search, search.inside + (side == Side::After ? 1 : -1)) - place.row;
    search.chunk = place.chunk;
    search.from = search.inside = row;
    // A chunk that was used again may have an old header in a row without an item.
    if (chunks_.found(i) && storage::is_item(core_->store().priorities(place.chunk)[place.row]) &&
        same_episode(search, row)) {
      going_[kept++] = going_[i];
    }
  }
  walks_ = kept;
}

/// Whether the row has the header of the step that the episode would have in that row. A row
/// without an item has the header of an earlier use of the chunk, but no two steps have the same
/// episode and position.
bool HindsightCore::same_episode(const Search& search, std::int32_t row) const noexcept {
  const storage::ItemHeader item = header({search.chunk, static_cast<std::uint32_t>(row)});
  return item.episode == search.episode && item.position() == position_of(search, row);
}

/// The position of a row in the episode, modulo 2^64, because rows before the first step count too.
std::uint64_t HindsightCore::position_of(const Search& search, std::int32_t row) noexcept {
  return search.first + static_cast<std::uint64_t>(std::int64_t{row});
}

storage::ItemHeader HindsightCore::header(storage::Place place) const noexcept {
  storage::ItemHeader read;
  std::memcpy(&read, core_->store().row(place.chunk, place.row), sizeof(read));
  return read;
}

/// The end of the rows in which items may begin: no item begins in the last row of a chunk,
/// whatever a damaged checkpoint has there.
std::int32_t HindsightCore::end_of(std::uint32_t ingested) const noexcept {
  return static_cast<std::int32_t>(std::min(ingested, core_->store().chunk_rows() - 1));
}

}  // namespace reprise::items

namespace reprise {

std::size_t Hindsight::relabel(std::span<const ItemKey> keys, std::span<std::byte> goals,
                               DType type, std::span<std::int32_t> distances) {
  return core_->relabel(keys, goals, type, distances);
}

namespace detail {

void HindsightDeleter::operator()(items::HindsightCore* core) const noexcept {
  delete core;
}

}  // namespace detail

}  // namespace reprise
