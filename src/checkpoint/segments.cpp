#include "checkpoint/segments.hpp"

#include "base/parallel.hpp"

#include <array>
#include <new>
#include <utility>

namespace reprise::checkpoint {

Segments::~Segments() {
  if (kept_) {
    return;
  }
  const base::MutexLock lock(mutex_);
  free_ = {};
  for (std::uint32_t i = 0; i < made_; ++i) {
    try {
      folder_.try_remove(data_name({number_, i}));
    } catch (const std::bad_alloc&) {
      // There is no memory for the name; the next save removes the file.
      return;
    }
  }
}

RecordRef Segments::write(std::span<const record::Bytes> parts, record::Form form,
                          Lifetime lifetime) {
  std::unique_ptr<Segment> segment = take(lifetime);
  RecordRef written{segment->name, {}};
  written.place = segment->writer.write(segment->file, segment->end, parts, form, stop_);
  segment->end = written.place.end();
  give_back(std::move(segment));
  return written;
}

RecordRef Segments::copy(record::StoredFile& from, const record::RecordPlace& place) {
  std::vector<std::byte> bytes;
  bytes.reserve(place.raw);
  record::RecordReader().read(from, place, [&](record::Bytes block) {
    bytes.insert(bytes.end(), block.begin(), block.end());
  });
  return write(std::array{record::Bytes(bytes)}, record::Form::Compressed, Lifetime::Lasting);
}

std::unique_ptr<Segments::Segment> Segments::take(Lifetime lifetime) {
  DataName name{number_, 0};
  {
    const base::MutexLock lock(mutex_);
    FreeList& free = free_of(lifetime);
    if (!free.empty()) {
      std::unique_ptr<Segment> segment = std::move(free.back());
      free.pop_back();
      return segment;
    }
    name.sequence = made_++;
  }
  auto segment =
      std::make_unique<Segment>(folder_.create(data_name(name)), name, lifetime, compression_);
  record::FileHeader{.number = number_, .sequence = name.sequence}.write(segment->file);
  return segment;
}

void Segments::give_back(std::unique_ptr<Segment> segment) {
  if (segment->end < full_bytes_) {
    const base::MutexLock lock(mutex_);
    free_of(segment->lifetime).push_back(std::move(segment));
    return;
  }
  segment->file.sync();
  const DataFile file{segment->name, segment->end};
  segment.reset();
  const base::MutexLock lock(mutex_);
  synced_.insert(file);
}

DataFiles Segments::finish() {
  const base::MutexLock lock(mutex_);
  std::vector<record::StoredFile*> open;
  DataFiles files = synced_;
  std::uint64_t bytes = 0;
  for (const FreeList& free : free_) {
    for (const std::unique_ptr<Segment>& segment : free) {
      open.push_back(&segment->file);
      files.emplace(segment->name, segment->end);
      bytes += segment->end;
    }
  }
  base::for_each_index(open.size(), bytes, [&](std::size_t i) { open[i]->sync(); });
  for (FreeList& free : free_) {
    free.clear();
  }
  return files;
}

}  // namespace reprise::checkpoint
