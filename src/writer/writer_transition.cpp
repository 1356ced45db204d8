#include "writer/writer_core.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

namespace reprise::writer {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("Writer::add_transition: " + what);
}

/// Throws unless every field is given once, every observation once more as next, and each with the
/// field's number of elements.
void check(std::span<const detail::RawValue> values, const buffer::BufferCore& core) {
  std::uint64_t named[2] = {0, 0};
  const auto& fields = core.layout().fields();
  for (const detail::RawValue& value : values) {
    if (value.index >= fields.size() || fields[value.index].signature != value.signature) {
      refuse("field " + std::to_string(value.index) + " is not of this buffer's schema");
    }
    const std::string name = "field '" + core.schema().fields()[value.index].name + "'";
    if (value.elements != fields[value.index].elements) {
      refuse(name + " has " + std::to_string(value.elements) +
             " elements; allowed: " + std::to_string(fields[value.index].elements));
    }
    const std::uint64_t bit = std::uint64_t{1} << value.index;
    if (value.next && (core.layout().observation_mask() & bit) == 0) {
      refuse(name + " is no observation; allowed as next: observations");
    }
    if ((named[value.next ? 1 : 0] & bit) != 0) {
      refuse(name + " is named twice");
    }
    named[value.next ? 1 : 0] |= bit;
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const bool observation = (core.layout().observation_mask() & bit) != 0;
    if ((named[0] & bit) == 0 || (observation && (named[1] & bit) == 0)) {
      refuse("field '" + core.schema().fields()[i].name + "' is missing as " +
             ((named[0] & bit) == 0 ? "now" : "next"));
    }
  }
}

}  // namespace

CommitStatus WriterCore::add_transition(End end, std::span<const detail::RawValue> values) {
  check(values, *core_);
  check_end(end);
  if (finite_) {
    check_finite(values);
  }
  life_.check();  // Before rows are touched, because they may not be mapped in a forked child.
  const std::span<const FieldSpec> specs = core_->schema().fields();
  const auto place = [&](const detail::RawValue& value) {
    const int now = specs[value.index].traits().per_item ? kState : kNow;
    return rows[value.next ? kNext : now] + fields[value.index].offset;
  };
  bool continues = connected_ && in_episode();
  for (const detail::RawValue& value : values) {
    const FieldSpec& spec = specs[value.index];
    continues = continues && (value.next || !spec.traits().has_next ||
                              std::memcmp(place(value), value.data, spec.bytes) == 0);
  }
  if (!continues) {
    begin_episode();
  }
  for (const detail::RawValue& value : values) {
    const FieldSpec& spec = specs[value.index];
    if (!continues || value.next || !spec.traits().has_next) {
      std::memcpy(place(value), value.data, spec.bytes);
    }
    taken[value.next ? kNext : kNow] |= std::uint64_t{1} << value.index;
  }
  check_commit(end, {});
  const CommitStatus status = commit(end, {});
  if (status == CommitStatus::Committed) {
    connected_ = end == End::Continue;
  }
  return status;
}

}  // namespace reprise::writer
