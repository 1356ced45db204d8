#pragma once

#include <reprise/checkpoint.hpp>

#include "base/mutex.hpp"
#include "checkpoint/manifest.hpp"
#include "record/files.hpp"
#include "record/record_reader.hpp"
#include "record/record_writer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

namespace reprise::checkpoint {

/// How long a record is needed: until its chunk is evicted (`Lasting`), or until the next save
/// writes it anew (`Passing`). The two kinds go to different files, because a file with both would
/// be mostly unused after the next save.
enum class Lifetime : std::uint8_t { Lasting, Passing };

/// The data files of one save. Every writing thread has a file of its own while it writes, so there
/// are as many open files as threads that wrote at the same time.
///
/// Thread safety: `write` and `copy` from any thread, all others while no other call runs.
class Segments {
 public:
  /// Size from which a file is full; tests make it smaller.
  static constexpr std::uint64_t kFullBytes = std::uint64_t{64} << 20U;

  Segments(record::Folder& folder, std::uint64_t number, const Compression& compression,
           std::stop_token stop, std::uint64_t full_bytes)
      : folder_(folder),
        number_(number),
        compression_(compression),
        stop_(std::move(stop)),
        full_bytes_(full_bytes) {}
  ~Segments();
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  RecordRef write(std::span<const record::Bytes> parts, record::Form form, Lifetime lifetime)
      REPRISE_EXCLUDES(mutex_);
  /// Reads the record of a closed chunk as a whole, verifies it, and writes it anew.
  RecordRef copy(record::StoredFile& from, const record::RecordPlace& place)
      REPRISE_EXCLUDES(mutex_);

  /// Syncs every file, and returns the files written.
  DataFiles finish() REPRISE_EXCLUDES(mutex_);
  /// From now on the files stay when the object is destroyed, because a manifest may name them.
  void keep() noexcept { kept_ = true; }
  /// Takes `keep` back.
  void discard() noexcept { kept_ = false; }

 private:
  struct Segment {
    Segment(record::StoredFile opened, const DataName& named, Lifetime holds,
            const Compression& compression)
        : file(std::move(opened)), name(named), lifetime(holds), writer(compression) {}
    record::StoredFile file;
    DataName name;
    Lifetime lifetime;
    std::uint64_t end = record::FileHeader::kBytes;
    record::RecordWriter writer;
  };

  using FreeList = std::vector<std::unique_ptr<Segment>>;

  FreeList& free_of(Lifetime lifetime) REPRISE_REQUIRES(mutex_) {
    return free_[static_cast<std::size_t>(lifetime)];
  }
  std::unique_ptr<Segment> take(Lifetime lifetime) REPRISE_EXCLUDES(mutex_);
  /// Syncs and closes the segment if it is full. A segment that is not given back, because a write
  /// to it failed, makes the save fail: `finish` must not be called then.
  void give_back(std::unique_ptr<Segment> segment) REPRISE_EXCLUDES(mutex_);

  record::Folder& folder_;
  const std::uint64_t number_;
  const Compression compression_;
  const std::stop_token stop_;
  const std::uint64_t full_bytes_;
  bool kept_ = false;
  base::Mutex mutex_;
  std::array<FreeList, 2> free_ REPRISE_GUARDED_BY(mutex_);
  DataFiles synced_ REPRISE_GUARDED_BY(mutex_);
  std::uint32_t made_ REPRISE_GUARDED_BY(mutex_) = 0;
};

}  // namespace reprise::checkpoint
