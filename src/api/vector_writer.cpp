#include <reprise/replay_buffer.hpp>
#include <reprise/writer.hpp>

#include "api/access.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <bit>
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

/// Throws `std::invalid_argument` unless there is one end per row, and one reset flag per row or no
/// flag at all.
void check_counts(std::size_t ends, std::size_t resets, std::size_t rows) {
  base::require(ends == rows && (resets == 0 || resets == rows), base::Call{"VectorWriter"}, ends,
                " ends and ", resets, " resets; allowed: one for each of the ", rows,
                " environments");
}

}  // namespace

VectorWriter::VectorWriter(ReplayBuffer& buffer, std::size_t environments,
                           const WriterOptions& options, AutoReset auto_reset)
    : VectorWriter(make_writers(buffer, environments, options), auto_reset) {}

VectorWriter::VectorWriter(std::vector<Writer> writers, AutoReset auto_reset)
    : auto_reset_(auto_reset),
      writers_(std::move(writers)),
      reset_episodes_(writers_.size(), kNone),
      resets_(std::make_unique<bool[]>(writers_.size())),
      seen_(writers_.size()),
      first_priority_(writers_.size() + 1, 0),
      taken_(writers_.size(), false) {
  base::require(!writers_.empty(), base::Call{"VectorWriter"},
                "0 environments; allowed: at least 1");
  const buffer::Format& format = detail::Access::core(writers_.front()).format();
  for (std::size_t e = 0; e < writers_.size(); ++e) {
    const buffer::Format& own = detail::Access::core(writers_[e]).format();
    base::require(own.schema == format.schema && own.window == format.window,
                  base::Call{"VectorWriter"}, "writers[", e,
                  "] has another schema or window than writers[0]; allowed: writers of one buffer");
    base::require(!writers_[e].in_episode(), base::Call{"VectorWriter"}, "writers[", e,
                  "] is in an episode; allowed: outside one");
  }
  const std::span<const FieldSpec> fields = format.schema.fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    observations_ |= fields[i].traits().has_next ? std::uint64_t{1} << i : 0;
  }
  base::require(auto_reset_ != AutoReset::NextStep || observations_ != 0,
                base::Call{"VectorWriter"}, "auto_reset is ", base::Enumerator{"NextStep"},
                ", of a schema without observations; allowed: with one, whose first values end a "
                "reset");
  chosen_.reserve(writers_.size());
  steps_.reserve(writers_.size());
  for (Writer& writer : writers_) {
    writer.begin_episode();
  }
  choose_all();
}

void VectorWriter::choose(std::span<const std::size_t> environments) {
  if (std::ranges::equal(environments, chosen_)) {
    return;  // No other choice: the caller may be repeating a commit.
  }
  std::fill(seen_.begin(), seen_.end(), false);
  for (const std::size_t e : environments) {
    base::require(e < writers_.size() && !seen_[e], base::Call{"VectorWriter"}, "environment ", e,
                  e < writers_.size() ? " is chosen twice" : "", "; allowed: each of 0 to ",
                  writers_.size() - 1, " once");
    seen_[e] = true;
  }
  // The argument may be a part of `chosen_`, whose memory stays, because it has room for all.
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

void VectorWriter::begin(std::span<const AnyValue> observations) {
  const base::Call call{"VectorWriter::begin"};
  std::uint64_t missing = observations_;
  for (const AnyValue& value : observations) {
    base::require(traits(value.field.role()).has_next, call, "field ", value.field.index(),
                  " is no observation; allowed: observations");
    static_cast<void>(check_bytes(value.field, value.bytes.size()));
    missing &= ~(std::uint64_t{1} << value.field.index());
  }
  base::require(missing == 0, call, "field ", std::countr_zero(missing),
                " is missing; allowed: each observation");
  for (const std::size_t e : chosen_) {
    const bool anew = auto_reset_ != AutoReset::Disabled && writers_[e].episode_steps() != 0;
    if (anew || !writers_[e].in_episode()) {
      writers_[e].begin_episode();
    }
  }
  for (const AnyValue& value : observations) {
    now(value.field, value.bytes);
  }
  steps_.clear();  // No later commit repeats an earlier one.
}

void VectorWriter::await_resets() {
  base::require(auto_reset_ == AutoReset::NextStep, base::Call{"VectorWriter::await_resets"},
                "nobody resets in a step of its own; allowed: with ", base::Enumerator{"NextStep"});
  for (const std::size_t e : chosen_) {
    writers_[e].begin_episode();
    reset_episodes_[e] = writers_[e].episode_id();
  }
}

bool VectorWriter::in_episode(std::size_t environment) const noexcept {
  const Writer& writer = writers_[environment];
  // An episode without steps has begun for the caller once all its observations are written.
  const std::uint64_t written =
      detail::Access::core(writer).taken[detail::RowView::kNow] & observations_;
  return writer.in_episode() && (writer.episode_steps() != 0 || written == observations_);
}

bool VectorWriter::resetting(std::size_t environment) const noexcept {
  return reset_episodes_[environment] == writers_[environment].episode_id() &&
         !in_episode(environment);
}

std::span<const bool> VectorWriter::resets_or_default(std::span<const bool> resets) const {
  if (!resets.empty() || auto_reset_ != AutoReset::NextStep) {
    return resets;
  }
  for (std::size_t row = 0; row < chosen_.size(); ++row) {
    resets_[row] = resetting(chosen_[row]);
  }
  return {resets_.get(), chosen_.size()};
}

/// With `SameStep`, the next observations of an environment that ends are those after its reset:
/// replaces them by the final observations. Throws if final observations are missing, or are given
/// with another `AutoReset`.
void VectorWriter::write_finals(std::span<const End> ends, std::span<const AnyValue> finals) {
  const base::Call call{"VectorWriter::append"};
  base::require(finals.empty() || auto_reset_ == AutoReset::SameStep, call,
                "final observations are given apart; allowed: with ", base::Enumerator{"SameStep"},
                ", else next ones are the final ones");
  if (auto_reset_ != AutoReset::SameStep ||
      std::ranges::all_of(ends, [](End end) { return end == End::Continue; })) {
    return;
  }
  std::uint64_t given_fields = 0;
  for (const AnyValue& value : finals) {
    const std::size_t row = check_bytes(value.field, value.bytes.size());
    given_fields |= std::uint64_t{1} << value.field.index();
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      if (ends[i] != End::Continue) {
        copy_row(writers_[chosen_[i]].next(value.field), value.bytes.subspan(i * row, row));
      }
    }
  }
  base::require((observations_ & ~given_fields) == 0, call,
                "final observations are missing of an environment that ends; allowed with ",
                base::Enumerator{"SameStep"}, ": each observation");
}

/// Called after all environments took their steps. Begins the episodes of environments that were
/// reset, with the next observations, and notes which environments that ended now await their
/// reset.
void VectorWriter::begin_episodes(std::span<const End> ends, std::span<const AnyValue> values) {
  const std::span<const bool> resets = resets_or_default({});
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const std::size_t e = chosen_[i];
    const bool reset = !resets.empty() && resets[i];
    const bool ended = ends[i] != End::Continue && !reset;
    if (reset || (ended && auto_reset_ == AutoReset::SameStep)) {
      for (const AnyValue& value : values) {
        if (value.next) {
          const std::size_t row = value.bytes.size() / chosen_.size();
          copy_row(writers_[e].now(value.field), value.bytes.subspan(i * row, row));
        }
      }
    }
    if (ended && auto_reset_ == AutoReset::NextStep) {
      reset_episodes_[e] = writers_[e].episode_id();
    }
  }
}

CommitStatus VectorWriter::append(std::span<const End> ends, std::span<const AnyValue> values,
                                  std::span<const AnyValue> finals,
                                  std::span<const float> priorities) {
  check_counts(ends.size(), 0, chosen_.size());
  for (const AnyValue& value : values) {
    const bool observation = traits(value.field.role()).has_next;
    base::require(observation == value.next, base::Call{"VectorWriter::append"}, "field ",
                  value.field.index(), " is ", value.next ? "" : "not ",
                  "given as next; allowed: observations as next, and nothing else");
    if (observation) {
      next(value.field, value.bytes);
    } else {
      now(value.field, value.bytes);
    }
  }
  write_finals(ends, finals);
  const CommitStatus status = commit(ends, priorities);
  if (status == CommitStatus::Committed && auto_reset_ != AutoReset::Disabled) {
    begin_episodes(ends, values);
  }
  return status;
}

std::size_t VectorWriter::check_bytes(AnyField field, std::size_t bytes) const {
  const std::size_t element = element_bytes(field.dtype());
  base::require(bytes % element == 0, base::Call{"VectorWriter"}, bytes,
                " bytes; allowed: whole elements of ", element);
  return element * check_rows(field.index(), field.signature(), bytes / element);
}

std::size_t VectorWriter::completing(std::span<const End> ends,
                                     std::span<const bool> resets) const {
  check_counts(ends.size(), resets.size(), chosen_.size());
  resets = resets_or_default(resets);
  std::size_t items = 0;
  for (std::size_t row = 0; row < chosen_.size(); ++row) {
    if (resets.empty() || !resets[row]) {
      items += writers_[chosen_[row]].completing(ends[row]);
    }
  }
  return items;
}

CommitStatus VectorWriter::commit(std::span<const End> ends, std::span<const float> priorities,
                                  std::span<const bool> resets) {
  check_counts(ends.size(), resets.size(), chosen_.size());
  resets = resets_or_default(resets);
  const auto takes_no_step = [&](std::size_t row) {
    return taken_[row] || (!resets.empty() && resets[row]);
  };
  const std::size_t rows = chosen_.size();
  const auto writer_of = [&](std::size_t row) -> writer::StepWriter& {
    return detail::Access::core(writers_[chosen_[row]]);
  };
  if (!is_repeat()) {
    std::fill(taken_.begin(), taken_.end(), false);
    first_priority_[0] = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      first_priority_[row + 1] =
          first_priority_[row] + (takes_no_step(row) ? 0 : writer_of(row).completing(ends[row]));
    }
  }
  detail::Access::core(writers_.front()).check_priorities(first_priority_[rows], priorities);
  const auto priorities_of = [&](std::size_t row) {
    return priorities.empty() ? priorities
                              : priorities.subspan(first_priority_[row],
                                                   first_priority_[row + 1] - first_priority_[row]);
  };
  // Everything is checked before the first environment commits; afterwards only a full disk throws.
  for (std::size_t row = 0; row < rows; ++row) {
    if (!takes_no_step(row)) {
      writer_of(row).check_commit(ends[row], priorities_of(row));
    }
  }
  CommitStatus worst = CommitStatus::Committed;
  try {
    for (std::size_t row = 0; row < rows; ++row) {
      if (takes_no_step(row)) {
        continue;
      }
      const CommitStatus status = writer_of(row).stamp_and_commit(ends[row], priorities_of(row));
      taken_[row] = status == CommitStatus::Committed;
      if (taken_[row] && ends[row] != End::Continue) {
        writer_of(row).begin_episode();
      }
      worst = std::max(worst, status);
      if (status == CommitStatus::Stopped || status == CommitStatus::Closed) {
        break;  // The other environments must not wait.
      }
    }
  } catch (...) {
    record_steps();
    throw;
  }
  steps_.clear();
  if (worst != CommitStatus::Committed) {
    record_steps();
  }
  return worst;
}

void VectorWriter::record_steps() noexcept {
  steps_.clear();  // The constructor has reserved memory for all, so nothing is allocated.
  for (const Writer& writer : writers_) {
    steps_.emplace_back(writer.episode_id(), writer.episode_steps());
  }
}

/// Whether this commit repeats an earlier one that took the steps of some environments only, so
/// that it skips these environments. It repeats if no environment has taken a step since; a commit
/// that took no step leaves nothing to skip.
bool VectorWriter::is_repeat() const noexcept {
  return !steps_.empty() && std::find(taken_.begin(), taken_.end(), true) != taken_.end() &&
         std::equal(writers_.begin(), writers_.end(), steps_.begin(),
                    [](const Writer& writer, const auto& step) {
                      return step == std::pair(writer.episode_id(), writer.episode_steps());
                    });
}

std::size_t VectorWriter::check_rows(std::size_t index, std::uint32_t signature,
                                     std::size_t elements) const {
  const writer::StepWriter& rows = detail::Access::core(writers_.front());
  base::require(index < rows.field_count && rows.fields[index].signature == signature,
                base::Call{"VectorWriter"}, "field ", index, " is not of this buffer's schema");
  const std::size_t wanted = rows.fields[index].elements * chosen_.size();
  const Schema& schema = rows.schema();
  base::require(elements == wanted, base::Call{"VectorWriter"}, "field '",
                schema.fields()[index].name.c_str(), "' has ", elements,
                " elements; allowed: ", wanted, " for ", chosen_.size(), " environments");
  return rows.fields[index].elements;
}

}  // namespace reprise
