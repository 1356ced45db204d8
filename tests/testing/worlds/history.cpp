#include "history.hpp"

#include "testing/test.hpp"

#include <sstream>

namespace reprise::test {
namespace {

/// The allowed error of P, which is a quotient of whole numbers and rounded once or twice.
constexpr double kTolerance = 1e-12;

std::string describe_item(std::uint64_t number) {
  return "item " + std::to_string(number % History::kPerWriter) + " of writer " +
         std::to_string(number / History::kPerWriter) + ": ";
}

/// Whether a read may have seen a write: no other write lies wholly between the two.
bool may_be_seen(const History::Update& write, const std::vector<History::Update>& all,
                 const Span& read) {
  return write.when.begin <= read.end &&
         std::ranges::none_of(all, [&](const History::Update& later) {
           return write.when.before(later.when) && later.when.before(read);
         });
}

}  // namespace

void History::add(const Log& log) {
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(all_.commits, log.commits);
  append(all_.draws, log.draws);
  append(all_.updates, log.updates);
  append(all_.sizes, log.sizes);
}

std::size_t History::commits_overlapping(const Span& time) const {
  return static_cast<std::size_t>(std::ranges::count_if(all_.commits, [&](const Commit& commit) {
    return commit.when.begin <= time.end && commit.when.end >= time.begin;
  }));
}

std::size_t History::commits_inside(const Span& time) const {
  return static_cast<std::size_t>(std::ranges::count_if(all_.commits, [&](const Commit& commit) {
    return commit.when.begin > time.begin && commit.when.end < time.end;
  }));
}

std::size_t History::commits_returned_before(std::int64_t moment) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      all_.commits, [&](const Commit& commit) { return commit.when.end < moment; }));
}

std::size_t History::commits_begun_by(std::int64_t moment) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      all_.commits, [&](const Commit& commit) { return commit.when.begin <= moment; }));
}

/// Fills `items_`, and checks that each key belongs to one item.
std::string History::group_by_item() {
  for (const Commit& commit : all_.commits) {
    Item& item = items_[commit.number];
    item.commit = commit;
    item.priority_writes.push_back({{}, commit.priority, true, commit.when});
  }
  std::map<ItemKey, std::uint64_t> numbers;
  for (const Draw& draw : all_.draws) {
    for (const Drawn& drawn : draw.items) {
      const auto place = items_.find(drawn.number);
      if (place == items_.end() || place->second.commit.when.begin > draw.when.end) {
        return describe_item(drawn.number) + "drawn before anybody committed it";
      }
      Item& item = place->second;
      if (item.has_key && item.key != drawn.key) {
        return describe_item(drawn.number) + "has two keys";
      }
      if (numbers.emplace(drawn.key, drawn.number).first->second != drawn.number) {
        return describe_item(drawn.number) + "has another item's key";
      }
      item.key = drawn.key;
      item.has_key = true;
      item.live.push_back(draw.when);
    }
  }
  for (const Update& update : all_.updates) {
    const auto number = numbers.find(update.key);
    if (number == numbers.end()) {
      return "an update of a key that was never drawn";
    }
    Item& item = items_[number->second];
    if (update.applied) {
      item.live.push_back(update.when);
      item.priority_writes.push_back(update);
    } else {
      item.stale.push_back(update.when);
    }
  }
  return {};
}

std::string History::mismatch_of_lives(const Item& item) const {
  for (const Span& stale : item.stale) {
    if (std::ranges::any_of(item.live, [&](const Span& live) { return stale.before(live); })) {
      return describe_item(item.commit.number) + "lives again after its key was stale";
    }
  }
  return {};
}

std::string History::mismatch_of_eviction(const Item& item) const {
  const std::uint64_t number = item.commit.number;
  const std::size_t capacity = options_.capacity_steps;
  const std::size_t rows = options_.chunk_steps;
  // Each row has an item, and a writer fills a chunk from its first row on. So the row tells how
  // many items of the chunk came before; the first chunk begins with the writer's first item.
  const std::uint64_t row = std::min<std::uint64_t>(item.key.slot() % rows, number % kPerWriter);
  const auto first = items_.find(number - row);
  if (first == items_.end()) {
    return describe_item(number) + "lies in a row that its chunk cannot have";
  }
  for (const Span& stale : item.stale) {
    const std::size_t others =
        commits_overlapping({first->second.commit.when.begin, stale.end}) - 1;
    if (options_.shards == 1 && others < capacity) {
      std::ostringstream words;
      words << describe_item(number) << "evicted after " << others
            << " commits since its chunk began";
      return words.str();
    }
  }
  const std::size_t writers = 1 + all_.commits.back().number / kPerWriter;
  for (const Span& live : item.live) {
    const std::size_t behind = commits_inside({item.commit.when.end, live.begin});
    if (options_.shards == 1 && behind > capacity + (writers - 1) * rows) {
      std::ostringstream words;
      words << describe_item(number) << "still there after " << behind << " more commits";
      return words.str();
    }
  }
  return {};
}

/// Looks for a total with which each drawn item has a weight that it may have had.
std::string History::mismatch_of_weights(const Draw& draw) const {
  if (options_.shards != 1 || draw.items.empty()) {
    return {};
  }
  const auto explains = [&](const Drawn& drawn, double total) {
    const std::vector<Update>& writes = items_.at(drawn.number).priority_writes;
    return std::ranges::any_of(writes, [&](const Update& write) {
      const auto weight = static_cast<double>(write.priority);
      return weight > 0.0 && std::abs(drawn.probability * total - weight) <= kTolerance * weight &&
             may_be_seen(write, writes, draw.when);
    });
  };
  const Drawn& first = draw.items.front();
  for (const Update& write : items_.at(first.number).priority_writes) {
    const double total = static_cast<double>(write.priority) / first.probability;
    const bool whole = std::abs(total - std::round(total)) <= kTolerance * total;
    if (whole && std::ranges::all_of(draw.items, [&](const Drawn& drawn) {
          return explains(drawn, std::round(total));
        })) {
      return {};
    }
  }
  return describe_item(first.number) + "no weights explain the probabilities of a draw with it";
}

std::string History::mismatch_of_sizes() const {
  for (const Draw& draw : all_.draws) {
    if (draw.code == SampleStatus::Code::TimedOut &&
        commits_returned_before(draw.when.begin) != 0) {
      return "too few items to draw although a commit had returned";
    }
  }
  for (const Size& size : all_.sizes) {
    const std::size_t least =
        std::min(options_.capacity_steps, commits_returned_before(size.when.begin));
    const std::size_t most = std::min(options_.capacity_steps, commits_begun_by(size.when.end));
    if (size.size < least || size.size > most) {
      std::ostringstream words;
      words << "a size of " << size.size << " that should be " << least << " to " << most;
      return words.str();
    }
  }
  return {};
}

std::string History::first_mismatch() {
  std::string words = group_by_item();
  for (auto item = items_.begin(); words.empty() && item != items_.end(); ++item) {
    if (item->second.has_key) {
      words = mismatch_of_lives(item->second);
      words = words.empty() ? mismatch_of_eviction(item->second) : words;
    }
  }
  for (auto draw = all_.draws.begin(); words.empty() && draw != all_.draws.end(); ++draw) {
    words = mismatch_of_weights(*draw);
  }
  return words.empty() ? mismatch_of_sizes() : words;
}

}  // namespace reprise::test
