#include <reprise/device_ring.hpp>

#include "binding/numpy.hpp"
#include "sampler.hpp"

#include <array>
#include <cstddef>

namespace reprise::python {
namespace {

/// reprise._RowMirror: for reprise.torch.mirror.
class RowMirrorObject {
 public:
  explicit RowMirrorObject(nb::handle sampler)
      : sampler_(nb::borrow(sampler)),
        mirror_(std::get<Sampler>(self_of<SamplerObject>(sampler.ptr()).sampler())) {}

  [[nodiscard]] nb::object schema() const {
    return make_object<Schema>(self_of<SamplerObject>(sampler_.ptr()).origin().schema());
  }
  [[nodiscard]] std::size_t rows() const { return mirror_.layout().rows; }
  [[nodiscard]] std::size_t row_bytes() const { return mirror_.layout().row_bytes; }
  [[nodiscard]] nb::object offsets() const { return to_python(mirror_.layout().offsets); }
  nb::object new_rows() {
    const RowMirror::NewRows found = mirror_.new_rows();
    const std::array<std::size_t, 2> shape{found.rows.size(), row_bytes()};
    const auto copy = [](DType dtype, std::span<const std::size_t> dimensions, auto from) {
      nb::object made = empty_array(dtype, dimensions);
      std::ranges::copy(std::as_bytes(from), Array(made).data());
      return made;
    };
    return nb::make_tuple(copy(DType::I64, std::span(shape).first(1), found.rows),
                          copy(DType::U8, shape, found.bytes));
  }

 private:
  const nb::object sampler_;  ///< It outlives the mirror.
  RowMirror mirror_;
};

void make(RowMirrorObject* place, CallName call, Given<"Sampler"> sampler) {
  check_kind(nb::isinstance<SamplerObject>(sampler) &&
                 std::holds_alternative<Sampler>(self_of<SamplerObject>(sampler.ptr()).sampler()),
             sampler, {call.text, "sampler"}, "a Sampler of a buffer of this process");
  new (place) RowMirrorObject(sampler);
}

}  // namespace

void bind_mirror(nb::module_& module) {
  using Self = RowMirrorObject;
  Type<Self>("_RowMirror", "Which rows of a buffer a device lacks; for reprise.torch.mirror.")
      .constructor<&make>("sampler: its batches have keys, weights and probabilities from now on.",
                          arg("sampler"))
      .property<&Self::schema>("schema", "Schema", "Of the buffer.")
      .property<&Self::rows>("rows", "Rows that the copy has room for.")
      .property<&Self::row_bytes>("row_bytes", "Bytes of a row.")
      .property<&Self::offsets>("offsets", "list[int]", "Where each field begins in a row.")
      .method<&Self::new_rows>("new_rows", "tuple[NDArray[np.int64], NDArray[np.uint8]]",
                               "Rows that the draws since the last call have read for the first "
                               "time, [k], and their bytes, [k, row_bytes].")
      .add(module);
}

}  // namespace reprise::python
