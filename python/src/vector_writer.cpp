#include "vector_writer.hpp"

#include "final_observations.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

constexpr const char* kBegin = "VectorWriter.begin";
constexpr const char* kAppend = "VectorWriter.append";

std::string environment_text(std::size_t environment) {
  return "environment " + std::to_string(environment);
}

const char* autoreset_name(AutoReset autoreset) noexcept {
  constexpr const char* kNames[] = {"same_step", "next_step", "disabled"};
  return kNames[static_cast<std::size_t>(autoreset)];
}

/// ValueError for a number of environments that is not allowed, before anything is made for them.
std::size_t checked(std::size_t environments, const SharedBuffer& buffer) {
  const std::size_t most = buffer.buffer.options().max_writers;
  if (environments == 0 || environments > most) {
    throw std::invalid_argument("ReplayBuffer.vector_writer: environments is " +
                                std::to_string(environments) + "; allowed: 1 to max_writers, " +
                                std::to_string(most));
  }
  return environments;
}

}  // namespace

VectorWriterObject::VectorWriterObject(const std::shared_ptr<SharedBuffer>& buffer,
                                       std::size_t environments, AutoReset autoreset,
                                       std::chrono::nanoseconds timeout)
    : buffer_(buffer),
      timeout_(timeout),
      autoreset_(autoreset),
      marks_(std::make_shared<WriterMarks>()),
      resetting_(checked(environments, *buffer), 0),
      values_(buffer->table),
      final_(buffer->table),
      first_(environments + 1, 0),
      done_(environments, 0) {
  writers_.reserve(environments);
  for (std::size_t e = 0; e < environments; ++e) {
    writers_.push_back(std::make_shared<WriterObject>(buffer, timeout, marks_));
  }
}

void VectorWriterObject::close() {
  const InUse in_use(marks_->in_use, "VectorWriter");
  const SharedBuffer::Call under_way(*buffer_, "VectorWriter.close");
  for (const auto& writer : writers_) {
    writer->give_back();
  }
}

/// Throws Closed if the writer of an environment is closed.
void VectorWriterObject::check_writers(const char* call) const {
  buffer_->check_process();
  for (std::size_t e = 0; e < size(); ++e) {
    static_cast<void>(writer(e, call));
  }
}

void VectorWriterObject::begin(const Arguments& arguments) {
  const InUse in_use(marks_->in_use, "VectorWriter");
  const SharedBuffer::Call under_way(*buffer_, kBegin);
  check_writers(kBegin);
  if (buffer_->buffer.closed()) {
    throw Closed(std::string(kBegin) + ": the buffer is closed");
  }
  const TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  read_fields(arguments, table,
              {.call = kBegin,
               .now = table.observations(),
               .rows = size(),
               .takes_end = false,
               .takes_priorities = false},
              values_);
  values_.check_unchanged(table);
  std::fill(done_.begin(), done_.end(), std::uint8_t{0});
  const MaybeReleased released(table.copied_bytes() * size() > kCopyWithGil);
  for (std::size_t e = 0; e < size(); ++e) {
    Writer& one = writer(e, kBegin);
    if (one.in_episode() && one.episode_steps() != 0) {
      continue;
    }
    if (!one.in_episode()) {
      one.begin_episode();
    }
    resetting_[e] = 0;
    write_now(one, table, values_, table.observations(), e);
  }
}

/// An environment whose next episode the caller has begun itself is not being reset any more.
void VectorWriterObject::end_resets() {
  for (std::size_t e = 0; e < size(); ++e) {
    if (resetting_[e] != 0 && writer(e, kAppend).in_episode()) {
      resetting_[e] = 0;
    }
  }
}

/// RuntimeError for an environment outside an episode, ValueError for one that needs recurrent
/// states which are not given.
void VectorWriterObject::check_environments() const {
  const FieldTable& table = buffer_->table;
  const std::uint64_t missing = missing_states(values_, table);
  for (std::size_t e = 0; e < size(); ++e) {
    if (resetting_[e] != 0 || done_[e] != 0) {
      continue;
    }
    const Writer& one = writer(e, kAppend);
    if (!one.in_episode()) {
      throw std::logic_error(std::string(kAppend) + ": " + environment_text(e) +
                             " is outside an episode: give its first observations to begin");
    }
    if (missing != 0) {
      check_states(missing, table, kAppend, one.episode_steps(), buffer_->states_every(), e);
    }
  }
}

/// Reads the final observations of the environments that end, if any does.
void VectorWriterObject::read_final(PyObject* given) {
  const FieldTable& table = buffer_->table;
  const bool is_given = given != nullptr && given != Py_None;
  if (is_given && autoreset_ != AutoReset::SameStep) {
    throw std::invalid_argument(
        std::string(kAppend) + ": final is taken with autoreset='same_step' alone; it is '" +
        autoreset_name(autoreset_) + "', whose next observations are the final ones");
  }
  if (is_given) {
    check_final(given, table, kAppend);
  }
  bool any = false;
  for (std::size_t e = 0; e < size() && !any; ++e) {
    any = ends_[e] != End::Continue && resetting_[e] == 0;
  }
  if (autoreset_ != AutoReset::SameStep || !any) {
    return;
  }
  if (!is_given) {
    throw py::value_error(std::string(kAppend) +
                          ": final is missing: an environment ended, and with "
                          "autoreset='same_step' next observations are those after the reset; "
                          "give a dict of the final observations, [E, ...], by name: " +
                          table.names(table.observations()));
  }
  take_final(given, table, kAppend, ends_, final_);
}

/// Checks the priorities and finds where those of each environment begin. A repeated append keeps
/// the places of the first one.
void VectorWriterObject::plan_priorities(PyObject* given) {
  py::object owner;
  const auto priorities = optional_priorities_from(given, owner);
  priorities_.clear();
  if (priorities) {
    priorities_.assign(priorities->begin(), priorities->end());
  } else if (!buffer_->needs_priorities()) {
    return;
  }
  for (std::size_t e = 0; e < size() && !repeated(); ++e) {
    first_[e + 1] =
        first_[e] + (resetting_[e] != 0 ? 0 : writers_[e]->open(kAppend).completing(ends_[e]));
  }
  buffer_->check_priorities(priorities, first_.back(), kAppend);
}

void VectorWriterObject::append(const Arguments& arguments) {
  const InUse in_use(marks_->in_use, "VectorWriter");
  const SharedBuffer::Call under_way(*buffer_, kAppend);
  check_writers(kAppend);
  end_resets();
  const TakenValues taken(values_);
  const TakenValues taken_final(final_);
  const FieldTable& table = buffer_->table;
  const AppendKeywords keywords = read_fields(arguments, table,
                                              {.call = kAppend,
                                               .now = table.columns(),
                                               .optional = table.recurrent_states(),
                                               .next = table.observations(),
                                               .rows = size(),
                                               .takes_final = true},
                                              values_);
  if (keywords.end == nullptr) {
    throw py::value_error(std::string(kAppend) + ": end is missing");
  }
  ends_from(keywords.end, size(), ends_);
  check_environments();
  read_final(keywords.final);
  plan_priorities(keywords.priorities);
  values_.check_unchanged(table);
  final_.check_unchanged(table);
  CommitStatus status = CommitStatus::Committed;
  {
    const MaybeReleased released(table.copied_bytes() * size() > kCopyWithGil);
    for (std::size_t e = 0; e < size(); ++e) {
      write_step(e);
    }
    status = commit_round(nullptr);
  }
  if (status != CommitStatus::Committed && status != CommitStatus::Closed) {
    // final_ needs no copy: the final observations are already written to the rows.
    values_.keep(table, size(), size());
    const Deadline deadline(timeout_);
    status = marks_->hook.wait([&] { return commit_round(&deadline); });
  }
  if (status == CommitStatus::Closed) {
    throw Closed(std::string(kAppend) + ": the buffer is closed");
  }
  if (status != CommitStatus::Committed) {
    buffer_->check_process();
    time_out();
  }
  std::fill(done_.begin(), done_.end(), std::uint8_t{0});
}

/// Whether this append continues with the environments whose steps the last one did not take.
bool VectorWriterObject::repeated() const {
  return std::find(done_.begin(), done_.end(), std::uint8_t{1}) != done_.end();
}

void VectorWriterObject::time_out() const {
  const auto left = std::count(done_.begin(), done_.end(), std::uint8_t{0});
  throw TimedOut(std::string(kAppend) + ": no room for the steps of " + std::to_string(left) +
                 " of " + std::to_string(size()) +
                 " environments within the timeout; call again with the same arguments, which "
                 "takes no step twice. Rate limiter: " +
                 buffer_->buffer.stats().limiter);
}

/// Writes an environment's step, without committing it.
void VectorWriterObject::write_step(std::size_t environment) {
  if (resetting_[environment] != 0 || done_[environment] != 0) {
    return;
  }
  const FieldTable& table = buffer_->table;
  Writer& one = *writers_[environment]->writer();
  write_now(one, table, values_, ~table.observations(), environment);
  const bool ends = ends_[environment] != End::Continue;
  write_next(one, table, ends && autoreset_ == AutoReset::SameStep ? final_ : values_, environment);
}

/// Begins an episode with the environment's row of the next observations.
void VectorWriterObject::begin_with_next(std::size_t environment) {
  Writer& one = *writers_[environment]->writer();
  one.begin_episode();
  for (const FieldInfo& field : buffer_->table.fields()) {
    if (field.traits().has_next) {
      const auto to = one.now(field.field);
      std::memcpy(to.data(), values_.next[field.field.index()].data() + environment * to.size(),
                  to.size());
    }
  }
}

/// Commits the steps that are written and not committed yet. With a deadline they wait for room.
CommitStatus VectorWriterObject::commit_round(const Deadline* deadline) {
  CommitStatus worst = CommitStatus::Committed;
  for (std::size_t e = 0; e < size(); ++e) {
    if (done_[e] == 0) {
      done_[e] = commit_one(e, deadline, worst) ? 1 : 0;
    }
  }
  return worst;
}

/// Commits the step of one environment. False if it found no room, or the buffer is closed.
bool VectorWriterObject::commit_one(std::size_t environment, const Deadline* deadline,
                                    CommitStatus& worst) {
  if (resetting_[environment] != 0) {
    begin_with_next(environment);
    resetting_[environment] = 0;
    return true;
  }
  Writer& one = *writers_[environment]->writer();
  std::span<const float> own;
  if (!priorities_.empty()) {
    own = std::span<const float>(priorities_)
              .subspan(first_[environment], first_[environment + 1] - first_[environment]);
  }
  if (deadline != nullptr) {
    one.set_timeout(deadline->left());
  }
  const CommitStatus status = one.commit(ends_[environment], own);
  if (status != CommitStatus::Committed) {
    worst = std::max(worst, status);
    if (deadline != nullptr) {
      marks_->hook.only_try();  // This wait has used up the time of the whole call.
    }
    return false;
  }
  if (ends_[environment] != End::Continue && autoreset_ != AutoReset::Disabled) {
    // Marked before the calls that may throw, so that a repeated call begins the episode instead of
    // committing the step again.
    resetting_[environment] = 1;
    if (autoreset_ == AutoReset::SameStep) {
      begin_with_next(environment);
      resetting_[environment] = 0;
    }
  }
  return true;
}

std::size_t VectorWriterObject::completing(PyObject* end) {
  const InUse in_use(marks_->in_use, "VectorWriter");
  constexpr const char* kCall = "VectorWriter.completing";
  std::vector<End> ends;
  ends_from(end, size(), ends);
  end_resets();
  std::size_t items = 0;
  for (std::size_t e = 0; e < size(); ++e) {
    items += resetting_[e] != 0 ? 0 : writer(e, kCall).completing(ends[e]);
  }
  return items;
}

}  // namespace reprise::python
