#include "save/attachments.hpp"

#include "base/text.hpp"

#include <array>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprise::save {
namespace {

/// The name of an attachment's state is this prefix and the name of the attachment.
constexpr std::string_view kPrefix = "attachment-";
constexpr std::size_t kMaxName = 200;  // With the prefix it fits the name of a state.

}  // namespace

void check_attachments(std::span<const Attachment> attachments) {
  std::set<std::string_view> names;
  for (const Attachment& attachment : attachments) {
    const std::string& name = attachment.name;
    if (name.empty() || name.size() > kMaxName) {
      base::refuse(base::OptionsOf{"SaveOptions"}, "attachments: a name of ", name.size(),
                   " bytes; allowed: 1 to ", kMaxName);
    }
    if (const std::size_t nul = name.find('\0'); nul != std::string::npos) {
      base::refuse(base::OptionsOf{"SaveOptions"}, "attachments: the name '", name.substr(0, nul),
                   "...' has a NUL; allowed: any other character");
    }
    if (!names.insert(name).second) {
      base::refuse(base::OptionsOf{"SaveOptions"}, "attachments: '", name,
                   "' is there twice; allowed: each name once");
    }
  }
}

void write_attachments(checkpoint::Saver& saver, std::span<const Attachment> attachments) {
  for (const Attachment& attachment : attachments) {
    saver.write_state(std::string(kPrefix) + attachment.name,
                      std::array{record::Bytes(attachment.bytes)});
  }
}

Attachments read_attachments(const checkpoint::Snapshot& snapshot) {
  Attachments attachments;
  for (const checkpoint::StateEntry& state : snapshot.states()) {
    if (state.name.starts_with(kPrefix)) {
      attachments.emplace(state.name.substr(kPrefix.size()),
                          checkpoint::Reader(snapshot).read_state(state.name));
    }
  }
  return attachments;
}

}  // namespace reprise::save
