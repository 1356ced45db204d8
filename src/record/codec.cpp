#include "record/codec.hpp"

#include <limits>
#include <stdexcept>

namespace reprise::record {

void Encoder::bytes(Bytes bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::uint32_t Encoder::checked_count(std::size_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("checkpoint: a list of 2^32 elements or more");
  }
  return static_cast<std::uint32_t>(count);
}

std::string_view Decoder::string(std::size_t max_bytes) {
  const std::uint32_t length = u32();
  if (length > max_bytes) {
    refuse("a string of ", length, " bytes; allowed: ", max_bytes);
  }
  const Bytes text = bytes(length);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

Bytes Decoder::bytes(std::uint64_t n) {
  last_ = at_;
  if (n > left()) {
    refuse(n, " bytes should follow; there are ", left());
  }
  const Bytes result = bytes_.subspan(at_, static_cast<std::size_t>(n));
  at_ += result.size();
  return result;
}

std::uint32_t Decoder::count(std::size_t min_bytes) {
  const std::uint32_t n = u32();
  if (n > left() / min_bytes) {
    refuse("a count of ", n, " elements of at least ", min_bytes, " bytes; ", left(),
           " bytes follow");
  }
  return n;
}

void Decoder::finish() const {
  if (left() != 0) {
    throw damaged(file_, offset_ + at_, left(), " bytes that nothing explains");
  }
}

}  // namespace reprise::record
