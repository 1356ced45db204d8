#include <reprise/batch.hpp>

#include <cstdint>

// Only observations have a next value.
void read(const reprise::Batch& batch, reprise::ScalarColumn<std::int32_t> action) {
#ifdef WITH_MISTAKE
  static_cast<void>(batch.next(action));
#else
  static_cast<void>(batch.now(action));
#endif
}
