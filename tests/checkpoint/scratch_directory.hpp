#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace reprise::test {

/// An empty directory that goes with everything in it; in memory where there is such a place.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    const char* const shared = "/dev/shm";
    path_ = ::access(shared, W_OK) == 0 ? std::string(shared) + "/" : testing::TempDir();
    path_ += "reprise-XXXXXX";
    EXPECT_NE(::mkdtemp(path_.data()), nullptr) << path_;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace reprise::test
