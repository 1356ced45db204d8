#include <reprise/writer.hpp>

#include "base/text.hpp"
#include "schema/field_check.hpp"
#include "writer/step_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace reprise {
namespace {

/// The most fields of a schema (`Schema`): writers keep one bit per field.
constexpr std::size_t kMostFields = 64;

writer::StepWriter& core(detail::RowView& rows) noexcept {
  return static_cast<writer::StepWriter&>(rows);
}

}  // namespace

void Writer::begin_episode() {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::begin_episode");
  core(*rows_).begin_episode();
}

std::size_t Writer::completing(End end) const {
  return core(*rows_).completing(end);
}

std::size_t Writer::check_episode(std::size_t steps, End end,
                                  std::span<const float> priorities) const {
  return core(*rows_).check_episode(steps, end, priorities);
}

/// The first stop of the data path. In the buffer's own process the next one is
/// `WriterCore::commit`.
CommitStatus Writer::commit(End end, std::span<const float> priorities) {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::commit");
  core(*rows_).check_commit(end, priorities);
  return core(*rows_).stamp_and_commit(end, priorities);
}

CommitStatus Writer::add_raw_transition(End end, std::span<const detail::RawValue> values) {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::add_transition");
  std::size_t taken = 0;
  return core(*rows_).add_transitions(std::span(&end, 1), values, taken);
}

CommitStatus Writer::add_transition(End end, std::span<const AnyValue> values) {
  std::size_t taken = 0;
  return add_transitions(std::span(&end, 1), values, taken);
}

CommitStatus Writer::add_transitions(std::span<const End> ends, std::span<const AnyValue> values,
                                     std::size_t& taken) {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::add_transitions");
  if (ends.empty()) {
    return CommitStatus::Committed;
  }
  // Each field may be named twice, as now and as next. One value more than that is passed on: if
  // there are more, some field is named twice as now or as next, and `check_values` refuses that.
  // The array is not initialised, because most of it is never used.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  std::array<detail::RawValue, 2 * kMostFields + 1> raw;
  const std::size_t count = std::min(values.size(), raw.size());
  for (std::size_t i = 0; i < count; ++i) {
    const AnyField field = values[i].field;
    const std::size_t element = element_bytes(field.dtype());
    base::require(values[i].bytes.size() % (ends.size() * element) == 0,
                  base::Call{"Writer::add_transition"}, "field ", field.index(), " has ",
                  values[i].bytes.size(), " bytes; allowed: ", ends.size(),
                  " rows of whole elements of ", element);
    raw.at(i) = {field.index(), values[i].next, field.signature(), values[i].bytes.data(),
                 values[i].bytes.size() / ends.size() / element};
  }
  return core(*rows_).add_transitions(ends, std::span(raw).first(count), taken);
}

namespace {

constexpr base::Call kAddEpisode{"Writer::add_episode"};

/// The rows of a field in the values of an episode of so many steps.
std::size_t rows_of(AnyField field, std::size_t steps) {
  return steps + (traits(field.role()).has_next ? 1 : 0);
}

/// Throws unless the values are those of an episode of so many steps, of which `taken` were taken.
/// They are checked as those of transitions, whose next observations begin one row further on.
void check_episode_values(const writer::StepWriter& own, std::size_t steps,
                          std::span<const AnyValue> values, std::size_t taken) {
  // One value more than a schema has fields is passed on, so that `check_values` refuses a field
  // that is named twice.
  constexpr std::size_t kMostValues = kMostFields + 1;
  std::array<detail::RawValue, 2 * kMostValues> raw;  // NOLINT(*-member-init): mostly unused.
  std::size_t count = 0;
  for (const AnyValue& value : values.first(std::min(values.size(), kMostValues))) {
    const AnyField field = value.field;
    const std::size_t rows = rows_of(field, steps);
    const std::size_t element = element_bytes(field.dtype());
    base::require(!value.next, kAddEpisode, "field ", field.index(),
                  " is named as next; allowed: once, ",
                  "an observation with the final one as its last row");
    base::require(value.bytes.size() % (rows * element) == 0, kAddEpisode, "field ", field.index(),
                  " has ", value.bytes.size(), " bytes; allowed: ", rows,
                  " rows of whole elements of ", element);
    const std::size_t row = value.bytes.size() / rows;
    for (std::size_t next = 0; next <= rows - steps; ++next) {
      raw.at(count++) = {field.index(), next != 0, field.signature(),
                         value.bytes.data() + next * row, row / element};
    }
  }
  own.check_values(std::span(raw).first(count));
  own.check_rows(steps, std::span(raw).first(count), taken);
}

}  // namespace

CommitStatus Writer::add_episode(std::size_t steps, End end, std::span<const AnyValue> values,
                                 std::size_t& taken, std::span<const float> priorities) {
  writer::StepWriter& own = core(*rows_);
  const base::OneThread::Inside inside(own.one_thread, "Writer::add_episode");
  base::require(steps != 0, kAddEpisode, "0 steps; allowed: at least 1");
  check_episode_values(own, steps, values, taken);
  own.check_episode(steps, end, priorities, taken);
  base::require(taken == 0 || (own.in_episode() && own.position() == taken), kAddEpisode,
                "taken is ", taken, ", and the writer's episode has ", own.position(),
                " steps; allowed: 0, or to go on behind the steps that were taken");
  if (taken == 0) {
    own.begin_episode();
  }
  std::size_t used =
      priorities.empty() || taken == 0 ? 0 : own.count_decided(taken, End::Continue, taken);
  for (; taken < steps; ++taken) {
    for (const AnyValue& value : values) {
      const std::size_t row = value.bytes.size() / rows_of(value.field, steps);
      const bool observation = traits(value.field.role()).has_next;
      const std::byte* const from = value.bytes.data() + taken * row;
      if (!observation || taken == 0) {
        std::memcpy(now(value.field).data(), from, row);
      }
      if (observation) {
        std::memcpy(next(value.field).data(), from + row, row);
      }
    }
    const End last = taken + 1 == steps ? end : End::Continue;
    const std::size_t items = priorities.empty() ? 0 : own.completing(last);
    const CommitStatus status = own.stamp_and_commit(last, priorities.subspan(used, items));
    if (status != CommitStatus::Committed) {
      return status;
    }
    used += items;
  }
  return CommitStatus::Committed;
}

void Writer::set_timeout(std::chrono::nanoseconds timeout) {
  base::require(timeout.count() >= 0, base::Call{"Writer::set_timeout"}, timeout.count(),
                " ns; allowed: at least 0");
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::set_timeout");
  core(*rows_).set_timeout(timeout);
}

void Writer::set_version(std::int64_t version) {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::set_version");
  core(*rows_).set_version(version);
}

bool Writer::in_episode() const noexcept {
  return core(*rows_).in_episode();
}
std::uint64_t Writer::episode_id() const noexcept {
  return core(*rows_).episode();
}
std::uint64_t Writer::episode_steps() const noexcept {
  return core(*rows_).position();
}

namespace detail {

void RowView::refuse(std::size_t index, std::uint32_t wanted) const {
  const Schema& schema = static_cast<const writer::StepWriter&>(*this).schema();
  if (index >= field_count || fields[index].signature != wanted) {
    schema::refuse_field(schema, index, wanted);
  }
  if (rows[kNow] == nullptr) {
    base::refuse<std::logic_error>(base::Call{"Writer"},
                                   "now and next need an episode: call begin_episode first");
  }
  base::refuse(base::Call{"Writer::next"}, "field '", schema.fields()[index].name, "' is a ",
               schema::describe(wanted), "; allowed: observations");
}

void WriterDeleter::operator()(RowView* writer) const noexcept {
  delete static_cast<writer::StepWriter*>(writer);
}

}  // namespace detail

}  // namespace reprise
