#include "faulty_file_system.hpp"

#include "testing/test.hpp"

namespace reprise::test {

using record::Bytes;
using record::Directory;
using record::File;
using record::Lock;
using record::LockMode;
using record::WritableBytes;

const char* name_of(Call call) {
  constexpr std::array<const char*, kCalls> kNames{
      "open directory", "create", "open",   "read", "write",          "size",
      "sync file",      "rename", "remove", "list", "sync directory", "lock"};
  return kNames[static_cast<std::size_t>(call)];
}

namespace {

class FaultyFile final : public File {
 public:
  FaultyFile(FaultyFileSystem& system, std::unique_ptr<File> inner)
      : system_(system), inner_(std::move(inner)) {}

  std::int64_t write_at(Bytes bytes, std::uint64_t offset) override {
    switch (system_.next(Call::Write)) {
      case FaultyFileSystem::Fate::Fails:
        return system_.error();
      case FaultyFileSystem::Fate::WorksButFails:
        inner_->write_at(bytes, offset);
        return system_.error();
      case FaultyFileSystem::Fate::Halved:
        return inner_->write_at(bytes.first(std::max<std::size_t>(1, bytes.size() / 2)), offset);
      case FaultyFileSystem::Fate::Works:
        break;
    }
    return inner_->write_at(bytes, offset);
  }

  std::int64_t read_at(WritableBytes room, std::uint64_t offset) override {
    switch (system_.next(Call::Read)) {
      case FaultyFileSystem::Fate::Fails:
      case FaultyFileSystem::Fate::WorksButFails:
        return system_.error();
      case FaultyFileSystem::Fate::Halved:
        return inner_->read_at(room.first(std::max<std::size_t>(1, room.size() / 2)), offset);
      case FaultyFileSystem::Fate::Works:
        break;
    }
    return inner_->read_at(room, offset);
  }

  std::int64_t size() override {
    const FaultyFileSystem::Fate fate = system_.next(Call::Size);
    return fate == FaultyFileSystem::Fate::Fails ? system_.error() : inner_->size();
  }

  int sync() override {
    return system_.run(Call::SyncFile, [&] { return inner_->sync(); });
  }

 private:
  FaultyFileSystem& system_;
  std::unique_ptr<File> inner_;
};

class FaultyDirectory final : public Directory {
 public:
  FaultyDirectory(FaultyFileSystem& system, std::unique_ptr<Directory> inner)
      : system_(system), inner_(std::move(inner)) {}

  int create(const std::string& name, std::unique_ptr<File>& file) override {
    return system_.run(Call::Create, [&] { return wrap(inner_->create(name, file), file); });
  }
  int open(const std::string& name, std::unique_ptr<File>& file) override {
    return system_.run(Call::Open, [&] { return wrap(inner_->open(name, file), file); });
  }
  int rename(const std::string& from, const std::string& to) override {
    return system_.run(Call::Rename, [&] { return inner_->rename(from, to); });
  }
  int remove(const std::string& name) override {
    return system_.run(Call::Remove, [&] { return inner_->remove(name); });
  }
  int list(std::vector<std::string>& names) override {
    return system_.run(Call::List, [&] { return inner_->list(names); });
  }
  int sync() override {
    return system_.run(Call::SyncDirectory, [&] { return inner_->sync(); });
  }
  int lock(const std::string& name, LockMode mode, std::unique_ptr<Lock>& lock) override {
    return system_.run(Call::Lock, [&] { return inner_->lock(name, mode, lock); });
  }

 private:
  int wrap(int result, std::unique_ptr<File>& file) {
    if (result == 0) {
      file = std::make_unique<FaultyFile>(system_, std::move(file));
    }
    return result;
  }

  FaultyFileSystem& system_;
  std::unique_ptr<Directory> inner_;
};

}  // namespace

FaultyFileSystem::Fate FaultyFileSystem::next(Call call) {
  if (before_) {
    before_();
  }
  const std::size_t number = calls_[static_cast<std::size_t>(call)]++;
  if (call != fault_.call || number < fault_.nth) {
    return Fate::Works;
  }
  switch (fault_.how) {
    case Fault::How::FailsForGood:
      return Fate::Fails;
    case Fault::How::Fails:
      return number == fault_.nth ? Fate::Fails : Fate::Works;
    case Fault::How::DoneButFails:
      return number == fault_.nth ? Fate::WorksButFails : Fate::Works;
    case Fault::How::Short:
      break;
  }
  // All calls from the n-th on are halved, so that the call for the rest is halved too.
  return Fate::Halved;
}

int FaultyFileSystem::open_directory(const std::string& path, record::IfAbsent if_absent,
                                     std::unique_ptr<Directory>& directory) {
  return run(Call::OpenDirectory, [&] {
    std::unique_ptr<Directory> opened;
    const int result = inner_.open_directory(path, if_absent, opened);
    if (result == 0) {
      directory = std::make_unique<FaultyDirectory>(*this, std::move(opened));
    }
    return result;
  });
}

}  // namespace reprise::test
