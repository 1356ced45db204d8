#include "base/mapped_file.hpp"

#include "base/text.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace reprise::base {
namespace {

[[noreturn]] void refuse_file(int error, const std::filesystem::path& path,
                              const std::string& what) {
  throw std::system_error(error, std::generic_category(),
                          text("storage: a mapped file in '", path.string(), "': ", what));
}

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) {
      return path;
    }
    refuse_file(EEXIST, path, "allowed: a directory, or a name at which there is nothing");
  }
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Makes an empty file without a name. Returns its descriptor, or -1 with errno set.
int open_nameless(const std::filesystem::path& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  // File systems and kernels without O_TMPFILE answer with one of these errors.
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
    return file;
  }
  std::string name = (directory / "reprise-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) {
    ::unlink(name.c_str());
  }
  return named;
}

}  // namespace

MappedFile MappedFile::make(const std::filesystem::path& path, std::size_t bytes) {
  MappedFile file(open_nameless(directory_of(path)), ::getpid());
  if (file.descriptor_ < 0) {
    refuse_file(errno, path, "no file can be made there");
  }
  const std::string size = text(bytes, " bytes of address space");
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
    refuse_file(EFBIG, path, size);
  }
  if (::ftruncate(file.descriptor_, static_cast<off_t>(bytes)) != 0) {
    refuse_file(errno, path, size);
  }
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor_, 0);
  if (pages == MAP_FAILED) {
    refuse_file(errno, path, size);
  }
  file.data_ = static_cast<std::byte*>(pages);
  file.size_ = bytes;
  if (::madvise(pages, bytes, MADV_DONTFORK) != 0) {
    refuse_file(errno, path, "it cannot be kept from forked children");
  }
  // Rows are drawn at random, so reading around them is useless. Advice only.
  ::madvise(pages, bytes, MADV_RANDOM);
  return file;
}

MappedFile::~MappedFile() {
  // A forked child does not have the range, and may have mapped something else at its address.
  if (data_ != nullptr && ::getpid() == creator_pid_) {
    ::munmap(data_, size_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

int MappedFile::set_aside(std::size_t offset, std::size_t bytes) const noexcept {
  int error = EINTR;
  while (error == EINTR) {
    error = bytes == 0 ? 0
                       : ::posix_fallocate(descriptor_, static_cast<off_t>(offset),
                                           static_cast<off_t>(bytes));
  }
  return error;
}

void MappedFile::will_need(const std::byte* from, std::size_t bytes) const noexcept {
  // The range has to begin at the start of a page.
  const auto offset = static_cast<std::size_t>(from - data_);
  // The system cuts each request to its read-ahead window, 128 KiB by default.
  constexpr std::size_t kWindow = std::size_t{128} << 10U;
  const std::size_t end = offset + bytes;
  for (std::size_t at = offset / page_bytes() * page_bytes(); at < end; at += kWindow) {
    ::madvise(data_ + at, std::min(kWindow, end - at), MADV_WILLNEED);
  }
}

void MappedFile::wont_need(std::size_t offset, std::size_t bytes) const noexcept {
  // Forgets only whole pages, because those at the ends also have rows of other chunks.
  const std::size_t page = page_bytes();
  const std::size_t first = (offset + page - 1) / page;
  const std::size_t end = (offset + bytes) / page;
  // Zeroing pages in memory would only cost time, and a few pages tell whether a part is there.
  constexpr std::size_t kSamples = 8;
  bool all_in_memory = true;
  for (std::size_t sample = 0; all_in_memory && first < end && sample < kSamples; ++sample) {
    const std::size_t at = first + (end - first) * sample / kSamples;
    unsigned char page_state = 1;
    all_in_memory = ::mincore(data_ + at * page, page, &page_state) != 0 || (page_state & 1U) != 0;
  }
  if (!all_in_memory) {
    // If the file system cannot zero a range, later writes to the part read it back, page by page.
    ::fallocate(descriptor_, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(first * page), static_cast<off_t>((end - first) * page));
  }
}

std::size_t MappedFile::disk_bytes() const noexcept {
  constexpr std::size_t kBlock = 512;  // The unit of st_blocks on every file system.
  struct stat facts {};
  return ::fstat(descriptor_, &facts) == 0 ? static_cast<std::size_t>(facts.st_blocks) * kBlock : 0;
}

std::uint64_t disk_reads() noexcept {
  struct rusage usage {};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_inblock) : 0;
}

}  // namespace reprise::base
