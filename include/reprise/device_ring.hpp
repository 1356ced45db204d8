#pragma once

#include <reprise/batch_source.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

/// Batches in the memory of a device.
///
/// Not stable: calls may change with any version.
namespace reprise {

/// What a `DeviceRing` needs of a device: memory, one stream of copies, and events. `cuda_device`
/// finds CUDA; your own class may stand for another device, or for none in a test.
///
/// Streams and events are handles of the device: a `CUstream`, which is a `cudaStream_t`, and a
/// `CUevent`. No call waits for the device but `wait`, and those that take or give back memory.
/// Errors of the device are `std::runtime_error`.
/// Thread safety: one thread at a time.
class Device {
 public:
  /// A queue of work on the device. Null is the default stream of CUDA.
  using Stream = void*;
  /// An event happens when its copy has been made; one event serves any number of copies in turn.
  using Event = void*;

  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Allocates page-locked memory of the host, or memory of the device, aligned to 256 bytes;
  /// `bytes` is not 0. Throws `std::bad_alloc` if there is none left.
  [[nodiscard]] virtual void* allocate(std::size_t bytes, bool on_host) = 0;
  /// Frees memory of `allocate`, which no copy uses any more.
  virtual void free(void* memory, bool on_host) noexcept = 0;

  /// Makes an event for `copy`.
  [[nodiscard]] virtual Event make_event() = 0;
  /// Frees an event.
  virtual void free_event(Event event) noexcept = 0;

  /// Begins a copy from page-locked memory to the device, after all copies begun before. The event
  /// `made` happens when the copy has been made. `follow` and `wait` refer to the last copy with
  /// their event.
  virtual void copy(void* to, const void* from, std::size_t bytes, Event made) = 0;
  /// Makes copies that are begun from now on wait for the work that the stream has so far.
  virtual void copy_after(Stream stream) = 0;
  /// Makes work that the stream gets from now on wait for the copy with this event.
  virtual void follow(Stream stream, Event made) = 0;
  /// Waits for the copy with this event.
  virtual void wait(Event made) = 0;
};

/// A CUDA device by its ordinal, through its primary context, which the CUDA runtime and torch use
/// too. The driver's library is looked up by this call, so neither a build nor an installation
/// needs CUDA. Returns null if there is no driver or no such device, or if the driver refuses;
/// `why` then gets the reason as a sentence.
///
/// An error of the driver is a `std::runtime_error` that names its call and its code, for example
/// `CUDA_ERROR_ILLEGAL_ADDRESS`. A learner's own error in its kernels may come out of any call.
[[nodiscard]] std::unique_ptr<Device> cuda_device(int ordinal = 0, std::string* why = nullptr);

/// Page-locked memory of a device, from which it copies in the background: for
/// `SamplerOptions::memory` and `BatchSource::make_batch`. The device must outlive it.
///
/// Errors: `std::invalid_argument` for an alignment above 256; `std::bad_alloc`. Cost: each
/// allocation is a call of the driver, which takes as long as a copy of megabytes, so keep the
/// batches.
/// Thread safety: that of its device.
class PinnedMemory : public std::pmr::memory_resource {
 public:
  /// Takes memory from this device.
  explicit PinnedMemory(Device& device) noexcept : device_(&device) {}

 private:
  friend class DeviceRing;
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  Device* device_;
};

/// Batches on a device, each copied there as a whole while the learner computes:
///
///     const auto cuda = cuda_device();
///     Sampler sampler = replay.sampler({.unique_frames = true});
///     DeviceRing ring(sampler, 512, *cuda);
///     while (const SampleResult batch = ring.next(stream, {.beta = 0.4F})) {
///       learn<<<blocks, threads, 0, stream>>>(ring.at(batch->frames(frame)),
///                                             ring.at(batch->lengths()),
///                                             ring.at(batch->weights()));
///     }
///
/// A ring has `depth` slabs, each with the page-locked memory of one batch and as much memory on
/// the device. The learner has one slab, the others are under way. A slab is filled again only when
/// its copy has been made, and its device memory is written again only after the learner's work on
/// the batch: all work that `stream` has when `next` is called again. So draws miss the priorities
/// of about the last `depth` batches.
///
/// Thread safety: one thread at a time uses a ring and its device; appends and samplers go on
/// beside it. Lifetime: its device and its source outlive it.
class DeviceRing {
 public:
  /// A ring of batches of n items. The source outlives the ring; `depth` is at least 1; with 1
  /// nothing is drawn ahead. Errors: as `BatchSource::make_batch`, and `std::invalid_argument` if
  /// the source makes its batch outside the memory that it is given; `std::bad_alloc` without
  /// memory.
  DeviceRing(BatchSource& source, std::size_t n, Device& device, std::size_t depth = 3);
  /// Waits for the copies under way. The learner's work on the ring's batches must have ended
  /// before.
  ~DeviceRing();
  DeviceRing(const DeviceRing&) = delete;
  DeviceRing& operator=(const DeviceRing&) = delete;

  /// The batch on the host and, by `at`, on the device for the work that `stream` gets from now on.
  /// Both stay until the next call, whose `stream` must have all work on the batch, or wait for
  /// that work. Copy the keys if you update the batch's priorities later.
  ///
  /// Draws ahead and begins copies as far as there are slabs. Waits as the source does only if no
  /// batch is under way, because a rate limiter may hold draws until the learner has acted. Also
  /// waits until the last copy from a slab that it draws into has been made. A draw ahead that
  /// fails is tried again by the next call. Errors: as the source, and those of the device, after
  /// which the ring is of no use: a batch may be lost, or its copy may go on.
  SampleResult next(Device::Stream stream, const SampleOptions& options = {});

  /// The device address of a column of the batch that was handed out last. `std::invalid_argument`
  /// for any other memory.
  template <class T>
  [[nodiscard]] T* at(std::span<T> column) const {
    return static_cast<T*>(device_address(column.data()));
  }

 private:
  struct Slab;
  [[nodiscard]] void* device_address(const void* host_address) const;
  [[nodiscard]] SampleStatus begin(const SampleOptions& options);

  Device* device_;
  BatchSource* source_;
  std::vector<std::unique_ptr<Slab>> slabs_;  ///< Slab i % depth has batch i.
  std::size_t begun_ = 0;                     ///< Batches whose copies were begun.
  std::size_t given_ = 0;                     ///< Batches that `next` has handed out.
  bool held_ = false;                         ///< Whether the learner has the last batch.
};

class MixedSampler;
class Sampler;

/// Brings a copy of a buffer's rows in another memory up to date, so that a device makes batches by
/// itself. Draws are made on the host, and keys, weights and probabilities cross the bus for each
/// batch; a row crosses with the first batch that reads it, and again while its step was not
/// complete then. A row is what a step has: its observation, its columns, and the header of the
/// item that begins with it.
///
///     Sampler sampler = replay.sampler();
///     RowMirror mirror(sampler);
///     const SampleResult batch = sampler.sample(4096);  // keys(), weights(), probabilities().
///     const auto [rows, bytes] = mirror.new_rows();     // Scatter these to a copy of rows() rows;
///     gather(mirror.first_rows());                      // the items begin in these.
///
/// The window of an item is in consecutive rows from the item's own row on, and its frame stack in
/// the rows before, however the buffer is used meanwhile. A row begins with the id of its episode,
/// 8 bytes, and a number of 8 bytes, position << 24 | length << 8 | terminated, of the item that
/// begins there: its position, the steps of its window, and whether the last of them terminated the
/// episode. Compressed observations are decompressed on the way. Mutable columns and recurrent
/// states are not in rows: each batch has their values at the time of its draw, see `Batch::now`.
///
/// Thread safety: that of the sampler; beside appends and other samplers. Lifetime: the mirror is
/// destroyed before the sampler, whose draws are then as before.
class RowMirror {
 public:
  /// How a row is laid out.
  struct Layout {
    std::size_t row_bytes = 0;  ///< The size of a row.
    /// The place of each field of the schema in a row; kInBatches if its values are in batches.
    std::vector<std::size_t> offsets;
    static constexpr std::size_t kInBatches = ~std::size_t{0};  ///< Above every offset.
  };
  /// Rows of the copy, and what they hold from now on, row by row.
  struct NewRows {
    std::span<const std::int64_t> rows;  ///< The numbers of the rows.
    std::span<const std::byte> bytes;    ///< `Layout::row_bytes` for each row, in that order.
  };

  /// From now on the batches of the sampler have keys, weights, probabilities, mutable columns and
  /// recurrent states alone. Errors: `std::invalid_argument` for a sampler that already has a
  /// mirror.
  explicit RowMirror(Sampler& sampler);
  /// Mirrors one part of a mixed sampler: the rows of that part's items. Errors:
  /// `std::invalid_argument` for a part that `mixed` does not have, or that already has a mirror.
  RowMirror(MixedSampler& mixed, std::size_t part);
  ~RowMirror();
  RowMirror(const RowMirror&) = delete;
  RowMirror& operator=(const RowMirror&) = delete;

  /// How a row is laid out. It never changes.
  [[nodiscard]] const Layout& layout() const noexcept;
  /// The rows that draws since the last call have read for the first time, each once; valid until
  /// the next call. Errors: `std::bad_alloc` if a draw found no memory for them. Then the copy
  /// counts as empty, and the batch is not to be used.
  [[nodiscard]] NewRows new_rows();
  /// The row of the copy in which each item of the last batch begins; in a mix, each item of the
  /// part. Valid until the next draw.
  [[nodiscard]] std::span<const std::int64_t> first_rows() const noexcept;
  /// How many rows the copy has to have room for: at first the capacity and what open chunks take;
  /// more, after a draw, where short episodes need more chunks. Rows keep their numbers.
  [[nodiscard]] std::size_t rows() const noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
