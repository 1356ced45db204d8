#include "process/region.hpp"

#include "base/text.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace reprise::process {
namespace {

[[noreturn]] void fail(const char* what, std::size_t bytes) {
  throw std::system_error(errno, std::generic_category(),
                          base::text(what, " ", bytes, " bytes for another process"));
}

}  // namespace

Descriptor::~Descriptor() {
  if (valid()) {
    ::close(number_);
  }
}

Region::Region(Descriptor file, std::size_t bytes) : file_(std::move(file)), size_(bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (data == MAP_FAILED) {
    fail("mapping", bytes);
  }
  data_ = static_cast<std::byte*>(data);
  creator_pid_ = ::getpid();
  // Without this the parent would see what a forked child writes.
  static_cast<void>(::madvise(data, bytes, MADV_DONTFORK));
}

Region::~Region() {
  // A forked child may have mapped something else at this address.
  if (data_ != nullptr && creator_pid_ == ::getpid()) {
    ::munmap(data_, size_);
  }
}

Region Region::make(std::size_t bytes) {
  Descriptor file(::memfd_create("reprise", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ::ftruncate(file.number(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail("making", bytes);
  }
  return {std::move(file), bytes};
}

Region Region::map(Descriptor file, std::size_t bytes) {
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) {
    errno = file.valid() ? errno : EMFILE;  // No descriptor was left to receive the file.
    fail("looking at", bytes);
  }
  const int seals = ::fcntl(file.number(), F_GET_SEALS);
  if (bytes == 0 || static_cast<std::size_t>(status.st_size) < bytes || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    base::refuse<std::runtime_error>("shared memory of ", status.st_size,
                                     " bytes, which are not sealed or fewer than the ", bytes,
                                     " that it should have");
  }
  return {std::move(file), bytes};
}

}  // namespace reprise::process
