#include "record/compression.hpp"

#include <zstd.h>

#include <new>

namespace reprise::record {
namespace {

template <class T>
T* checked(T* context) {
  if (context == nullptr) {
    throw std::bad_alloc();
  }
  return context;
}

}  // namespace

struct Compressor::Context {
  Context() : zstd(checked(ZSTD_createCCtx())) {}
  ~Context() { ZSTD_freeCCtx(zstd); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ZSTD_CCtx* zstd;
};

Compressor::Compressor(int level) : context_(std::make_unique<Context>()), level_(level) {}
Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

std::size_t Compressor::compress(Bytes raw, Room room) noexcept {
  const std::size_t size =
      ZSTD_compressCCtx(context_->zstd, room.data(), room.size(), raw.data(), raw.size(), level_);
  return ZSTD_isError(size) != 0 ? 0 : size;
}

struct Decompressor::Context {
  Context() : zstd(checked(ZSTD_createDCtx())) {}
  ~Context() { ZSTD_freeDCtx(zstd); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ZSTD_DCtx* zstd;
};

Decompressor::Decompressor() : context_(std::make_unique<Context>()) {}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

bool Decompressor::decompress(Bytes stored, Room room) noexcept {
  // zstd returns an error as a number far above any size.
  return ZSTD_decompressDCtx(context_->zstd, room.data(), room.size(), stored.data(),
                             stored.size()) == room.size();
}

}  // namespace reprise::record
