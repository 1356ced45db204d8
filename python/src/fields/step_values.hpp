#pragma once

#include <reprise/writer.hpp>

#include "values.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

/// The fields that one append is given, checked before any of them is written.
namespace reprise::python {

/// The fields that a call takes. Masks by field.
struct Expected {
  std::uint64_t now = 0;       ///< Required by plain name.
  std::uint64_t optional = 0;  ///< Allowed by plain name.
  std::uint64_t next = 0;      ///< Required as next_ and the name.
  std::optional<std::size_t> rows = std::nullopt;
  /// Rows of observations by plain name.
  std::optional<std::size_t> observation_rows = std::nullopt;
};

/// Takes every field of the call. ValueError for unknown and missing fields, naming those there
/// are; else as `Value::take`.
void read_fields(const Fields& fields, const FieldTable& table, const Expected& expected,
                 StepValues& values);

/// ValueError where a recurrent state is missing at a position of an episode with which an item may
/// begin; it names the environment if it is one of several.
void check_states(const StepValues& values, const FieldTable& table, const Window& window,
                  const char* call, std::uint64_t position,
                  std::optional<std::size_t> environment = std::nullopt);

/// The priorities of a call, if it has any. ValueError for an array of length 0 where `items` are
/// decided: to the core it is as if none were given.
[[nodiscard]] std::span<const float> some_of(const std::optional<Priorities>& priorities,
                                             std::size_t items, const char* call);

/// Gives up what a call took, however it ends.
class TakenValues {
 public:
  explicit TakenValues(StepValues& values) noexcept : values_(values) {}
  ~TakenValues() { values_.reset(); }
  TakenValues(const TakenValues&) = delete;
  TakenValues& operator=(const TakenValues&) = delete;

 private:
  StepValues& values_;
};

/// Copies row `row` of the given fields of a mask to a writer's current or next step.
void write_now(Writer& writer, const FieldTable& table, const StepValues& values,
               std::uint64_t mask, std::size_t row);
void write_next(Writer& writer, const FieldTable& table, const StepValues& values, std::size_t row);

}  // namespace reprise::python
