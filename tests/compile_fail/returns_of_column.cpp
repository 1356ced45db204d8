#include <reprise/batch.hpp>

// Only rewards have returns; other columns of float do not.
void read(const reprise::Batch& batch, reprise::Reward reward, reprise::ScalarColumn<float> other) {
#ifdef WITH_MISTAKE
  static_cast<void>(reward);
  static_cast<void>(batch.returns(other));
#else
  static_cast<void>(other);
  static_cast<void>(batch.returns(reward));
#endif
}
