// A libFuzzer target: a shard and a client read several blobs, which the input has changed and
// whose checksums are correct.
#include "remote/blobs.hpp"
#include "testing/library.hpp"

#include <cstdlib>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using reprise::test::Blobs;
using reprise::test::Bytes;

constexpr std::size_t kHead = 64;         ///< The size of a `BlobHeader`.
constexpr std::size_t kRequestHead = 40;  ///< The size of a `RequestHead`.

/// Reads numbers from the fuzzer's input; zeros after its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}
  [[nodiscard]] bool ended() const noexcept { return left_.empty(); }
  std::size_t byte() noexcept {
    if (left_.empty()) {
      return 0;
    }
    const std::uint8_t byte = left_.front();
    left_ = left_.subspan(1);
    return byte;
  }
  std::size_t number() noexcept {
    const std::size_t high = byte();
    return 256 * high + byte();
  }

 private:
  std::span<const std::uint8_t> left_;
};

/// Changes a blob's length, and some bytes from `BlobHeader::origin` on: the header's earlier
/// fields are the same in all valid blobs of a kind, or corrected later.
void change(Bytes& blob, Input& input) {
  constexpr std::size_t kFrom = 40;
  if (const std::size_t length = input.number(); length != 0) {
    blob.resize(length);
  }
  for (std::size_t changes = input.byte(); changes-- != 0;) {
    const std::size_t at = kFrom + input.number();
    const std::size_t bits = input.byte();
    if (at < blob.size()) {
      blob[at] ^= static_cast<std::byte>(bits);
    }
  }
}

/// Limits each draw of a request to 63 items, and its timeout to 0, because a valid request may ask
/// for gigabytes or wait for years. The layout is that of `remote::RequestHead` and `DrawRequest`,
/// with `RequestHead::waits` of 0.
void make_small(Bytes& request) {
  constexpr std::size_t kUpdate = 12;  // A key and a priority.
  constexpr std::size_t kDraw = 24;    // Its number of items comes first.
  std::uint64_t updates = 0;
  if (request.size() < kHead + kRequestHead) {
    return;
  }
  // A timeout with the highest bit stays as it is, because the shard has to refuse it.
  if ((request[kHead + 7] & std::byte{0x80}) == std::byte{0}) {
    std::memset(request.data() + kHead, 0, 8);
  }
  std::memcpy(&updates, request.data() + kHead + 8, sizeof(updates));
  const std::size_t rest = request.size() - kHead - kRequestHead;
  if (updates > rest / kUpdate) {
    return;
  }
  for (std::size_t at = kHead + kRequestHead + static_cast<std::size_t>(updates) * kUpdate;
       at + kDraw <= request.size(); at += kDraw) {
    std::uint64_t items = 0;
    std::memcpy(&items, request.data() + at, sizeof(items));
    items %= 64;
    std::memcpy(request.data() + at, &items, sizeof(items));
  }
}

/// Passes a changed copy of a blob to its reader. The input chooses the blob and the changes.
void pass_changed_blob(Blobs& blobs, const Bytes& answer, Input& input) {
  enum Kind : std::size_t { kShipment, kRequest, kAnswer };
  const std::array<const Bytes*, 3> intact{&blobs.shipment, &blobs.request, &answer};
  const std::size_t kind = input.byte() % intact.size();
  Bytes blob = *intact[kind];
  change(blob, input);
  if (kind == kRequest) {
    make_small(blob);
  }
  reprise::test::fix_checksum(blob);
  if (kind == kShipment) {
    (void)blobs.shard.append(blob, std::chrono::nanoseconds(0));
  } else if (kind == kRequest) {
    (void)blobs.shard.exchange(blob);
  } else {
    blobs.client.answer(0, blob);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Blobs blobs(input.byte() % 2 == 0 ? Blobs::Items::Sequences : Blobs::Items::Transitions);
  const Bytes answer = reprise::test::copy_of(blobs.shard.exchange(blobs.request));
  while (!input.ended()) {
    const std::string before = blobs.state();
    try {
      pass_changed_blob(blobs, answer, input);
    } catch (const std::invalid_argument&) {
      if (blobs.state() != before) {
        std::abort();
      }
    } catch (const std::runtime_error&) {  // NOLINT(bugprone-empty-catch): too many writers.
    }
  }
  // The buffer must be consistent, whatever blobs the shard got.
  if (blobs.replay.size() > blobs.replay.stats().resident_steps) {
    std::abort();
  }
  reprise::Sampler sampler = blobs.replay.sampler();
  (void)sampler.sample(16, {.timeout = std::chrono::nanoseconds(0)});
  return 0;
}
