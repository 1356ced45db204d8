#include "vocabulary.hpp"

namespace reprise::python {
namespace {

nb::object& module() {
  static auto& made = *new nb::object;
  return made;
}

}  // namespace

nb::object vocabulary(const char* name) {
  return module().attr(name);
}

void init_vocabulary() {
  module() = nb::module_::import_("reprise._vocabulary");
}

}  // namespace reprise::python
