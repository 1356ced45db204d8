#pragma once

#include <reprise/detail/blob.hpp>

#include "binding/convert.hpp"
#include "binding/numpy.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace reprise::python {

/// The bytes of an object with a buffer, read in place.
struct Bytes {
  nb::object owner;
  std::span<const std::byte> bytes;
};
template <>
struct Conversion<Bytes> {
  static std::string hint() { return "Any"; }
  static Bytes from(nb::handle given, ArgumentName argument) {
    nb::object owner =
        vocabulary("bytes_of")(given, (argument.text() + " is").c_str(), /*writable=*/false);
    const Array array(owner);
    return {std::move(owner), {array.data(), array.size()}};
  }
};

/// An array over the bytes of a blob, which it keeps alive.
inline nb::object array_of(Blob bytes) {
  auto* const blob = new Blob(std::move(bytes));
  const auto destroy = [](PyObject* capsule) {
    delete static_cast<Blob*>(PyCapsule_GetPointer(capsule, nullptr));
  };
  PyObject* const owner = PyCapsule_New(blob, nullptr, destroy);
  if (owner == nullptr) {
    delete blob;
    throw nb::python_error();
  }
  const nb::object keeper = nb::steal(owner);
  return view_of(DType::U8, {{blob->bytes().size()}}, blob->bytes().data(), keeper);
}

}  // namespace reprise::python
