#include <reprise/vector_writer.hpp>

#include "api/writer_core.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace reprise {

VectorWriter::VectorWriter(ReplayBuffer& buffer, std::size_t environments,
                           const WriterOptions& options)
    : items_(environments, 0), done_(environments, false) {
  if (environments == 0) {
    throw std::invalid_argument("VectorWriter: 0 environments; allowed: at least 1");
  }
  writers_.reserve(environments);
  for (std::size_t e = 0; e < environments; ++e) {
    writers_.push_back(buffer.writer(options));
    writers_.back().begin_episode();
  }
}

std::size_t VectorWriter::completing(std::span<const End> ends) const {
  if (ends.size() != writers_.size()) {
    throw std::invalid_argument("VectorWriter: " + std::to_string(ends.size()) +
                                " ends; allowed: one for each of the " +
                                std::to_string(writers_.size()) + " environments");
  }
  std::size_t items = 0;
  for (std::size_t e = 0; e < writers_.size(); ++e) {
    items += writers_[e].completing(ends[e]);
  }
  return items;
}

CommitStatus VectorWriter::commit(std::span<const End> ends, std::span<const float> priorities) {
  const std::size_t deciding = completing(ends);
  if (!retrying_) {
    for (std::size_t e = 0; e < writers_.size(); ++e) {
      items_[e] = writers_[e].completing(ends[e]);
      done_[e] = false;
    }
  }
  const std::size_t items =
      retrying_ ? std::accumulate(items_.begin(), items_.end(), std::size_t{0}) : deciding;
  if (!priorities.empty() && priorities.size() != items) {
    throw std::invalid_argument("VectorWriter::commit: " + std::to_string(priorities.size()) +
                                " priorities; this commit decides " + std::to_string(items) +
                                " items");
  }
  // Until every environment is through, another call goes on with this commit.
  retrying_ = true;
  CommitStatus worst = CommitStatus::Committed;
  std::size_t first = 0;
  for (std::size_t e = 0; e < writers_.size(); first += items_[e], ++e) {
    if (done_[e]) {
      continue;
    }
    Writer& writer = writers_[e];
    const CommitStatus status = writer.commit(
        ends[e], priorities.empty() ? priorities : priorities.subspan(first, items_[e]));
    if (status == CommitStatus::Closed || writer.step_held()) {
      worst = std::max(worst, status);
      continue;
    }
    done_[e] = true;
    if (ends[e] != End::Continue) {
      writer.begin_episode();
    }
  }
  retrying_ = worst == CommitStatus::WaitingForRoom;
  return worst;
}

void VectorWriter::check_rows(std::size_t index, std::uint32_t signature,
                              std::size_t elements) const {
  const detail::RowView& rows = *writers_.front().rows_;
  if (index >= rows.field_count || rows.fields[index].signature != signature) {
    throw std::invalid_argument("VectorWriter: field " + std::to_string(index) +
                                " is not of this buffer's schema");
  }
  const std::size_t wanted = rows.fields[index].elements * writers_.size();
  if (elements != wanted) {
    throw std::invalid_argument(
        "VectorWriter: field '" +
        static_cast<const detail::WriterCore&>(rows).buffer().schema().fields()[index].name +
        "' has " + std::to_string(elements) + " elements; allowed: " + std::to_string(wanted) +
        " for " + std::to_string(writers_.size()) + " environments");
  }
}

}  // namespace reprise
