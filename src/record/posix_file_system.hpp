#pragma once

#include "record/file_system.hpp"

namespace reprise::record {

/// The operating system's files, with descriptors that executed programs do not inherit.
class PosixFileSystem final : public FileSystem {
 public:
  int open_directory(const std::string& path, IfAbsent if_absent,
                     std::unique_ptr<Directory>& directory) override;
};

}  // namespace reprise::record
