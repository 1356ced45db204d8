#include <reprise/batch.hpp>

#include <cstdint>
#include <span>

// A column of int32 cannot be read as float.
void read(const reprise::Batch& batch, reprise::ScalarColumn<std::int32_t> action) {
#ifdef WITH_MISTAKE
  const std::span<float> actions = batch.now(action);
#else
  const std::span<std::int32_t> actions = batch.now(action);
#endif
  static_cast<void>(actions);
}
