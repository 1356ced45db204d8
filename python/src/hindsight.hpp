#pragma once

#include <reprise/hindsight.hpp>

#include "buffer_object.hpp"
#include "fields.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace reprise::python {

/// reprise.Hindsight: gives items goals of their own episode.
class HindsightObject {
 public:
  HindsightObject(std::shared_ptr<SharedBuffer> buffer, const FieldInfo& achieved,
                  const HindsightOptions& options);

  [[nodiscard]] Entered enter(const char* call) { return {in_use_, "Hindsight", *buffer_, call}; }
  nb::object relabel(const Arguments& arguments);

 private:
  std::shared_ptr<SharedBuffer> buffer_;
  std::vector<std::size_t> shape_;  ///< Of one goal.
  DType type_;
  Hindsight hindsight_;
  unsigned made_after_;  ///< `SharedBuffer::restored`; it knows only that buffer.
  bool in_use_ = false;
};

[[nodiscard]] nb::object make_hindsight(BufferObject& buffer, const Arguments& arguments);

void bind_hindsight(nb::module_& module);

}  // namespace reprise::python
