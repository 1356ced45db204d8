#include <reprise/vector_writer.hpp>

#include "base/text.hpp"
#include "writer/step_writer.hpp"

#include <algorithm>
#include <numeric>

namespace reprise {

namespace {

std::vector<Writer> make_writers(ReplayBuffer& buffer, std::size_t environments,
                                 const WriterOptions& options) {
  std::vector<Writer> writers;
  writers.reserve(environments);
  for (std::size_t e = 0; e < environments; ++e) {
    writers.push_back(buffer.writer(options));
  }
  return writers;
}

}  // namespace

VectorWriter::VectorWriter(ReplayBuffer& buffer, std::size_t environments,
                           const WriterOptions& options)
    : VectorWriter(make_writers(buffer, environments, options)) {}

VectorWriter::VectorWriter(std::vector<Writer> writers)
    : writers_(std::move(writers)),
      named_(writers_.size()),
      first_(writers_.size() + 1, 0),
      taken_(writers_.size(), false) {
  base::require(!writers_.empty(), base::Call{"VectorWriter"},
                "0 environments; allowed: at least 1");
  chosen_.reserve(writers_.size());
  steps_.reserve(writers_.size());
  for (Writer& writer : writers_) {
    writer.begin_episode();
  }
  choose_all();
}

void VectorWriter::choose(std::span<const std::size_t> environments) {
  if (std::ranges::equal(environments, chosen_)) {
    return;  // Perhaps to repeat a commit.
  }
  std::fill(named_.begin(), named_.end(), false);
  for (const std::size_t e : environments) {
    base::require(e < writers_.size() && !named_[e], base::Call{"VectorWriter"}, "environment ", e,
                  e < writers_.size() ? " is chosen twice" : "", "; allowed: each of 0 to ",
                  writers_.size() - 1, " once");
    named_[e] = true;
  }
  // They may be a part of `chosen_`, which has room for all.
  chosen_.resize(writers_.size());
  std::ranges::copy(environments, chosen_.begin());
  chosen_.resize(environments.size());
  steps_.clear();
}

void VectorWriter::choose_all() {
  if (chosen_.size() != writers_.size() || !std::ranges::is_sorted(chosen_)) {
    chosen_.resize(writers_.size());
    std::iota(chosen_.begin(), chosen_.end(), std::size_t{0});
    steps_.clear();
  }
}

void VectorWriter::now(AnyField field, std::span<const std::byte> values) {
  const std::size_t row = check_bytes(field, values.size());
  for (const std::size_t e : chosen_) {
    if (!traits(field.role()).has_next || writers_[e].episode_steps() == 0) {
      copy_row(writers_[e].now(field), values.first(row));
    }
    values = values.subspan(row);
  }
}

void VectorWriter::next(AnyField field, std::span<const std::byte> values) {
  const std::size_t row = check_bytes(field, values.size());
  for (const std::size_t e : chosen_) {
    copy_row(writers_[e].next(field), values.first(row));
    values = values.subspan(row);
  }
}

std::size_t VectorWriter::check_bytes(AnyField field, std::size_t bytes) const {
  const std::size_t element = element_bytes(field.dtype());
  base::require(bytes % element == 0, base::Call{"VectorWriter"}, bytes,
                " bytes; allowed: whole elements of ", element);
  return element * check_rows(field.index(), field.signature(), bytes / element);
}

std::size_t VectorWriter::completing(std::span<const End> ends,
                                     std::span<const bool> resets) const {
  base::require(ends.size() == chosen_.size() && (resets.empty() || resets.size() == ends.size()),
                base::Call{"VectorWriter"}, ends.size(), " ends and ", resets.size(),
                " resets; allowed: one for each of the ", chosen_.size(), " environments");
  std::size_t items = 0;
  for (std::size_t e = 0; e < chosen_.size(); ++e) {
    items += !resets.empty() && resets[e] ? 0 : writers_[chosen_[e]].completing(ends[e]);
  }
  return items;
}

CommitStatus VectorWriter::commit(std::span<const End> ends, std::span<const float> priorities,
                                  std::span<const bool> resets) {
  // It throws unless there is one of each per environment.
  static_cast<void>(completing(ends, resets));
  const auto takes_none = [&](std::size_t e) {
    return taken_[e] || (!resets.empty() && resets[e]);
  };
  const std::size_t rows = chosen_.size();
  const auto core = [&](std::size_t e) -> writer::StepWriter& {
    return static_cast<writer::StepWriter&>(*writers_[chosen_[e]].rows_);
  };
  if (!repeated()) {
    std::fill(taken_.begin(), taken_.end(), false);
    first_[0] = 0;
    for (std::size_t e = 0; e < rows; ++e) {
      first_[e + 1] = first_[e] + (takes_none(e) ? 0 : core(e).completing(ends[e]));
    }
  }
  static_cast<writer::StepWriter&>(*writers_.front().rows_)
      .check_priorities(first_[rows], priorities);
  const auto own = [&](std::size_t e) {
    return priorities.empty() ? priorities
                              : priorities.subspan(first_[e], first_[e + 1] - first_[e]);
  };
  // Everything is checked before the first environment commits, so that afterwards only a full disk
  // throws.
  for (std::size_t e = 0; e < rows; ++e) {
    if (!takes_none(e)) {
      core(e).check_commit(ends[e], own(e));
    }
  }
  CommitStatus worst = CommitStatus::Committed;
  try {
    for (std::size_t e = 0; e < rows; ++e) {
      if (takes_none(e)) {
        continue;
      }
      const CommitStatus status = core(e).commit(ends[e], own(e));
      taken_[e] = status == CommitStatus::Committed;
      if (taken_[e] && ends[e] != End::Continue) {
        core(e).begin_episode();
      }
      worst = std::max(worst, status);
      if (status == CommitStatus::Stopped || status == CommitStatus::Closed) {
        break;  // The other environments should not wait.
      }
    }
  } catch (...) {
    note_steps();
    throw;
  }
  steps_.clear();
  if (worst != CommitStatus::Committed) {
    note_steps();
  }
  return worst;
}

void VectorWriter::note_steps() noexcept {
  steps_.clear();  // Its room was reserved.
  for (const Writer& writer : writers_) {
    steps_.emplace_back(writer.episode_id(), writer.episode_steps());
  }
}

/// Whether the last commit took the steps of some environments only, and none has moved since. Then
/// this commit repeats it, and environments whose step was taken are skipped. If it took none,
/// there is nothing to go on with.
bool VectorWriter::repeated() const noexcept {
  return !steps_.empty() && std::find(taken_.begin(), taken_.end(), true) != taken_.end() &&
         std::equal(writers_.begin(), writers_.end(), steps_.begin(),
                    [](const Writer& writer, const auto& step) {
                      return step == std::pair(writer.episode_id(), writer.episode_steps());
                    });
}

std::size_t VectorWriter::check_rows(std::size_t index, std::uint32_t signature,
                                     std::size_t elements) const {
  const detail::RowView& rows = *writers_.front().rows_;
  base::require(index < rows.field_count && rows.fields[index].signature == signature,
                base::Call{"VectorWriter"}, "field ", index, " is not of this buffer's schema");
  const std::size_t wanted = rows.fields[index].elements * chosen_.size();
  const Schema& schema = static_cast<const writer::StepWriter&>(rows).schema();
  base::require(elements == wanted, base::Call{"VectorWriter"}, "field '",
                schema.fields()[index].name.c_str(), "' has ", elements,
                " elements; allowed: ", wanted, " for ", chosen_.size(), " environments");
  return rows.fields[index].elements;
}

}  // namespace reprise
