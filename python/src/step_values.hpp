#pragma once

#include <reprise/writer.hpp>

#include "fast_method.hpp"
#include "values.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

/// Reads the arguments of one append. They are checked before any of them is written.
namespace reprise::python {

/// Copies of more than this many bytes are made without the GIL.
inline constexpr std::size_t kCopyWithGil = 512;

/// The arguments of an append other than fields; borrowed, null if not given.
struct AppendKeywords {
  PyObject* end = nullptr;
  PyObject* priorities = nullptr;
  PyObject* final = nullptr;
};

/// The arguments that a call takes. Masks by field.
struct Expected {
  const char* call = "";
  std::uint64_t now = 0;       ///< Fields required by plain name.
  std::uint64_t optional = 0;  ///< Fields allowed by plain name.
  std::uint64_t next = 0;      ///< Fields required as "next_" and the name.
  std::optional<std::size_t> rows = std::nullopt;
  /// Rows of the observations that are given by plain name.
  std::optional<std::size_t> observation_rows = std::nullopt;
  bool takes_end = true;
  bool takes_priorities = true;
  bool takes_final = false;
};

/// Takes every field of the call. ValueError for unknown and missing fields, which lists the fields
/// that exist; other errors as `Value::take`.
AppendKeywords read_fields(const Arguments& arguments, const FieldTable& table,
                           const Expected& expected, StepValues& values);

/// The recurrent states that were not given, as a mask.
[[nodiscard]] inline std::uint64_t missing_states(const StepValues& values,
                                                  const FieldTable& table) noexcept {
  return table.recurrent_states() & ~values.given_now;
}

/// ValueError if recurrent states are missing and the position in the episode is a multiple of
/// `every`, because an item may begin there. It names the environment if it is one of several.
void check_states(std::uint64_t missing, const FieldTable& table, const char* call,
                  std::uint64_t position, std::uint64_t every,
                  std::optional<std::size_t> environment = std::nullopt);

/// Releases the values that a call took, on every way out of the call.
class TakenValues {
 public:
  explicit TakenValues(StepValues& values) noexcept : values_(values) {}
  ~TakenValues() { values_.reset(); }
  TakenValues(const TakenValues&) = delete;
  TakenValues& operator=(const TakenValues&) = delete;

 private:
  StepValues& values_;
};

/// Copy row `row` of the fields of a mask to a writer's current or next step.
void write_now(Writer& writer, const FieldTable& table, const StepValues& values,
               std::uint64_t mask, std::size_t row);
void write_next(Writer& writer, const FieldTable& table, const StepValues& values, std::size_t row);

void init_keywords();

}  // namespace reprise::python
