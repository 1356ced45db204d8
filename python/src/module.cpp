#include "batch.hpp"
#include "dispatch.hpp"
#include "errors.hpp"
#include "fast_method.hpp"
#include "fields.hpp"
#include "options.hpp"
#include "prefetcher.hpp"
#include "sampler.hpp"
#include "scalars.hpp"
#include "segment_tree.hpp"
#include "shared_buffer.hpp"
#include "step_values.hpp"
#include "vector_writer.hpp"
#include "vocabulary.hpp"
#include "writer.hpp"

#include <pybind11/pybind11.h>

namespace reprise::python {

PYBIND11_MODULE(_reprise, module) {
  // Doc strings begin with the signature that inspect and help show: f(self, /, x) for methods of
  // pybind11, which Python binds as it binds its own, and f($self, /, x) for fast methods.
  py::options options;
  options.disable_function_signatures();
  module.doc() = "The C++ part of package reprise.";
  init_vocabulary();
  define_strategies();
  init_scalars();
  init_keywords();
  bind_errors(module);
  bind_schema(module);
  bind_batch(module);
  bind_writer(module);
  bind_vector_writer(module);
  bind_sampler(module);
  bind_prefetcher(module);
  bind_buffer(module);
  bind_segment_tree(module);
  refuse_without_init(module);
  name_wrong_arguments(module);
  module.attr("__version__") = REPRISE_VERSION;
}

}  // namespace reprise::python
