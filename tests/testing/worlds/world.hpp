#pragma once

#include "step_name.hpp"
#include "testing/library.hpp"

namespace reprise::test {

/// A step of a stream (`SequenceEnd::Continue`), and the end that its commit gave it.
struct StreamStep {
  StepName name;
  End end = End::Continue;
};

/// Rows that can be checked by themselves: the values of a step follow from its name, which its
/// first observation contains, and in a mutable column also from the number of the write. So any
/// thread can check a batch without a record of what was written.
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
    /// Whether `change` is told of every write to a mutable column. Otherwise any value of one
    /// write to the step is right.
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

  /// The name of a step if only the episode's id decides it.
  [[nodiscard]] static StepName name_of(std::uint64_t episode_id, std::uint64_t position) {
    return {0, static_cast<std::uint32_t>(episode_id), static_cast<std::uint32_t>(position), 0,
            episode_id};
  }

  /// The version of the policy that made a step: it rises from episode to episode, and within one
  /// it mostly does.
  [[nodiscard]] static std::int64_t version_of(const StepName& name) {
    return name.episode % 1024 + name.position / 4 + static_cast<std::int64_t>(name.hash() % 3);
  }

  /// Begins an episode and writes its first observation. The name is `name` with the episode's id,
  /// or follows from the id alone.
  StepName begin(Writer& writer, StepName name) const;
  void begin(Writer& writer) const;
  /// Writes the first observation alone, of an episode that was begun.
  void write_first(Writer& writer, const StepName& name) const;
  /// Writes the columns of the episode's next step and the observation after it.
  void write_step(Writer& writer, const StepName& name) const;
  void write_step(Writer& writer) const;
  /// Writes the recurrent states of that step.
  void write_states(Writer& writer, const StepName& name) const;
  void write_states(Writer& writer) const;

  /// Commits steps, with their recurrent states if there are any, and begins an episode if none is
  /// open. `end` is that of the last step.
  void append(Writer& writer, std::size_t steps = 1, End end = End::Continue) const;

  /// Records write number `write` to a mutable column of a step, and returns the value.
  std::vector<std::byte> change(AnyField field, const StepName& name, std::uint64_t write);

  /// Writes the value of a field of a step, or of the observation with which it begins. `write` is
  /// the number of the write to a mutable column, 0 for the writer's own.
  void fill(std::span<std::byte> to, AnyField field, const StepName& name,
            std::uint64_t write = 0) const;
  [[nodiscard]] std::vector<std::byte> content(AnyField field, const StepName& name) const;
  [[nodiscard]] bool holds(std::span<const std::byte> value, AnyField field,
                           const StepName& name) const;

  /// The name in an item's first step; none if a single bit of that row is wrong.
  [[nodiscard]] std::optional<StepName> name_in(const Batch& batch, std::size_t item) const;

  /// The names in all steps of a sequence.
  [[nodiscard]] std::vector<std::optional<StepName>> names_in(const Batch& batch,
                                                              std::size_t item) const;

  /// Describes the first thing wrong with an item of a batch whose length is right; empty if
  /// nothing is. `terminated`: the episode terminates with the item's last step.
  [[nodiscard]] std::string mismatch(const Batch& batch, std::size_t item, const Window& window,
                                     bool terminated) const {
    return mismatch(batch, item, window, terminated, {});
  }
  /// Does the same for an item of a stream, which has these steps.
  [[nodiscard]] std::string mismatch(const Batch& batch, std::size_t item, const Window& window,
                                     std::span<const StreamStep> steps) const {
    return mismatch(batch, item, window, false, steps);
  }

 private:
  class Item;
  /// What a value holds. `Plain` words count up from a hash, as do the later words of other kinds.
  enum class Content : std::uint8_t { Plain, Name, Number, Written, Frame, Version };

  [[nodiscard]] std::string mismatch(const Batch& batch, std::size_t item, const Window& window,
                                     bool terminated, std::span<const StreamStep> steps) const;
  void add(const char* name, Role role, DType dtype, std::vector<std::size_t> shape,
           Content content = Content::Plain);
  [[nodiscard]] std::uint64_t hash(AnyField field, const StepName& name, std::uint64_t write) const;
  [[nodiscard]] std::uint64_t word(AnyField field, const StepName& name, std::uint64_t hash,
                                   std::uint64_t write, std::size_t i) const;
  [[nodiscard]] std::size_t special_words(AnyField field) const;
  [[nodiscard]] std::optional<StepName> recognise(std::span<const std::byte> value) const;
  [[nodiscard]] std::uint64_t write_of(std::span<const std::byte> value, AnyField field,
                                       const StepName& name) const;
  /// The value of a reward or discount.
  [[nodiscard]] double number(AnyField field, const StepName& name) const;

  Schema schema_;
  std::vector<AnyField> fields_;
  std::vector<Content> contents_;
  bool recorded_;
  /// The number of the last write, by field and hash of the step's name.
  std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> changes_;
};

}  // namespace reprise::test
