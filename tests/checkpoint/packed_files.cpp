#include "packed_files.hpp"

#include "checkpoint/names.hpp"
#include "record/codec.hpp"
#include "testing/library.hpp"

namespace reprise::test {
namespace {

constexpr std::uint8_t kManifests = 10;

std::string name_of(std::uint8_t kind) {
  return kind < kManifests ? checkpoint::manifest_name(kind + 1U)
                           : checkpoint::data_name({kind / 4U % 4U, kind % 4U});
}

}  // namespace

void for_each_packed(record::Bytes bytes,
                     const std::function<void(std::string, record::Bytes)>& each) {
  record::Decoder decoder(bytes, "input");
  constexpr std::size_t kEntry = 5;
  while (decoder.left() >= kEntry) {
    const std::uint8_t kind = decoder.u8();
    const std::size_t length = std::min<std::size_t>(decoder.u32(), decoder.left());
    each(name_of(kind), decoder.bytes(length));
  }
}

MemoryFiles unpack(std::span<const std::byte> bytes) {
  MemoryFiles files;
  for_each_packed(bytes, [&files](const std::string& name, record::Bytes contents) {
    files[name].assign(contents.begin(), contents.end());
  });
  return files;
}

std::vector<std::byte> pack(const MemoryFiles& files) {
  record::Encoder encoder;
  for (unsigned kind = 0; kind < 256; ++kind) {
    const auto named = files.find(name_of(static_cast<std::uint8_t>(kind)));
    // There are names of 16 data files, so later values of `kind` repeat them.
    const bool repeated = kind >= kManifests + 16U;
    if (named != files.end() && !repeated) {
      encoder.u8(static_cast<std::uint8_t>(kind));
      encoder.u32(static_cast<std::uint32_t>(named->second.size()));
      encoder.bytes(named->second);
    }
  }
  return std::move(encoder).take();
}

}  // namespace reprise::test
