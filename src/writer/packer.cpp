#include "writer/packer.hpp"

#include <bit>
#include <cstring>
#include <span>

namespace reprise::writer {

Packer::Packer(const buffer::Format& format, storage::ChunkStore& store)
    : store_(store),
      stride_(format.layout.stride()),
      mask_(std::bit_ceil(format.window.context_rows() + 1) - 1),
      rows_(std::make_unique_for_overwrite<std::byte[]>((std::size_t{mask_} + 1) * stride_)) {
  const std::vector<detail::FieldAccess>& from = format.layout.fields();
  const std::span<const FieldSpec> specs = format.schema.fields();
  for (const storage::CompressedField& field : format.chunk_layout.compressed()) {
    frames_.push_back({{from[field.field].offset, field.offset, field.bytes}, field.key});
  }
  if (format.window.continues()) {
    columns_.push_back({format.layout.observations_end(), format.chunk_layout.observations_end(),
                        sizeof(storage::StreamRow)});
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const RoleTraits& role = specs[i].traits();
    if (!format.schema.compresses(i) && !role.per_item) {
      (role.has_next ? observations_ : columns_)
          .push_back({from[i].offset, format.chunk_layout.fields()[i].offset, specs[i].bytes});
    }
  }
}

void Packer::enter(std::uint32_t chunk, std::uint32_t row) noexcept {
  chunk_ = chunk;
  packed_ = row;
  room_used_ = store_.frames_end(chunk, row);
}

void Packer::pack(std::uint32_t segment, std::uint32_t last) noexcept {
  // The row packed last, if it is of this segment, lacks its columns: they were written later.
  for (std::uint32_t row = packed_ > segment ? packed_ - 1 : segment; row < last; ++row) {
    copy(row, columns_);
  }
  for (; packed_ <= last; ++packed_) {
    copy(packed_, observations_);
    pack_frames(packed_);
  }
  store_.note_frames(chunk_, packed_, room_used_);
}

/// Packs the frames of a row. Those of the first row of a chunk are stored uncompressed: they are
/// the key frames of the others.
void Packer::pack_frames(std::uint32_t row) noexcept {
  const std::span<std::byte> room = store_.frame_room(chunk_);
  for (const Frame& frame : frames_) {
    const std::span<const std::byte> from(at(row) + frame.from, frame.bytes);
    std::byte* const to = room.data() + room_used_;
    storage::FrameRef ref{room_used_, static_cast<std::uint32_t>(frame.bytes)};
    if (row == 0) {
      std::memcpy(to, from.data(), frame.bytes);
    } else {
      ref.bytes = static_cast<std::uint32_t>(
          encoder_.encode(room.subspan(frame.key, frame.bytes), from, to));
    }
    std::memcpy(store_.row(chunk_, row) + frame.to, &ref, sizeof(ref));
    room_used_ += ref.bytes;
  }
}

void Packer::copy(std::uint32_t row, const std::vector<Copy>& fields) const noexcept {
  for (const Copy& field : fields) {
    std::memcpy(store_.row(chunk_, row) + field.to, at(row) + field.from, field.bytes);
  }
}

}  // namespace reprise::writer
