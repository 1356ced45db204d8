#include "binding/type.hpp"
#include "fields/fields.hpp"

namespace reprise::python {

void bind_batch(nb::module_& module);
void bind_buffer(nb::module_& module);
void bind_guest(nb::module_& module);
void bind_mix(nb::module_& module);
void bind_remote(nb::module_& module);
void bind_schema(nb::module_& module);
void bind_segment_tree(nb::module_& module);
void bind_shard(nb::module_& module);
void bind_strategies(nb::module_& module);

NB_MODULE(_reprise, module) {
  // Threads may hold objects until the process ends, so leaks are no errors.
  nb::set_leak_warnings(false);
  module.doc() = "The C++ part of package reprise.";
  init_numpy();
  init_scalars();
  vocabulary_module() = nb::module_::import_("reprise._vocabulary");
  bind_errors(module);
  bind_schema(module);
  bind_batch(module);
  bind_buffer(module);
  bind_guest(module);
  bind_mix(module);
  bind_remote(module);
  bind_segment_tree(module);
  bind_shard(module);
  bind_strategies(module);
  module.attr("_signatures") = signatures();
  module.attr("__version__") = REPRISE_VERSION;
}

}  // namespace reprise::python
