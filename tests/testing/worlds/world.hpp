#pragma once

#include "step_name.hpp"
#include "testing/library.hpp"

namespace reprise::test {

/// A step of a stream (`SequenceEnd::Continue`), and the end that its commit gave it.
struct StreamStep {
  StepName name;
  End end = End::Continue;
};

/// Writes and checks rows whose values follow from the step's name, which its first observation
/// contains; in a mutable column, also from the number of the write. So any thread can check a
/// batch without a record of what was written.
class World {
 public:
  struct Fields {
    std::size_t name_bytes = kMinNameBytes;  ///< Size of the observation that holds the name.
    bool many = true;  ///< Whether there are several observations, columns and rewards.
    bool discount = false;
    bool states = false;
    bool compressed = false;
    bool mutable_columns = false;
    bool versions = false;  ///< Whether steps have the version of a policy.
    /// Whether every write to a mutable column goes through `rewrite`, which records it. Otherwise
    /// the value of any write to the step is right.
    bool recorded = true;
  };
  static constexpr std::size_t kMinNameBytes = 32;

  explicit World(const Fields& fields);
  World() : World(Fields()) {}

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] std::span<const AnyField> fields() const { return fields_; }
  /// The observation that holds the name.
  [[nodiscard]] AnyField name_field() const { return fields_.front(); }
  [[nodiscard]] std::size_t bytes(AnyField field) const {
    return schema_.fields()[field.index()].bytes;
  }

  /// The name of a step in worlds where writers and episodes have no numbers, only episode ids.
  [[nodiscard]] static StepName name_of(std::uint64_t episode_id, std::uint64_t position) {
    return {0, static_cast<std::uint32_t>(episode_id), static_cast<std::uint32_t>(position), 0,
            episode_id};
  }

  /// The version of the policy that made a step. It rises from episode to episode, and mostly
  /// within an episode.
  [[nodiscard]] static std::int64_t version_of(const StepName& name) {
    return name.episode % 1024 + name.position / 4 + static_cast<std::int64_t>(name.hash() % 3);
  }

  /// Begins an episode and writes its first observation. The step's name is `name` with the
  /// buffer's episode id, or follows from that id alone.
  StepName begin(Writer& writer, StepName name) const;
  void begin(Writer& writer) const;
  /// Writes only the first observation, for an episode that has been begun already.
  void write_first(Writer& writer, const StepName& name) const;
  /// Writes the columns of the episode's next step and the observation after it.
  void write_step(Writer& writer, const StepName& name) const;
  void write_step(Writer& writer) const;
  /// Writes the recurrent states of the episode's next step.
  void write_states(Writer& writer, const StepName& name) const;
  void write_states(Writer& writer) const;

  /// Commits steps, with recurrent states if the schema has any, and begins an episode if none is
  /// open. The last commit gets `end`.
  void append(Writer& writer, std::size_t steps = 1, End end = End::Continue) const;

  /// Records write number `write` to a mutable column of a step, and returns the value to write.
  std::vector<std::byte> rewrite(AnyField field, const StepName& name, std::uint64_t write);

  /// Writes the value of a field of a step, or of the observation with which it begins, to `to`.
  /// `write` is the number of the write to a mutable column, 0 for the one at the append.
  void fill(std::span<std::byte> to, AnyField field, const StepName& name,
            std::uint64_t write = 0) const;
  [[nodiscard]] std::vector<std::byte> content(AnyField field, const StepName& name) const;
  [[nodiscard]] bool matches(std::span<const std::byte> value, AnyField field,
                             const StepName& name) const;

  /// The name in an item's first step; none if that observation differs in any bit from what the
  /// name gives.
  [[nodiscard]] std::optional<StepName> name_in(const Batch& batch, std::size_t item) const;

  /// The names in all steps of a sequence.
  [[nodiscard]] std::vector<std::optional<StepName>> names_in(const Batch& batch,
                                                              std::size_t item) const;

  /// Describes the first thing wrong with an item of a batch; empty if it is right. The item's
  /// length is not checked. `terminated`: the episode terminates with the item's last step.
  [[nodiscard]] std::string mismatch(const Batch& batch, std::size_t item, const Window& window,
                                     bool terminated) const {
    return mismatch(batch, item, window, terminated, {});
  }
  /// Does the same for an item of a stream, whose steps are `steps`.
  [[nodiscard]] std::string mismatch(const Batch& batch, std::size_t item, const Window& window,
                                     std::span<const StreamStep> steps) const {
    return mismatch(batch, item, window, false, steps);
  }

 private:
  class Item;
  /// The kind of value in a field. Plain words count up from a hash. The other kinds begin with
  /// special words, which plain words follow.
  enum class Content : std::uint8_t { Plain, Name, Number, Written, Frame, Version };

  [[nodiscard]] std::string mismatch(const Batch& batch, std::size_t item, const Window& window,
                                     bool terminated, std::span<const StreamStep> steps) const;
  void add(const char* name, Role role, DType dtype, std::vector<std::size_t> shape,
           Content content = Content::Plain);
  [[nodiscard]] std::uint64_t hash(AnyField field, const StepName& name, std::uint64_t write) const;
  [[nodiscard]] std::uint64_t word(AnyField field, const StepName& name, std::uint64_t hash,
                                   std::uint64_t write, std::size_t i) const;
  /// How many words at the beginning of a field are not plain.
  [[nodiscard]] std::size_t special_words(AnyField field) const;
  [[nodiscard]] std::optional<StepName> recognise(std::span<const std::byte> value) const;
  /// The number of the write that `value` has to show: the last one recorded, or if writes are not
  /// recorded the one that `value` names. 0 for fields that are not mutable columns.
  [[nodiscard]] std::uint64_t write_of(std::span<const std::byte> value, AnyField field,
                                       const StepName& name) const;
  /// The value of a reward or discount.
  [[nodiscard]] double number(AnyField field, const StepName& name) const;

  Schema schema_;
  std::vector<AnyField> fields_;
  std::vector<Content> contents_;
  bool recorded_;
  /// The number of the last write, by the field's index and the hash of the step's name.
  std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> changes_;
};

}  // namespace reprise::test
