#include <reprise/device_ring.hpp>

#include "base/text.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>

namespace reprise {
namespace {

constexpr std::size_t kAlignment = 256;  ///< The alignment that `Device::allocate` promises.

}  // namespace

void* PinnedMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  base::require(alignment <= kAlignment, base::Call{"PinnedMemory"}, "alignment is ", alignment,
                "; allowed: at most ", kAlignment);
  return device_->allocate(std::max<std::size_t>(bytes, 1), /*on_host=*/true);
}

void PinnedMemory::do_deallocate(void* block, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  device_->free(block, /*on_host=*/true);
}

/// A batch on the host, in a single block of this resource, and as much memory on the device.
struct DeviceRing::Slab final : PinnedMemory {
  Slab(const BatchSource& source, std::size_t n, Device& of)
      : PinnedMemory(of),
        device(of),
        host(source.make_batch(n, this)),
        device_block(
            static_cast<std::byte*>(of.allocate(checked_block().size(), /*on_host=*/false))) {
    try {
      copied = of.make_event();
    } catch (...) {
      of.free(device_block, /*on_host=*/false);
      throw;
    }
  }
  ~Slab() override {
    device.free_event(copied);
    device.free(device_block, /*on_host=*/false);
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* const taken = PinnedMemory::do_allocate(bytes, alignment);
    block = {static_cast<const std::byte*>(taken), bytes};
    return taken;
  }

  /// The host's block; throws if a user's source has put its batch elsewhere.
  [[nodiscard]] std::span<const std::byte> checked_block() const {
    base::require(!block.empty(), base::Call{"DeviceRing"},
                  "the batch of the source's make_batch is not in the memory that it "
                  "was given");
    return block;
  }

  Device& device;
  std::span<const std::byte> block;  ///< Set while `host` is made, so it is declared first.
  Batch host;
  std::byte* device_block;
  SampleStatus status = {};        ///< The status of the batch's draw.
  Device::Event copied = nullptr;  ///< The event of its last copy.
};

DeviceRing::DeviceRing(BatchSource& source, std::size_t n, Device& device, std::size_t depth)
    : device_(&device), source_(&source) {
  base::require(depth >= 1, base::Call{"DeviceRing"}, "depth is ", depth, "; allowed: at least 1");
  for (std::size_t i = 0; i < depth; ++i) {
    slabs_.push_back(std::make_unique<Slab>(source, n, device));
  }
}

DeviceRing::~DeviceRing() {
  if (begun_ != 0) {
    try {
      device_->wait(slabs_[(begun_ - 1) % slabs_.size()]->copied);  // The copy that was begun last.
    } catch (const std::exception&) {
      // A device that has failed makes no more copies.
    }
  }
}

SampleStatus DeviceRing::begin(const SampleOptions& options) {
  Slab& slab = *slabs_[begun_ % slabs_.size()];
  if (begun_ >= slabs_.size()) {
    device_->wait(slab.copied);
  }
  slab.status = source_->sample_into(slab.host, options);
  if (slab.status.code == SampleStatus::Code::Ok) {
    device_->copy(slab.device_block, slab.block.data(), slab.block.size(), slab.copied);
    ++begun_;
  }
  return slab.status;
}

SampleResult DeviceRing::next(Device::Stream stream, const SampleOptions& options) {
  if (held_) {
    device_->copy_after(stream);
    held_ = false;
  }
  SampleOptions at_once = options;
  at_once.timeout = std::chrono::nanoseconds(0);
  while (begun_ - given_ < slabs_.size()) {
    const SampleStatus status = begin(begun_ == given_ ? options : at_once);
    if (status.code != SampleStatus::Code::Ok) {
      if (begun_ == given_) {
        return {nullptr, status};
      }
      break;
    }
  }
  const Slab& slab = *slabs_[given_ % slabs_.size()];
  device_->follow(stream, slab.copied);
  ++given_;
  held_ = true;
  return {&slab.host, slab.status};
}

void* DeviceRing::device_address(const void* host_address) const {
  if (held_) {
    const Slab& slab = *slabs_[(given_ - 1) % slabs_.size()];
    const auto* const byte = static_cast<const std::byte*>(host_address);
    if (const std::less<> before;
        !before(byte, slab.block.data()) && before(byte, slab.block.data() + slab.block.size())) {
      return slab.device_block + (byte - slab.block.data());
    }
  }
  base::refuse(base::Call{"DeviceRing::at"},
               "the memory is not in the batch that next has given last");
}

}  // namespace reprise
