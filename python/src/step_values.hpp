#pragma once

#include <reprise/writer.hpp>

#include "fast_method.hpp"
#include "values.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

/// The arguments of one append, checked before any of them is written.
namespace reprise::python {

/// Copies of more than this many bytes are made without the GIL.
inline constexpr std::size_t kCopyWithGil = 512;

/// The arguments of an append that are no fields; borrowed, null if not given.
struct AppendKeywords {
  PyObject* end = nullptr;
  PyObject* priorities = nullptr;
  PyObject* final = nullptr;
};

/// The arguments that a call takes. Masks by field.
struct Expected {
  const char* call = "";
  std::uint64_t now = 0;       ///< Required by plain name.
  std::uint64_t optional = 0;  ///< Allowed by plain name.
  std::uint64_t next = 0;      ///< Required as next_ and the name.
  std::optional<std::size_t> rows = std::nullopt;
  /// Rows of observations by plain name.
  std::optional<std::size_t> observation_rows = std::nullopt;
  bool takes_end = true;
  bool takes_priorities = true;
  bool takes_final = false;
};

/// Takes every field of the call. ValueError for unknown and missing fields, naming those there
/// are; else as `Value::take`.
AppendKeywords read_fields(const Arguments& arguments, const FieldTable& table,
                           const Expected& expected, StepValues& values);

/// Recurrent states that were not given.
[[nodiscard]] inline std::uint64_t missing_states(const StepValues& values,
                                                  const FieldTable& table) noexcept {
  return table.recurrent_states() & ~values.given_now;
}

/// ValueError at a position of an episode that is a multiple of `every`, where an item may begin,
/// which needs what is missing; it names the environment if it is one of several.
void check_states(std::uint64_t missing, const FieldTable& table, const char* call,
                  std::uint64_t position, std::uint64_t every,
                  std::optional<std::size_t> environment = std::nullopt);

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

/// Copies row `row` of the fields of a mask to a writer's current or next step.
void write_now(Writer& writer, const FieldTable& table, const StepValues& values,
               std::uint64_t mask, std::size_t row);
void write_next(Writer& writer, const FieldTable& table, const StepValues& values, std::size_t row);

void init_keywords();

}  // namespace reprise::python
