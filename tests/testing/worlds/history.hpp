#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// When a call began and returned, in nanoseconds of a clock. (A shared counter would order the
/// threads.)
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// Whether this call had returned when `that` began.
  [[nodiscard]] bool before(const Span& that) const { return end < that.begin; }
};

/// Runs a call and returns its span.
template <class Call>
Span timed(Call&& call) {
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  const std::int64_t begin = now();
  call();
  return {begin, now()};
}

/// The calls of all threads to one buffer, each with its arguments, its result and its span, and a
/// check that a correct buffer can behave so.
///
/// Items are numbered: writer w, which lives for the whole run, commits w * kPerWriter + i for i =
/// 0, 1, ... in one episode, in windows of one step, through one `Proportional` selector with alpha
/// 1 and epsilon 0; priorities are whole.
///
/// If calls overlap, either order is allowed. The checks are:
///  - an item that is drawn was committed before the draw returned;
///  - a key names one item, and an item has one key;
///  - a key is live and then stale, never live again: once an update of the key was refused, no
///    later update of the key is applied and no later draw gives the item;
///  - with one shard an item leaves only when the capacity needs its place: as many items came
///    after the first item of its chunk;
///  - with one shard an item stays only as long as the items committed after it fit into the
///    capacity and the chunks that other writers had open;
///  - the probabilities of one draw from one shard are the weights of one moment, divided by one
///    whole number: each item's weight is a priority above 0, of its commit or of an update, that
///    no other write replaced before the draw began;
///  - a draw does not find too few items after a commit has returned;
///  - the size is at most the capacity, at least the number of commits that had returned and at
///    most the number of commits that had begun.
class History {
 public:
  static constexpr std::uint64_t kPerWriter = 1U << 20U;

  struct Commit {
    std::uint64_t number;
    float priority;
    Span when;
  };
  struct Drawn {
    std::uint64_t number;
    ItemKey key;
    double probability;
  };
  struct Draw {
    std::vector<Drawn> items;  ///< Empty if there was nothing to draw.
    SampleStatus::Code code;
    Span when;
  };
  struct Update {
    ItemKey key;
    float priority;
    bool applied;
    Span when;
  };
  struct Size {
    std::size_t size;
    Span when;
  };

  /// The calls of one thread. No other thread may use the log while that thread adds calls.
  struct Log {
    std::vector<Commit> commits;
    std::vector<Draw> draws;
    std::vector<Update> updates;
    std::vector<Size> sizes;
  };

  /// `options` are those that the buffer reports, with every default filled in.
  explicit History(const Options& options) : options_(options) {}

  void add(const Log& log);

  /// Describes the first result that no order of overlapping calls explains; empty if some order
  /// explains all.
  [[nodiscard]] std::string first_mismatch();

 private:
  /// All calls that concern one item.
  struct Item {
    Commit commit{};
    ItemKey key{};
    bool has_key = false;
    std::vector<Span> live;   ///< Draws of the item, and updates applied to it.
    std::vector<Span> stale;  ///< Updates of the item that were refused because its key was stale.
    /// The writes of the item's priority: by its commit, and by the updates applied.
    std::vector<Update> priority_writes;
  };

  std::string group_by_item();
  [[nodiscard]] std::string mismatch_of_lives(const Item& item) const;
  [[nodiscard]] std::string mismatch_of_eviction(const Item& item) const;
  [[nodiscard]] std::string mismatch_of_weights(const Draw& draw) const;
  [[nodiscard]] std::string mismatch_of_sizes() const;
  /// Counts commits that overlap this span.
  [[nodiscard]] std::size_t commits_overlapping(const Span& time) const;
  /// Counts commits that began and returned within this span.
  [[nodiscard]] std::size_t commits_inside(const Span& time) const;
  [[nodiscard]] std::size_t commits_returned_before(std::int64_t moment) const;
  [[nodiscard]] std::size_t commits_begun_by(std::int64_t moment) const;

  Options options_;
  Log all_;
  std::map<std::uint64_t, Item> items_;
};

}  // namespace reprise::test
