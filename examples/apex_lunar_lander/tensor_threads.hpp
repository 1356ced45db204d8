#pragma once

namespace apex {

/// One libtorch and BLAS thread for each thread of ours: the matrices are too small to share, and
/// the actors need the other cores. Call it in every thread that uses tensors.
void use_one_tensor_thread();

}  // namespace apex
