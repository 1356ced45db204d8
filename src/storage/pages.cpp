#include "storage/pages.hpp"

#include <variant>

namespace reprise::storage {
namespace {

base::MappedFile file_for(std::size_t bytes, const Storage& storage) {
  const MappedFile* const file = std::get_if<MappedFile>(&storage);
  return file == nullptr || bytes == 0 ? base::MappedFile()
                                       : base::MappedFile::make(file->path, bytes);
}

}  // namespace

Pages::Pages(std::size_t bytes, const Storage& storage)
    : memory_(std::holds_alternative<Memory>(storage) ? base::Region::map(bytes) : base::Region()),
      file_(file_for(bytes, storage)),
      data_(in_file() ? file_.data() : memory_.data()),
      size_(bytes) {}

}  // namespace reprise::storage
