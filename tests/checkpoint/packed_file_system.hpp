#pragma once

#include "record/file_system.hpp"

#include <memory>
#include <string>
#include <vector>

namespace reprise::test {

/// The directory that `unpack` makes of the same bytes, read where they lie: nothing is copied, so
/// that a fuzzer spends its time in what it tests. Nothing can be written. The bytes must outlive
/// it.
///
/// Thread safety: any thread.
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
  std::vector<Packed> files_;  ///< Each name once.
};

}  // namespace reprise::test
