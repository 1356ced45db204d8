#include <reprise/writer.hpp>

#include "api/writer_core.hpp"

namespace reprise {
namespace {

detail::WriterCore& core(detail::RowView& rows) noexcept {
  return static_cast<detail::WriterCore&>(rows);
}

}  // namespace

void Writer::begin_episode() {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::begin_episode");
  core(*rows_).begin_episode();
}

std::size_t Writer::completing(End end) const {
  return core(*rows_).completing(end);
}

CommitStatus Writer::commit(End end, std::span<const float> priorities) {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::commit");
  core(*rows_).check_commit(end, priorities);
  return core(*rows_).commit(end, priorities);
}

CommitStatus Writer::add_raw_transition(End end, std::span<const detail::RawValue> values) {
  const base::OneThread::Inside inside(core(*rows_).one_thread, "Writer::add_transition");
  return core(*rows_).add_transition(end, values);
}

bool Writer::step_held() const noexcept {
  return core(*rows_).held();
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

void WriterDeleter::operator()(RowView* writer) const noexcept {
  delete static_cast<WriterCore*>(writer);
}

}  // namespace detail

}  // namespace reprise
