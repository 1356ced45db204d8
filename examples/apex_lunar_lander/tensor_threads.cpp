#include "tensor_threads.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace apex {

void use_one_tensor_thread() {
  at::set_num_threads(1);
  // Which BLAS is loaded is the machine's choice; only OpenBLAS has threads of its own.
  if (void* const function = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(function)(1);
  }
}

}  // namespace apex
