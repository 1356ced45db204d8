#include "writer/step_writer.hpp"

#include <reprise/detail/finite.hpp>

#include "base/text.hpp"
#include "buffer/update.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace reprise::writer {
namespace {

/// The field's values of one transition, in an array with those of all transitions.
const std::byte* row_of(const detail::RawValue& value, const FieldSpec& spec,
                        std::size_t transition) noexcept {
  return static_cast<const std::byte*>(value.data) + transition * spec.bytes;
}

template <class... Parts>
void require_transition(bool ok, const Parts&... parts) {
  base::require(ok, base::Call{"Writer::add_transition"}, parts...);
}

}  // namespace

StepWriter::StepWriter(const Rules& rules, const WriterOptions& options)
    : format_(rules.format),
      timeout_(options.timeout),
      stop_(options.stop),
      hook_(options.hook),
      selectors_(rules.selectors),
      life_(rules.life),
      needs_priorities_(rules.selectors.need_priorities()) {
  fields = format_.layout.fields().data();
  field_count = format_.layout.fields().size();
}

std::size_t StepWriter::completing(End end) const noexcept {
  if (!in_episode()) {
    return 0;
  }
  if (end == End::Continue || format_.window.continues()) {
    return open_ + 1 == format_.window.ahead() && begins_item(open_, format_.window.ahead(), end)
               ? 1
               : 0;
  }
  if (format_.window.every_step()) {
    return open_ + 1;
  }
  std::size_t items = 0;
  for (std::uint32_t back = 0; back <= open_; ++back) {
    if (begins_item(back, back + 1, end)) {
      ++items;
    }
  }
  return items;
}

CommitStatus StepWriter::add_transitions(std::span<const End> ends,
                                         std::span<const detail::RawValue> values,
                                         std::size_t& done) {
  check_values(values);
  std::ranges::for_each(ends, check_end);
  check_rows(ends.size(), values, done);
  const std::span<const FieldSpec> specs = format_.schema.fields();
  const auto memory_of = [&](const detail::RawValue& value) {
    const int now = specs[value.index].traits().per_item ? kState : kNow;
    return rows[value.next ? kNext : now] + fields[value.index].offset;
  };
  for (; done < ends.size(); ++done) {
    const End end = ends[done];
    // A transition whose observations equal the writer's current ones continues the episode.
    bool continues = from_transitions_ && in_episode();
    for (const detail::RawValue& value : values) {
      const FieldSpec& spec = specs[value.index];
      continues =
          continues && (value.next || !spec.traits().has_next ||
                        std::memcmp(memory_of(value), row_of(value, spec, done), spec.bytes) == 0);
    }
    if (needs_priorities_) {  // Throws before the episode under way is ended.
      check_priorities(continues ? completing(end) : check_episode(1, end, {}), {});
    }
    if (!continues) {
      begin_episode();
    }
    for (const detail::RawValue& value : values) {
      const FieldSpec& spec = specs[value.index];
      if (!continues || value.next || !spec.traits().has_next) {
        std::memcpy(memory_of(value), row_of(value, spec, done), spec.bytes);
      }
      taken[value.next ? kNext : kNow] |= std::uint64_t{1} << value.index;
    }
    if (const CommitStatus status = stamp_and_commit(end, {}); status != CommitStatus::Committed) {
      return status;
    }
    from_transitions_ = true;
  }
  return CommitStatus::Committed;
}

void StepWriter::set_version(std::int64_t version) {
  const base::Call call{"Writer::set_version"};
  base::require(version >= 0, call, "version is ", version, "; allowed: at least 0");
  base::require(format_.layout.version_field().has_value(), call,
                "the schema has no version; allowed: one that declares it");
  version_ = version;
}

void StepWriter::check_end(End end) {
  base::require(end <= End::Truncated, base::Call{"Writer::commit"}, "end is ",
                static_cast<unsigned>(end),
                "; allowed: Continue (0), Terminated (1), Truncated (2)");
}

void StepWriter::check_commit(End end, std::span<const float> priorities) const {
  check_end(end);
  life_.check_not_forked();
  check_step();
  if (format_.schema.requires_finite()) {
    check_finite();
  }
  if (!priorities.empty() || needs_priorities_) {
    check_priorities(completing(end), priorities);
  }
}

std::size_t StepWriter::check_episode(std::size_t steps, End end, std::span<const float> priorities,
                                      std::size_t done) const {
  check_end(end);
  const std::size_t items = count_decided(steps, end, done);
  check_priorities(items, priorities);
  return items;
}

std::size_t StepWriter::count_decided(std::size_t steps, End end, std::size_t done) const noexcept {
  if (!format_.window.continues()) {
    return items_of_episode(format_.window.options(), steps, end);
  }
  const std::uint32_t whole = format_.window.ahead();
  const std::uint64_t first = step_number() - done;
  std::size_t items = 0;
  for (std::uint64_t last = std::max<std::uint64_t>(first, whole - 1); last < first + steps;
       ++last) {
    if (format_.window.begins_item(last + 1 - whole, whole, /*ends=*/false)) {
      ++items;
    }
  }
  return items;
}

/// Throws unless an episode is under way, every field that this step needs is written, and the
/// discount and a version that the caller wrote are within their ranges.
void StepWriter::check_step() const {
  const std::uint64_t missing_now = format_.layout.field_mask() & ~taken[kNow];
  const std::uint64_t missing_next = format_.layout.observation_mask() & ~taken[kNext];
  if (!in_episode() || (missing_now | missing_next) != 0) {
    check_unwritten(missing_now, missing_next);
  }
  if (const auto field = format_.layout.discount_field()) {
    check_discount(rows[kNow] + fields[*field].offset);
  }
  if (const auto field = format_.layout.version_field();
      field && (taken[kNow] >> *field & 1U) != 0) {
    check_version(rows[kNow] + fields[*field].offset);
  }
}

void StepWriter::check_discount(const void* value) const {
  float discount = 0.0F;
  std::memcpy(&discount, value, sizeof(discount));
  if (!(discount >= 0.0F && discount <= 1.0F)) {
    base::refuse(base::Call{"Writer::commit"}, "field '",
                 format_.schema.fields()[*format_.layout.discount_field()].name, "' is ", discount,
                 "; allowed: 0 to 1");
  }
}

void StepWriter::check_version(const void* value) const {
  std::int64_t version = 0;
  std::memcpy(&version, value, sizeof(version));
  base::require(version >= 0, base::Call{"Writer::commit"}, "field '",
                format_.schema.fields()[*format_.layout.version_field()].name, "' is ", version,
                "; allowed: at least 0");
}

/// Throws outside an episode and if a field is unwritten; only the recurrent states of a step with
/// which no item can begin need not be written.
void StepWriter::check_unwritten(std::uint64_t missing_now, std::uint64_t missing_next) const {
  if (!in_episode()) {
    base::refuse<std::logic_error>(base::Call{"Writer::commit"},
                                   "outside an episode: call begin_episode first");
  }
  if (!needs_states(position_)) {
    missing_now &= ~format_.layout.state_mask();
  }
  if ((missing_now | missing_next) == 0) {
    return;
  }
  const bool now = missing_now != 0;
  const auto field = static_cast<std::size_t>(std::countr_zero(now ? missing_now : missing_next));
  base::refuse<std::logic_error>(
      base::Call{"Writer::commit"}, "field '", format_.schema.fields()[field].name, "' of the ",
      now ? "current" : "next", " step is unwritten: write it through ", now ? "now" : "next");
}

/// Throws if a value of the current step must be finite and is not. The step's own observations are
/// checked only in the first step of an episode: later ones were checked as the next observations
/// of the step before.
void StepWriter::check_finite() const {
  const std::span<const FieldSpec> specs = format_.schema.fields();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool observation = specs[i].traits().has_next;
    if (specs[i].traits().checked_finite && (!observation || position_ == 0)) {
      check_finite(kNow, i, rows[kNow] + fields[i].offset);
    }
    if (observation) {
      check_finite(kNext, i, rows[kNext] + fields[i].offset);
    }
  }
}

void StepWriter::check_finite(std::size_t step, std::size_t field, const void* values,
                              std::optional<std::size_t> transition) const {
  const FieldSpec& spec = format_.schema.fields()[field];
  const detail::NotFinite found =
      detail::find_not_finite(spec.dtype, {static_cast<const std::byte*>(values), spec.bytes});
  if (found.name == nullptr) {
    return;
  }
  base::refuse(base::Call{"Writer::commit"}, "field '", spec.name, "' of the ",
               step == kNext ? "next" : "current", " step is ", found.name, " at element ",
               found.element, ", in ",
               transition ? base::text("transition ", *transition)
                          : base::text("step ", position_, " of episode ", episode_),
               "; allowed: finite (", base::OptionsOf{"Schema"}, "require_finite)");
}

void StepWriter::check_rows(std::size_t count, std::span<const detail::RawValue> values,
                            std::size_t first) const {
  require_transition(first <= count, "taken is ", first, "; allowed: 0 to ", count);
  for (const detail::RawValue& value : values) {
    const FieldSpec& spec = format_.schema.fields()[value.index];
    const bool is_discount = format_.layout.discount_field() == value.index;
    const bool is_version = format_.layout.version_field() == value.index;
    const bool must_be_finite = format_.schema.requires_finite() && spec.traits().checked_finite;
    if (!is_discount && !is_version && !must_be_finite) {
      continue;
    }
    for (std::size_t i = first; i < count; ++i) {
      if (must_be_finite) {
        check_finite(value.next ? std::size_t{kNext} : std::size_t{kNow}, value.index,
                     row_of(value, spec, i), i);
      }
      if (is_discount) {
        check_discount(row_of(value, spec, i));
      }
      if (is_version) {
        check_version(row_of(value, spec, i));
      }
    }
  }
  // Checked here too, because the caller touches rows next, which a forked child may not have.
  life_.check_not_forked();
}

void StepWriter::check_priority_count(std::size_t items, std::size_t priorities) const {
  if (priorities == 0) {
    base::require(!needs_priorities_ || items == 0, base::Call{"Writer::commit"},
                  "0 priorities; with initial = ", base::Enumerator{"FromCaller"},
                  " one for each of the ", items, " items decided");
    return;
  }
  base::require(priorities == items, base::Call{"Writer::commit"}, priorities,
                " priorities; this call decides ", items, " items");
}

void StepWriter::check_priorities(std::size_t items, std::span<const float> priorities) const {
  check_priority_count(items, priorities.size());
  for (const auto& rule : selectors_.rules()) {
    buffer::check_priorities("Writer::commit", priorities, *rule);
  }
}

void StepWriter::check_values(std::span<const detail::RawValue> values) const {
  std::uint64_t named[2] = {0, 0};  // Bit i: field i is named, as now or as next.
  const auto& fields_of_schema = format_.layout.fields();
  for (const detail::RawValue& value : values) {
    require_transition(value.index < fields_of_schema.size() &&
                           fields_of_schema[value.index].signature == value.signature,
                       "field ", value.index, " is not of this buffer's schema");
    const char* const name = format_.schema.fields()[value.index].name.c_str();
    const std::size_t elements = fields_of_schema[value.index].elements;
    require_transition(value.elements == elements, "field '", name, "' has ", value.elements,
                       " elements; allowed: ", elements);
    const std::uint64_t bit = std::uint64_t{1} << value.index;
    require_transition(!value.next || (format_.layout.observation_mask() & bit) != 0, "field '",
                       name, "' is no observation; allowed as next: observations");
    require_transition((named[value.next ? 1 : 0] & bit) == 0, "field '", name, "' is named twice");
    named[value.next ? 1 : 0] |= bit;
  }
  const std::uint64_t missing_now = format_.layout.field_mask() & ~named[0];
  const std::uint64_t missing_next = format_.layout.observation_mask() & ~named[1];
  if ((missing_now | missing_next) != 0) {
    const auto first = static_cast<std::size_t>(std::countr_zero(missing_now | missing_next));
    base::refuse(base::Call{"Writer::add_transition"}, "field '",
                 format_.schema.fields()[first].name, "' is missing as ",
                 (missing_now >> first & 1U) != 0 ? "now" : "next");
  }
}

}  // namespace reprise::writer
