#include "packed_file_system.hpp"

#include "packed_files.hpp"

#include <algorithm>
#include <cerrno>

namespace reprise::test {

using record::Bytes;
using record::Directory;
using record::File;
using record::Lock;
using record::WritableBytes;

namespace {

class PackedFile final : public File {
 public:
  explicit PackedFile(Bytes contents) : contents_(contents) {}

  std::int64_t write_at(Bytes /*bytes*/, std::uint64_t /*offset*/) override { return -EROFS; }
  std::int64_t read_at(WritableBytes room, std::uint64_t offset) override {
    if (offset >= contents_.size()) {
      return 0;
    }
    const Bytes rest = contents_.subspan(static_cast<std::size_t>(offset));
    const std::size_t n = std::min(room.size(), rest.size());
    std::ranges::copy(rest.first(n), room.begin());
    return static_cast<std::int64_t>(n);
  }
  std::int64_t size() override { return static_cast<std::int64_t>(contents_.size()); }
  int sync() override { return -EROFS; }

 private:
  Bytes contents_;
};

}  // namespace

class PackedDirectory final : public Directory {
 public:
  explicit PackedDirectory(const PackedFileSystem& system) : system_(system) {}

  int create(const std::string& /*name*/, std::unique_ptr<File>& /*file*/) override {
    return -EROFS;
  }
  int open(const std::string& name, std::unique_ptr<File>& file) override {
    const auto named = std::ranges::find(system_.files_, name, &PackedFileSystem::Packed::name);
    if (named == system_.files_.end()) {
      return -ENOENT;
    }
    file = std::make_unique<PackedFile>(named->contents);
    return 0;
  }
  int rename(const std::string& /*from*/, const std::string& /*to*/) override { return -EROFS; }
  int remove(const std::string& /*name*/) override { return -EROFS; }
  int list(std::vector<std::string>& names) override {
    for (const PackedFileSystem::Packed& file : system_.files_) {
      names.push_back(file.name);
    }
    return 0;
  }
  int sync() override { return -EROFS; }
  int lock(const std::string& /*name*/, record::LockMode /*mode*/,
           std::unique_ptr<Lock>& lock) override {
    lock = std::make_unique<Lock>();
    return 0;
  }

 private:
  const PackedFileSystem& system_;
};

PackedFileSystem::PackedFileSystem(Bytes packed) {
  for_each_packed(packed, [this](std::string name, Bytes contents) {
    const auto named = std::ranges::find(files_, name, &Packed::name);
    if (named != files_.end()) {
      named->contents = contents;
    } else {
      files_.push_back({std::move(name), contents});
    }
  });
}

int PackedFileSystem::open_directory(const std::string& /*path*/, record::IfAbsent /*if_absent*/,
                                     std::unique_ptr<Directory>& directory) {
  directory = std::make_unique<PackedDirectory>(*this);
  return 0;
}

}  // namespace reprise::test
