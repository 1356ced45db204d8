#pragma once

#include "record/file_system.hpp"
#include "testing/library.hpp"

namespace reprise::test {

/// A read-only directory of files in a byte string, in the format of `unpack`. Nothing is copied,
/// so that a fuzzer spends its time in the code under test. The bytes must outlive the file system.
///
/// Thread-safe.
class PackedFileSystem final : public record::FileSystem {
 public:
  explicit PackedFileSystem(record::Bytes packed);

  int open_directory(const std::string& path, record::IfAbsent if_absent,
                     std::unique_ptr<record::Directory>& directory) override;

 private:
  friend class PackedDirectory;

  struct Packed {
    std::string name;
    record::Bytes contents;
  };
  std::vector<Packed> files_;  ///< No name occurs twice.
};

}  // namespace reprise::test
