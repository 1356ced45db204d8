#include <reprise/writer.hpp>

#include "base/text.hpp"
#include "schema/field_check.hpp"
#include "writer/step_writer.hpp"

#include <algorithm>
#include <array>

namespace reprise {
namespace {

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

/// The first stop of the data path. The next one is `WriterCore::commit`, for a buffer of this
/// process.
CommitStatus Writer::commit(End end, std::span<const float> priorities) {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::commit");
  core(*rows_).check_commit(end, priorities);
  return core(*rows_).commit(end, priorities);
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
  // A field is named at most twice, as now and as next. One value more than that is passed on, so
  // that too many are refused because one is named twice. The array is not initialised, because
  // most of it is never used. NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  std::array<detail::RawValue, std::size_t{2} * 64 + 1> raw;
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

void Writer::set_timeout(std::chrono::nanoseconds timeout) {
  base::require(timeout.count() >= 0, base::Call{"Writer::set_timeout"}, timeout.count(),
                " ns; allowed: at least 0");
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::set_timeout");
  core(*rows_).set_timeout(timeout);
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
