#pragma once

#include <reprise/remote.hpp>
#include <reprise/writer.hpp>

#include "buffer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace reprise::python {

/// One writer, or the writers of a vector writer, with the hook that they share. One thread at a
/// time uses a group.
///
/// The hook lets the C++ writers wait only where the GIL is released for that: a small step for
/// which there is room is appended with the GIL held.
struct WriterGroup {
  /// Without `environments` there is one writer.
  WriterGroup(Origin& origin, std::optional<std::size_t> environments, AutoReset autoreset,
              std::chrono::nanoseconds append_timeout);

  [[nodiscard]] Writer& operator[](std::size_t e) { return vector ? (*vector)[e] : *single; }
  [[nodiscard]] bool in_episode(std::size_t e) {
    return closed[e] == 0 && (vector ? vector->in_episode(e) : single->in_episode());
  }
  /// Closes the writer of environment e, so that another one may be made. Does nothing if it is
  /// closed.
  void close(std::size_t e);

  bool in_use = false;           ///< Guarded by the GIL.
  const unsigned restore_count;  ///< `Origin::restore_count` when the group was made.
  SignalHook hook;
  std::chrono::nanoseconds timeout;
  std::optional<Writer> single;
  std::optional<VectorWriter> vector;
  std::vector<std::uint8_t> closed;
};

/// How a commit makes its first try, which does not wait.
enum class FirstTry : std::uint8_t { WithGil, WithoutGil };
[[nodiscard]] inline FirstTry first_try(std::size_t copied_bytes) noexcept {
  return copied_bytes > kCopyWithGil ? FirstTry::WithoutGil : FirstTry::WithGil;
}

/// Commits by `attempt`, which never waits. If there was no room, waits by `retry`, without the
/// GIL. Throws Closed if the buffer was closed or restored, and TimedOut with `describe_progress()`
/// in its message.
template <class Attempt, class Retry, class Progress>
void commit(Origin& origin, WriterGroup& group, FirstTry first, const char* call,
            const Attempt& attempt, const Retry& retry, const Progress& describe_progress) {
  const auto try_once = [&] {
    const GilRelease released(first == FirstTry::WithoutGil);
    return attempt();
  };
  CommitStatus status = try_once();
  if (status == CommitStatus::Committed) {
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  if (status != CommitStatus::Closed) {
    status = group.hook.wait(group.timeout, retry);
  }
  if (status == CommitStatus::Committed) {
    return;
  }
  if (status == CommitStatus::Closed) {
    const bool was_restored =
        origin.restore_count != group.restore_count && !origin.refuses_steps();
    throw Closed(std::string(call) + (was_restored
                                          ? ": the buffer was restored since; make another writer"
                                          : ": the buffer is closed; the step was not taken"));
  }
  origin.check_process();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  const std::string within =
      group.timeout.count() == 0 ? "now" : "within " + std::to_string(waited.count()) + " s";
  const std::optional<Stats> stats =
      without_gil([&] { return stats_for_message([&] { return origin.stats(); }); });
  fail<TimedOut>(call, ": no room ", within, "; ", describe_progress(),
                 stats ? ". Rate limiter: " + stats->limiter : "");
}

inline std::string step_not_taken() {
  return "the step was not taken: call again with the same arguments";
}

/// Appends loose transitions, one per row. If a call appended only some of its rows, the same call,
/// made again, appends the others.
class LooseRows {
 public:
  /// Whether all rows of a call belong to one writer.
  enum class Writers : std::uint8_t { One, Many };
  /// Whether some rows are resets of the simulator, which are not appended.
  enum class Resets : std::uint8_t { NoRows, Rows };

  LooseRows(const FieldTable& table, Writers writers, Resets resets)
      : table_(table), one_writer_(writers == Writers::One), has_resets_(resets == Resets::Rows) {}
  /// The arguments of a call, read into `values`.
  struct Call {
    const Fields& fields;
    StepValues& values;
    /// The rows of each array; empty if the call has one transition, without a dimension of rows.
    std::optional<std::size_t> rows;
    End end;          ///< Without `rows` the end of the transition.
    nb::handle ends;  ///< With `rows` the ends of all of them.
  };
  /// Returns the writer of a row, ready for that row.
  using WriterOf = std::function<Writer&(std::size_t)>;
  void append(const Call& call, Origin& origin, WriterGroup& group, const WriterOf& writer_of);
  /// Forgets an unfinished call.
  void reset() noexcept { appended_ = 0; }

 private:
  /// The final observations of the episode that a writer's last row ended.
  struct Final {
    std::uint64_t episode;
    std::vector<std::byte> observations;
  };
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void read(const Call& call);
  void check_stored_rows(const Call& call, const WriterOf& writer_of);
  CommitStatus add_rows(const Call& call, const WriterOf& writer_of);
  void point_at(const Call& call, std::size_t first, std::size_t count);
  [[nodiscard]] std::size_t hash(const Call& call);
  [[nodiscard]] bool is_reset(const Writer& writer) const;
  void record_end(const Writer& writer);

  const FieldTable& table_;
  const bool one_writer_;
  const bool has_resets_;
  std::map<const Writer*, Final> finals_;
  std::vector<AnyValue> row_;  ///< The call's fields, with the bytes of the rows looked at.
  std::vector<End> ends_;
  std::size_t appended_ = 0;  ///< Rows that an unfinished call has appended.
  /// Episode and steps of the next row's writer when the unfinished call returned.
  std::pair<std::uint64_t, std::uint64_t> resume_state_;
  std::size_t unfinished_hash_ = 0;  ///< `hash` of the unfinished call.
};

/// reprise.Writer: one environment's writer.
class WriterObject {
 public:
  WriterObject(std::shared_ptr<Origin> origin, std::shared_ptr<WriterGroup> group,
               std::size_t environment);
  ~WriterObject();
  WriterObject(const WriterObject&) = delete;
  WriterObject& operator=(const WriterObject&) = delete;

  [[nodiscard]] Entered enter(const char* call) const {
    return {group_->in_use, "Writer", *origin_, call};
  }
  void begin_episode(const Fields& observations);
  void append(End end, const std::optional<Priorities>& priorities, const Fields& fields);
  void append_episode(End end, const std::optional<Priorities>& priorities, const Fields& fields);
  void append_transition(End end, const Fields& fields);
  void append_transitions(ArrayLike end, const Fields& fields);
  void close() { group_->close(environment_); }
  void set_version(CallName call, std::int64_t version) { open(call.text).set_version(version); }
  [[nodiscard]] std::size_t completing(CallName call, End end) {
    return open(call.text).completing(end);
  }
  [[nodiscard]] bool in_episode() const { return group_->in_episode(environment_); }
  [[nodiscard]] std::int64_t episode_id() const;
  [[nodiscard]] std::uint64_t episode_steps() const;

 private:
  /// An episode of which `append_episode` appended only the first `taken` steps.
  struct UnfinishedEpisode {
    std::size_t steps = 0;
    std::size_t taken = 0;
    std::uint64_t id = 0;
    std::size_t values = 0;  ///< `hash_of` of the call.
  };

  [[nodiscard]] Writer& open(const char* call) const;
  [[nodiscard]] bool continues_episode(std::size_t steps, std::span<const AnyValue> values) const;
  [[nodiscard]] std::string episode_progress() const;
  std::size_t read_episode(const Fields& fields);
  void append_loose(const LooseRows::Call& call);

  std::shared_ptr<Origin> origin_;
  std::shared_ptr<WriterGroup> group_;
  const std::size_t environment_;
  StepValues values_;
  UnfinishedEpisode episode_;
  LooseRows loose_;
};

template <>
inline constexpr Words words_of<AutoReset>{"_Autoreset", {"same_step", "next_step", "disabled"}};

class VectorWriterObject {
 public:
  VectorWriterObject(std::shared_ptr<Origin> origin, std::size_t environments, AutoReset autoreset,
                     std::chrono::nanoseconds timeout)
      : origin_(std::move(origin)),
        group_(std::make_shared<WriterGroup>(*origin_, environments, autoreset, timeout)),
        autoreset_(autoreset),
        size_(environments),
        values_(origin_->table),
        final_(origin_->table),
        loose_(origin_->table, LooseRows::Writers::Many,
               autoreset == AutoReset::NextStep ? LooseRows::Resets::Rows
                                                : LooseRows::Resets::NoRows) {}
  ~VectorWriterObject() {
    const GilRelease released(group_.use_count() == 1);
    group_.reset();
  }
  VectorWriterObject(const VectorWriterObject&) = delete;
  VectorWriterObject& operator=(const VectorWriterObject&) = delete;

  [[nodiscard]] Entered enter(const char* call) const {
    return {group_->in_use, "VectorWriter", *origin_, call};
  }
  void begin(ArrayLike env_ids, const Fields& observations);
  void append(ArrayLike end, Given<"Mapping[str, ArrayLike]"> final,
              const std::optional<Priorities>& given, ArrayLike env_ids, const Fields& fields);
  void append_transitions(ArrayLike end, ArrayLike env_ids, const Fields& fields);
  [[nodiscard]] std::size_t completing(CallName call, ArrayLike end, ArrayLike env_ids);
  void close() {
    for (std::size_t e = 0; e < size_; ++e) {
      group_->close(e);
    }
  }
  void set_version(CallName call, std::int64_t version) {
    check_writers(call.text);
    writers().set_version(version);
  }
  [[nodiscard]] Py_ssize_t size() const noexcept { return static_cast<Py_ssize_t>(size_); }
  [[nodiscard]] nb::object item(PyObject* given) const;

 private:
  [[nodiscard]] VectorWriter& writers() const { return *group_->vector; }
  /// Row i of a call belongs to environment `environment(i)`.
  [[nodiscard]] std::size_t rows() const { return writers().chosen().size(); }
  [[nodiscard]] std::size_t environment(std::size_t row) const { return writers().chosen()[row]; }
  void choose(nb::handle env_ids, const char* call);
  void check_writers(const char* call) const;
  void check_open(const char* call) const;
  void check_environments(const char* call) const;
  void check_final_names(nb::handle given, const std::string& name) const;
  void read_final(nb::handle given, const char* call);
  void read_final_field(const FieldInfo& field, const nb::object& given, const char* call);
  [[nodiscard]] nb::object rows_to_array(const nb::object& given, const FieldInfo& field,
                                         GivenIn in) const;
  [[nodiscard]] bool ends(std::size_t row) const { return ends_[row] != End::Continue; }
  void add_rows_now(const StepValues& values, std::vector<AnyValue>& to) const;
  void add_rows_next(const StepValues& values, std::vector<AnyValue>& to) const;

  std::shared_ptr<Origin> origin_;
  std::shared_ptr<WriterGroup> group_;
  const AutoReset autoreset_;
  const std::size_t size_;
  /// Whether the last append left the steps of some environments over, which the next one, called
  /// with the same arguments, appends. The other environments may be outside an episode by then.
  bool unfinished_ = false;

  // The arguments of the present call, in memory that all calls use.
  StepValues values_;
  StepValues final_;  ///< The `final` observations, as next observations.
  std::vector<End> ends_;
  std::vector<std::size_t> ids_;
  std::vector<AnyValue> rows_;
  std::vector<AnyValue> finals_;
  LooseRows loose_;
};

/// A StepPacker, as the origin of writers that never wait.
class SharedPacker final : public Origin {
 public:
  SharedPacker(const Schema& schema, const Options& shard_options, StepPacker made)
      : Origin(schema, shard_options.window),
        packer(std::move(made)),
        max_writers_(shard_options.max_writers) {}

  [[nodiscard]] Writer writer(const WriterOptions& /*options*/) override {
    return packer->writer();
  }
  [[nodiscard]] VectorWriter vector_writer(std::size_t environments,
                                           const WriterOptions& /*options*/,
                                           AutoReset autoreset) override {
    return packer->vector_writer(environments, autoreset);
  }
  /// Sets only `committed_steps`, to the steps that are still in the packer: there is no buffer.
  /// std::logic_error in a forked child.
  [[nodiscard]] Stats stats() override {
    Stats stats;
    stats.committed_steps = packer ? packer->steps() : 0;
    return stats;
  }
  [[nodiscard]] bool refuses_steps() override { return !packer; }
  [[nodiscard]] std::size_t max_writers() const { return max_writers_; }

  std::optional<StepPacker> packer;  ///< Empty once the PackerObject is gone.

 private:
  const std::size_t max_writers_;
};

/// reprise.StepPacker: shares its packer with its writers, which are closed with it, because nobody
/// could take their steps any more.
struct PackerObject {
  explicit PackerObject(std::shared_ptr<SharedPacker> packer) : shared(std::move(packer)) {}
  ~PackerObject() { shared->packer.reset(); }
  PackerObject(const PackerObject&) = delete;
  PackerObject& operator=(const PackerObject&) = delete;

  [[nodiscard]] Origin::Call enter(const char* call) const { return {*shared, call}; }
  [[nodiscard]] StepPacker& core() const { return *shared->packer; }

  std::shared_ptr<SharedPacker> shared;
};

}  // namespace reprise::python
